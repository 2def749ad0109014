"""Combines what batch systems, samples and feature directories tell about the node's jobs."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from jobfeatures.batch import SYSTEMS, BatchSettings
from jobfeatures.jobs.evidence import Group, JobObservation
from jobfeatures.jobs.roster import Roster
from jobfeatures.jobs.suspension import SuspensionRules
from jobfeatures.records.model import Job, JobKey
from jobfeatures.status.board import StatusTarget
from jobfeatures_exporter.model.snapshot import Snapshot
from jobfeatures_exporter.node.nodeboard import NodeBoard


class Knowledge:
    """Decides which jobs are on the node, and sets `jobs` and `known_jobs` of the `NodeBoard` accordingly.

    It uses the batch systems' answers, the control groups of the latest sample and the feature
    directories.
    """

    def __init__(self, board: NodeBoard) -> None:
        self._board = board
        self._roster = Roster(suspension_rules_of(board.config.shared.batch))
        self._lock = threading.Lock()
        self._published: Mapping[JobKey, float] = {}
        self._to_sample_last: dict[JobKey, Job] = {}  # jobs with a reported end that need a last sample
        self.ending: Mapping[JobKey, Job] = {}  # jobs whose last sample is being taken

    def remember(self, published: Iterable[JobObservation]) -> None:
        """Add the jobs for which an earlier daemon made the feature directories that still exist."""
        self._roster.remember(published)

    def note_epilogs(self, withdrawn: Mapping[JobKey, float | None]) -> bool:
        """Record jobs whose feature directories an epilog has removed; return whether there are any.

        `withdrawn` has the Unix time of each removal; None: unknown.
        """
        with self._lock:
            self._roster.note_epilogs(withdrawn)
        return bool(withdrawn)

    def judge(self, published: Mapping[JobKey, float] | None = None) -> bool:
        """Decide by the latest data which jobs are here, and return whether feature directories must change.

        The jobs are set on the board. A sample is requested if one has ended. `published` has the Unix time
        of the last change of each feature directory; None: as given in the last call. Threads may call this
        concurrently.
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

    def request_sample_if_unseen(self) -> None:
        """Request a sample now if the next is far off and a job reported here has no known control group.

        Any thread may call this.
        """
        board = self._board
        if board.pause_secs > board.config.sample_interval_secs and not self.are_all_seen():
            board.samples.wanted.set()

    def are_all_seen(self) -> bool:
        """Return whether the latest sample has a control group of each job reported to be on this node."""
        snapshot = self._board.samples.snapshot
        samples = {} if snapshot is None else snapshot.jobs
        return all(key in samples and samples[key].in_group for key in self.on_node())

    def begin_sample(self) -> None:
        """Set `ending` to the jobs that have ended since the last sample: the next sample is their last."""
        with self._lock:
            self.ending, self._to_sample_last = self._to_sample_last, {}

    def on_node(self) -> Mapping[JobKey, Job]:
        """Return the jobs reported to be on the node, and the ended ones that get their last sample."""
        here = {key: job for key, job in self._board.jobs.items() if job.state.is_on_node}
        return {**self.ending, **here}

    def status_targets(self) -> dict[JobKey, StatusTarget]:
        """Return the directory $JOBSTATUS, uid and CPUs of each job on this node whose uid is known."""
        return {
            key: StatusTarget(self._board.tree.status_path(key), job.uid, job.allocated_cpus)
            for key, job in self._board.jobs.items()
            if job.state.is_on_node and job.uid is not None
        }

    def seen(self) -> tuple[frozenset[JobKey], frozenset[JobKey]]:
        """Return the jobs with processes in the latest sample, and the jobs with an empty control group.

        The second set includes jobs that their batch system has yet to confirm. A job is in neither set if
        its epilog has run since the sample, or if the last answer of its batch system is out of date.
        """
        living: set[JobKey] = set()
        empty: set[JobKey] = set()
        if (snapshot := self._board.samples.snapshot) is not None:
            empty.update(snapshot.unconfirmed)
            suspects, taken_at_secs = self._roster.suspects, snapshot.taken_at_secs
            for key, sample in snapshot.jobs.items():
                if not isinstance(key, JobKey) or key in suspects or sample.has_place_in_id:
                    continue
                if not self._roster.has_left(key, taken_at_secs):
                    (living if sample.processes else empty).add(key)
        return frozenset(living), frozenset(empty)


def suspension_rules_of(config: BatchSettings) -> SuspensionRules:
    """Return which batch systems do not report suspended jobs, and which extend their wall limits."""
    asked = {name for name in SYSTEMS if getattr(config.of(name).own, "ask", None) == "controller"}
    return SuspensionRules(
        silent=frozenset(name for name, each in SYSTEMS.items() if not each.reports_suspension) - asked,
        waiting=frozenset(name for name, each in SYSTEMS.items() if each.suspension_extends_limit),
    )


def populated_groups(snapshot: Snapshot | None) -> dict[JobKey, Group]:
    """Return, for each batch job with processes in its control groups, what was read of these groups."""
    if snapshot is None:
        return {}
    return {
        key: Group(sample.uid, sample.alias, sample.is_frozen)
        for key, sample in snapshot.jobs.items()
        if isinstance(key, JobKey) and sample.in_group and sample.processes and not sample.has_place_in_id
    }


def find_swap_limits(snapshot: Snapshot | None) -> dict[JobKey, int]:
    """Return each job's swap limit in bytes, as set by its control groups; jobs without one are left out."""
    samples = {} if snapshot is None else snapshot.jobs
    return {
        key: sample.memory.swap_limit
        for key, sample in samples.items()
        if isinstance(key, JobKey) and sample.memory.swap_limit is not None
    }
