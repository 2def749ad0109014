"""Jobs that run here by their batch system's word and have no control group."""

from __future__ import annotations

import enum
import itertools
import logging
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from jobfeatures.batch import SYSTEMS
from jobfeatures.errors import printable
from jobfeatures.records.combining import grouped
from jobfeatures.records.model import Job, JobKey, JobState, JobTable
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.snapshot import Snapshot
from jobfeatures_exporter.state.daemongroups import DaemonGroups, GroupReader, parent_of

log = logging.getLogger(__name__)

PATIENCE_SECS = 60.0  # a job in its prolog has no group yet
AGAIN_SECS = 300.0
DOCTOR = "jobfeatures-exporter doctor says what to set"
MAX_ASKED = 16  # processes of a job


class Reason(enum.Enum):
    """Why a running job has no control group."""

    FOUND = "no_group_found"  # it should have one: its figures are missing
    EXPECTED = "no_group_expected"  # its batch system makes none for it, or not yet


@dataclass(frozen=True, slots=True)
class Missing:
    """The jobs without a group, and where the daemons of those stand that should have one."""

    reasons: Mapping[JobKey, Reason] = field(default_factory=dict)
    daemons: Mapping[str, DaemonGroups] = field(default_factory=dict)  # by batch system

    @property
    def not_found(self) -> tuple[JobKey, ...]:
        """Return the jobs that should have a group."""
        return tuple(sorted(key for key, each in self.reasons.items() if each is Reason.FOUND))

    @property
    def counts(self) -> dict[Reason, int]:
        """Return how many jobs each reason has, without reasons that none has."""
        return dict(Counter(self.reasons.values()))


def find_missing(
    jobs: Mapping[JobKey, Job], snapshot: Snapshot, tables: Collection[JobTable]
) -> dict[JobKey, Reason | None]:
    """Return the running jobs without a group; None: one is to be expected, as far as batch systems say."""
    groupless = frozenset[JobKey]().union(*(each.groupless for each in tables))
    found: dict[JobKey, Reason | None] = {}
    for key, job in jobs.items():
        sample = snapshot.jobs.get(key)
        has_group = key in snapshot.claims or (sample is not None and sample.in_group)
        if job.state is JobState.RUNNING and not has_group:
            makes_groups = key.batch_system in SYSTEMS and SYSTEMS[key.batch_system].has_groups
            found[key] = None if makes_groups and key not in groupless else Reason.EXPECTED
    return found


def judge_jobs(
    system: str, job_ids: Collection[str], snapshot: Snapshot, groups: GroupReader
) -> tuple[dict[JobKey, Reason], DaemonGroups]:
    """Judge jobs without a group by their processes and by their batch system's.

    None is to be expected where the job's own are seen in no group that could be a job's, or where all that
    descends from the daemon stands in its group.
    """
    daemon = groups.of_system(system, job_ids)
    keys = [JobKey(system, each) for each in job_ids]
    return {
        key: Reason.EXPECTED if daemon.makes_none or _stands_apart(key, snapshot, groups) else Reason.FOUND
        for key in keys
    }, daemon


def _stands_apart(key: JobKey, snapshot: Snapshot, groups: GroupReader) -> bool:
    own = (pid for pid, owner in snapshot.keys.items() if owner == key)
    paths = [groups.paths(pid) for pid in itertools.islice(own, MAX_ASKED)]
    number = key.job_id.partition("@")[0]
    if not all(paths):
        return False  # where they stand cannot be told
    return bool(paths) and all(parent_of(path, number) is None for each in paths for path in each)


class MissingGroups:
    """Follows them from sample to sample: a job counts after a minute without a group.

    Processes are looked at then, and again now and then if it needs none. The daemon of jobs that should have
    a group is named in the log, once while there are such jobs.
    """

    def __init__(self, clock: Clock, groups: GroupReader) -> None:
        self._clock = clock
        self._groups = groups
        self._since: dict[JobKey, float] = {}  # monotonic
        self._judged: dict[JobKey, Reason] = {}  # by processes
        self._judge_again_secs = 0.0  # monotonic
        self.latest = Missing()

    def follow(self, jobs: Mapping[JobKey, Job], snapshot: Snapshot, tables: Collection[JobTable]) -> None:
        """Judge a sample."""
        now_secs = self._clock.monotonic_secs()
        missing = find_missing(jobs, snapshot, tables)
        self._since = {key: self._since.get(key, now_secs) for key in missing}
        late = {key: why for key, why in missing.items() if now_secs - self._since[key] >= PATIENCE_SECS}
        doubted = {key for key, why in late.items() if why is None}
        is_due = now_secs >= self._judge_again_secs
        if is_due:
            self._judge_again_secs = now_secs + AGAIN_SECS
        self._judged = {
            key: why
            for key, why in self._judged.items()
            if key in doubted and not (is_due and why is Reason.EXPECTED)
        }
        daemons = dict(self.latest.daemons)
        for system, ids in grouped(doubted - self._judged.keys()).items():
            judged, daemon = judge_jobs(system, ids, snapshot, self._groups)
            self._judged.update(judged)
            if Reason.FOUND in judged.values() and system not in daemons:
                self._tell(system, min(ids), daemon)
                daemons[system] = daemon
        reasons = {key: why or self._judged[key] for key, why in late.items()}
        systems = {key.batch_system for key, why in reasons.items() if why is Reason.FOUND}
        self.latest = Missing(reasons, {name: each for name, each in daemons.items() if name in systems})

    @staticmethod
    def _tell(system: str, job_id: str, daemon: DaemonGroups) -> None:
        log.warning(
            "a job runs here and no control group of it is found: no CPU time, no memory; %s; %s",
            describe(daemon),
            DOCTOR,
            extra={"source": system, "job": job_id},
        )


def describe(daemon: DaemonGroups) -> str:
    """Return where a daemon stands, in words."""
    if daemon.group is None:
        return f"{daemon.daemon} is not seen"
    if not daemon.group:
        return f"{daemon.daemon}'s control group cannot be told"
    return f"{daemon.daemon}'s control group is {printable(daemon.group)}"
