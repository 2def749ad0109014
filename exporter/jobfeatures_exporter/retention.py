"""The last values of jobs that have ended, kept for a while: pure but for what it remembers.

A job that ends between two scrapes would else be shown with what it had at the
last scrape of its life, or never.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jobfeatures.model import Job, JobKey, JobState
from jobfeatures_exporter.snapshot import JobGpu, JobSample, Snapshot

MAX_ENDED = 10_000


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that is no longer seen on the node: its last figures, and what was known of it."""

    sample: JobSample
    job: Job
    ended_at_secs: float  # since the epoch: by its batch system, else when we noticed
    gpus: tuple[JobGpu, ...] = field(default=())


@dataclass(slots=True)
class _Kept:
    """One such job; `noticed_at` is monotonic."""

    ended: EndedJob
    noticed_at: float
    was_shown: bool = False


class Retention:
    """Keeps ended jobs for `retain_secs`, and until a scrape has shown them; `max_ended` at most.

    A job has ended here when its control groups or processes are gone. What
    its batch system says of its end by then or later is taken over. A job that
    comes back, because it was requeued, is no ended one any more.
    """

    def __init__(self, retain_secs: float, *, max_ended: int = MAX_ENDED) -> None:
        self.retain_secs = retain_secs
        self._max_ended = max_ended
        self._living: dict[JobKey, EndedJob] = {}  # as they would be kept if they were gone now
        self._kept: dict[JobKey, _Kept] = {}  # oldest first
        self._snapshot: Snapshot | None = None

    def update(
        self,
        snapshot: Snapshot,
        jobs: Mapping[JobKey, Job],
        *,
        now_secs: float,
        shown: Mapping[JobKey, EndedJob],
    ) -> Mapping[JobKey, EndedJob]:
        """Take one look; return the ended jobs that are to be shown.

        `now_secs` is monotonic; `shown` are those of the latest scrape that was answered.
        """
        living = self._look(snapshot, jobs)
        gone = {key: last for key, last in self._living.items() if key not in living}
        renamed = _find_renamed(self._snapshot, snapshot) if gone else frozenset()
        self._snapshot = snapshot
        for key, last in gone.items():
            if key not in renamed:
                sample = snapshot.final.get(key, last.sample)
                ended = replace(last, sample=sample, ended_at_secs=snapshot.taken_at_secs)
                self._kept[key] = _Kept(ended, now_secs)
        self._living = living
        for key, kept in list(self._kept.items()):
            if (seen := shown.get(key)) is not None and seen.sample is kept.ended.sample:
                kept.was_shown = True
            is_due = kept.was_shown and now_secs - kept.noticed_at >= self.retain_secs
            if key in living or is_due:
                del self._kept[key]
            else:
                kept.ended = _informed(kept.ended, jobs.get(key))
        for key in list(self._kept)[: max(0, len(self._kept) - self._max_ended)]:
            del self._kept[key]
        return {key: kept.ended for key, kept in self._kept.items()}

    def _look(self, snapshot: Snapshot, jobs: Mapping[JobKey, Job]) -> dict[JobKey, EndedJob]:
        gpus: dict[JobKey, tuple[JobGpu, ...]] = {}
        for gpu in snapshot.job_gpus:
            if isinstance(gpu.key, JobKey):
                gpus[gpu.key] = (*gpus.get(gpu.key, ()), gpu)
        living = {}
        for key, sample in snapshot.jobs.items():
            if isinstance(key, JobKey):
                before = self._living.get(key)
                job = jobs.get(key) or (before.job if before is not None else Job(key=key))
                living[key] = EndedJob(sample, job, snapshot.taken_at_secs, gpus.get(key, ()))
        return living


def _find_renamed(before: Snapshot | None, now: Snapshot) -> frozenset[JobKey]:
    """Return the jobs whose processes are another job's now: their number has been found.

    They have not ended. Until then a job of Slurm's may stand under its SLUID,
    one of HTCondor's under its slot.
    """
    renamed: set[JobKey] = set()
    for pid, key in before.keys.items() if before is not None else ():
        other = now.keys.get(pid)
        if isinstance(key, JobKey) and isinstance(other, JobKey) and other != key and before is not None:
            last, process = before.processes.get(pid), now.processes.get(pid)
            if last is not None and process is not None and last.start_ticks == process.start_ticks:
                renamed.add(key)
    return frozenset(renamed)


def _informed(ended: EndedJob, job: Job | None) -> EndedJob:
    """Return the same with what its batch system says now; that it runs is not true any more."""
    if job is None:
        if not ended.job.state.is_on_node:
            return ended
        return replace(ended, job=replace(ended.job, state=JobState.UNKNOWN))
    at_secs = ended.ended_at_secs if job.end_secs is None else float(job.end_secs)
    if job is ended.job and at_secs == ended.ended_at_secs:
        return ended
    return replace(ended, job=job, ended_at_secs=at_secs)
