"""What the daemon knows of the node's jobs: what is judged when, and what its threads see of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from jobfeatures.clock import Clock
from jobfeatures.jobs.evidence import Group, JobObservation
from jobfeatures.model import Job, JobKey, JobTable
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.roster import EMPTY, Roll, Roster
from jobfeatures.status.board import StatusTarget
from jobfeatures_exporter.snapshot import Snapshot


class Knowledge:
    """Judges sources and control groups together; `jobs` and `roll` are replaced as a whole."""

    def __init__(self, clock: Clock, *, hold_secs: float) -> None:
        self._clock = clock
        self._roster = Roster(hold_secs=hold_secs)
        self._lock = threading.Lock()
        self._published: Mapping[JobKey, float] = {}
        self._last_looks: dict[JobKey, Job] = {}  # at jobs whose end was reported: due
        self.ending: Mapping[JobKey, Job] = {}  # and being taken
        self.jobs: Mapping[JobKey, Job] = {}
        self.roll: Roll = EMPTY

    def reconfigure(self, *, hold_secs: float) -> None:
        """Judge by another setting from now on."""
        self._roster.hold_secs = hold_secs

    def remember(self, published: Iterable[JobObservation]) -> None:
        """Begin with what an earlier daemon knew of the jobs that it published."""
        self._roster.remember(published)

    def note_epilogs(self, withdrawn: Mapping[JobKey, float | None]) -> bool:
        """Take note of epilogs that publishing noticed; tell whether there were any."""
        with self._lock:
            self._roster.note_epilogs(withdrawn)
        return bool(withdrawn)

    def judge(
        self,
        tables: Callable[[], Collection[JobTable]],
        snapshot: Callable[[], Snapshot | None],
        sources: Collection[str],
        published: Mapping[JobKey, float] | None = None,
    ) -> tuple[bool, bool]:
        """Bring what is known up to date; tell whether jobs have ended, and whether directories may differ.

        `tables` and `snapshot` are called in turn with other threads that
        judge: none goes back to what was known before. `sources` are the batch
        systems that are asked, `published` the directories, None: as they were.
        """
        with self._lock:
            if published is not None:
                self._published = published
            before, old = self.jobs, self.roll
            self.roll = self._roster.judge(
                tables(),
                now_secs=self._clock.now_secs(),
                groups=populated_groups(snapshot()),
                published=self._published,
                sources=sources,
            )
            self.jobs = self.roll.jobs
            ended = {
                key: job for key, job in before.items() if job.state.is_on_node and not self.is_on_node(key)
            }
            self._last_looks.update(ended)
        return bool(ended), self.roll.presences != old.presences

    def begin_look(self) -> None:
        """Note which jobs the next look at the node is the last at."""
        with self._lock:
            self.ending, self._last_looks = self._last_looks, {}

    def on_node(self) -> Mapping[JobKey, Job]:
        """Return the jobs whose processes are looked for: what a finished job left behind is not its own.

        It is looked at once more when its end is reported, for its last values.
        """
        return {**self.ending, **{key: job for key, job in self.jobs.items() if job.state.is_on_node}}

    def is_on_node(self, key: JobKey) -> bool:
        """Return whether a job is known to be here."""
        job = self.jobs.get(key)
        return job is not None and job.state.is_on_node

    def status_targets(self, tree: FeatureTree) -> dict[JobKey, StatusTarget]:
        """Return the jobs whose status is read."""
        return {
            key: StatusTarget(tree.status_path(key), job.uid, job.allocated_cpus)
            for key, job in self.jobs.items()
            if job.state.is_on_node and job.uid is not None
        }

    def seen(self, snapshot: Snapshot | None) -> tuple[frozenset[JobKey], frozenset[JobKey]]:
        """Return the jobs whose processes a look shows, and those that have empty groups.

        Left out are jobs that are to be asked about whether seen or not: whose epilog has run since,
        and whose batch system has been overtaken.
        """
        living: set[JobKey] = set()
        empty: set[JobKey] = set()
        if snapshot is not None:
            suspects, taken_at_secs = self._roster.suspects, snapshot.taken_at_secs
            for key, sample in snapshot.jobs.items():
                if not isinstance(key, JobKey) or key in suspects:
                    continue
                if not self._roster.has_left(key, taken_at_secs):
                    (living if sample.processes else empty).add(key)
        return frozenset(living), frozenset(empty)


def populated_groups(snapshot: Snapshot | None) -> dict[JobKey, Group]:
    """Return the batch jobs whose control groups hold processes."""
    if snapshot is None:
        return {}
    return {
        key: Group(sample.uid, sample.sluid)
        for key, sample in snapshot.jobs.items()
        if isinstance(key, JobKey) and sample.in_group and sample.processes
    }


def find_swap_limits(snapshot: Snapshot | None) -> dict[JobKey, int]:
    """Return the bytes of swap that control groups allow, of the jobs that they limit."""
    samples = {} if snapshot is None else snapshot.jobs
    return {
        key: sample.memory.swap_limit
        for key, sample in samples.items()
        if isinstance(key, JobKey) and sample.memory.swap_limit is not None
    }
