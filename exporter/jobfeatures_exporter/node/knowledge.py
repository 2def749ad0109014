"""What the daemon knows of the node's jobs, combined from batch systems, samples and directories."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from jobfeatures.batch import SYSTEMS, BatchSettings
from jobfeatures.jobs.evidence import Group, JobObservation
from jobfeatures.jobs.roster import Roster
from jobfeatures.jobs.suspension import Manners
from jobfeatures.records.model import Job, JobKey
from jobfeatures.status.board import StatusTarget
from jobfeatures_exporter.model.snapshot import Snapshot
from jobfeatures_exporter.node.nodeboard import NodeBoard


class Knowledge:
    """Sets the board's `jobs` and `known_jobs` by batch systems' answers, control groups and directories."""

    def __init__(self, board: NodeBoard) -> None:
        self._board = board
        self._roster = Roster(manners_of(board.config.shared.batch))
        self._lock = threading.Lock()
        self._published: Mapping[JobKey, float] = {}
        self._to_sample_last: dict[JobKey, Job] = {}  # jobs with a reported end that need a last sample
        self.ending: Mapping[JobKey, Job] = {}  # jobs whose last sample is being taken

    def remember(self, published: Iterable[JobObservation]) -> None:
        """Take over the jobs that an earlier daemon `published` in feature directories, as it knew them."""
        self._roster.remember(published)

    def note_epilogs(self, withdrawn: Mapping[JobKey, float | None]) -> bool:
        """Record jobs whose directories an epilog withdrew, and the Unix time; return whether any did."""
        with self._lock:
            self._roster.note_epilogs(withdrawn)
        return bool(withdrawn)

    def judge(self, published: Mapping[JobKey, float] | None = None) -> bool:
        """Set the board's jobs by all that the board has; return whether feature directories have to follow.

        A sample is requested if a job has ended. `published` has the Unix time of each feature directory's
        last change (None: as in the last call). All callers share a lock, so none reverts to older data.
        """
        board = self._board
        with self._lock:
            if published is not None:
                self._published = published
            before, old = board.jobs, board.known_jobs
            board.known_jobs = known_jobs = self._roster.judge(
                board.tables(),
                now_secs=board.clock.now_secs(),
                groups=populated_groups(board.samples.snapshot),
                published=self._published,
                sources=board.source_names,
            )
            board.jobs = jobs = known_jobs.jobs
            ended = {
                key: job
                for key, job in before.items()
                if job.state.is_on_node and not (key in jobs and jobs[key].state.is_on_node)
            }
            self._to_sample_last.update(ended)
        if ended:
            board.samples.wanted.set()
        return known_jobs.presences != old.presences

    def end_rest(self) -> None:
        """Request a sample if the next is far off and a job reported here has no group. From any thread."""
        board = self._board
        if board.pause_secs > board.config.sample_interval_secs and not self.are_all_seen():
            board.samples.wanted.set()

    def are_all_seen(self) -> bool:
        """Return whether the latest sample has a control group of each job that is reported to be here."""
        snapshot = self._board.samples.snapshot
        samples = {} if snapshot is None else snapshot.jobs
        return all(key in samples and samples[key].in_group for key in self.on_node())

    def begin_sample(self) -> None:
        """Note as `ending` the jobs for which the next sample is the last."""
        with self._lock:
            self.ending, self._to_sample_last = self._to_sample_last, {}

    def on_node(self) -> Mapping[JobKey, Job]:
        """Return the jobs reported to be on the node, and those of which the last sample is being taken."""
        here = {key: job for key, job in self._board.jobs.items() if job.state.is_on_node}
        return {**self.ending, **here}

    def status_targets(self) -> dict[JobKey, StatusTarget]:
        """Return status directory ($JOBSTATUS), uid and CPUs of each job on this node whose uid is known."""
        return {
            key: StatusTarget(self._board.tree.status_path(key), job.uid, job.allocated_cpus)
            for key, job in self._board.jobs.items()
            if job.state.is_on_node and job.uid is not None
        }

    def seen(self) -> tuple[frozenset[JobKey], frozenset[JobKey]]:
        """Return the jobs that have processes in the latest sample, and those with an empty control group.

        The latter include jobs that their batch system has yet to confirm. Jobs are in neither whose epilog
        has run since the sample, or whose batch system's answer is out of date: being seen proves nothing.
        """
        living: set[JobKey] = set()
        empty: set[JobKey] = set()
        if (snapshot := self._board.samples.snapshot) is not None:
            empty.update(snapshot.claims)
            suspects, taken_at_secs = self._roster.suspects, snapshot.taken_at_secs
            for key, sample in snapshot.jobs.items():
                if not isinstance(key, JobKey) or key in suspects or sample.is_apart:
                    continue
                if not self._roster.has_left(key, taken_at_secs):
                    (living if sample.processes else empty).add(key)
        return frozenset(living), frozenset(empty)


def manners_of(config: BatchSettings) -> Manners:
    """Return which batch systems do not report suspended jobs, and which extend their wall limits."""
    asked = {name for name in SYSTEMS if getattr(config.of(name).own, "ask", None) == "controller"}
    return Manners(
        silent=frozenset(name for name, each in SYSTEMS.items() if not each.tells_suspension) - asked,
        waiting=frozenset(name for name, each in SYSTEMS.items() if each.limit_waits),
    )


def populated_groups(snapshot: Snapshot | None) -> dict[JobKey, Group]:
    """Return what was read of the control groups of each batch job that has processes in them."""
    if snapshot is None:
        return {}
    return {
        key: Group(sample.uid, sample.alias, sample.is_frozen)
        for key, sample in snapshot.jobs.items()
        if isinstance(key, JobKey) and sample.in_group and sample.processes and not sample.is_apart
    }


def find_swap_limits(snapshot: Snapshot | None) -> dict[JobKey, int]:
    """Return the swap limits that control groups set, in bytes; jobs without a limit are left out."""
    samples = {} if snapshot is None else snapshot.jobs
    return {
        key: sample.memory.swap_limit
        for key, sample in samples.items()
        if isinstance(key, JobKey) and sample.memory.swap_limit is not None
    }
