"""Keeps the figures of ended jobs for a while. Does no I/O.

Otherwise, a job that ends between two scrapes would be shown with its values at
the last scrape before its end, or never. Counters and the peak of memory are kept;
other gauges are 0 or absent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from jobfeatures.jobs.evidence import find_difference
from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures_exporter.model.ended import EndedJob
from jobfeatures_exporter.model.snapshot import RunKey, Snapshot
from jobfeatures_exporter.sampling.groups.endings import emptied

MAX_ENDED = 10_000


@dataclass(slots=True)
class _Kept:
    """An ended job; `noticed_at` is monotonic."""

    ended: EndedJob
    noticed_at: float
    was_shown: bool = False


class Retention:
    """Keeps ended jobs for at least `retain_secs`, and until a scrape has shown them; `MAX_ENDED` at most.

    A job has ended on this node when its control groups and processes are gone, or if its batch system has
    reported the end and its control group is empty. If the batch system reports, even later, when the job
    ended, that time replaces our own. A job that comes back after a requeue no longer counts as ended.
    """

    def __init__(self, retain_secs: float) -> None:
        self.retain_secs = retain_secs
        self._living: dict[JobKey, Job] = {}  # jobs of the last snapshot
        self._bare: dict[RunKey, float] = {}  # since when their runs have had neither group nor process
        self._kept: dict[JobKey, _Kept] = {}  # oldest first
        self._snapshot: Snapshot | None = None
        self._ending: frozenset[JobKey] = frozenset()  # reported to have ended, and still sampled
        self._left: frozenset[JobKey] = frozenset()  # those whose control groups stay, without processes

    def take(
        self,
        snapshot: Snapshot,
        jobs: Mapping[JobKey, Job],
        last: Collection[JobKey],
        *,
        now_secs: float,
        shown: Mapping[JobKey, EndedJob],
    ) -> tuple[Snapshot, Mapping[JobKey, EndedJob]]:
        """Return the snapshot without jobs that have just ended, and all ended jobs by key.

        `jobs` are those that batch systems report. `last` are jobs whose end has been reported: their figures
        in this snapshot are their last. `now_secs` is monotonic; `shown` are the ended jobs in the latest
        scrape.
        """
        ending = frozenset(
            key
            for key in self._ending.union(last, self._emptied(snapshot, jobs))
            if key in snapshot.jobs and not (key in jobs and jobs[key].state.is_on_node)
        )
        empty = frozenset(key for key in ending if not snapshot.jobs[key].processes)
        self._left &= empty
        ended = self.update(snapshot, jobs, now_secs=now_secs, shown=shown)
        self._ending, self._left = ending, empty
        gone = {key for key in ending if not snapshot.jobs[key].in_group}
        if gone or self._left & self._living.keys():
            living = {key: sample for key, sample in snapshot.jobs.items() if key not in gone}
            snapshot = replace(snapshot, jobs=living)
            ended = self.update(snapshot, jobs, now_secs=now_secs, shown=shown)
        return snapshot, ended

    def _emptied(self, snapshot: Snapshot, jobs: Mapping[JobKey, Job]) -> frozenset[JobKey]:
        """Return finished jobs without processes, which they had in the last snapshot."""
        before = {} if self._snapshot is None else self._snapshot.jobs
        found = self._living.keys() & snapshot.jobs.keys() & jobs.keys()
        emptied = (key for key in found if before[key].processes and not snapshot.jobs[key].processes)
        return frozenset(key for key in emptied if jobs[key].state.is_finished)

    def update(
        self,
        snapshot: Snapshot,
        jobs: Mapping[JobKey, Job],
        *,
        now_secs: float,
        shown: Mapping[JobKey, EndedJob],
    ) -> Mapping[JobKey, EndedJob]:
        """Compare a snapshot with the last one; return the ended jobs to show. Arguments as in `take`."""
        last, self._snapshot = self._snapshot, snapshot
        before = {} if last is None else last.jobs
        begun = {key for key, each in before.items() if snapshot.jobs.get(key, each).run != each.run}
        living = {
            key: jobs.get(key) or (None if key in begun else self._living.get(key)) or Job(key=key)
            for key in snapshot.jobs
            if isinstance(key, JobKey) and key not in self._left
        }
        runs = [(key, snapshot.jobs[key]) for key in living]
        bare = [(key, each.run) for key, each in runs if not (each.in_group or each.processes)]
        gone, since = self._living.keys() - living.keys(), self._bare
        self._bare = {run: since.get(run, snapshot.taken_at_secs) for run in bare}
        if last is not None and gone:
            gone -= _find_renamed(last, snapshot)
            for key in [key for key in self._living if key in gone]:
                latest = last.jobs[key]
                if latest.alias is not None and latest.alias.stands_for(key):
                    continue  # its id was never known
                # Without a group its processes are only followed while its source names them.
                processes = None if latest.processes and not latest.in_group else 0
                ended = EndedJob(
                    emptied(snapshot.final.get(key, latest), processes=processes),
                    self._living[key],
                    since.get((key, latest.run), snapshot.taken_at_secs),
                    tuple(
                        replace(each, memory_bytes=None, ce_util_percent=None)
                        for each in last.job_gpus
                        if each.key == key
                    ),
                )
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
        for key in list(self._kept)[: max(0, len(self._kept) - MAX_ENDED)]:
            del self._kept[key]
        return {key: kept.ended for key, kept in self._kept.items()}


def _find_renamed(before: Snapshot, now: Snapshot) -> frozenset[JobKey]:
    """Return the jobs whose processes now belong to another key, because their job ID has been found.

    They have not ended. Until its ID is found, a Slurm job may be listed under its
    SLUID, an HTCondor job under its slot.
    """
    renamed: set[JobKey] = set()
    for pid, key in before.keys.items():
        other = now.keys.get(pid)
        if isinstance(key, JobKey) and isinstance(other, JobKey) and other != key:
            last, process = before.processes.get(pid), now.processes.get(pid)
            if last is not None and process is not None and last.start_ticks == process.start_ticks:
                renamed.add(key)
    return frozenset(renamed)


def _informed(ended: EndedJob, job: Job | None) -> EndedJob:
    """Return an ended job with what its batch system reports now; without a report, running becomes unknown.

    How a job ended is reported only once and stays. A report of a pending job, or with another user, restart
    count or SLUID, is about another run.
    """
    is_report = job is not None and job.state is not JobState.PENDING and not find_difference(job, ended.job)
    if job is None or not is_report or (job.state is JobState.UNKNOWN and ended.job.state.is_finished):
        if not ended.job.state.is_on_node:
            return ended
        return replace(ended, job=replace(ended.job, state=JobState.UNKNOWN))
    at_secs = ended.ended_at_secs if job.end_secs is None else float(job.end_secs)
    if job is ended.job and at_secs == ended.ended_at_secs:
        return ended
    return replace(ended, job=job, ended_at_secs=at_secs)
