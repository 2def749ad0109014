"""Finds jobs that their batch system reports as running here, without a control group."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Mapping

from jobfeatures.batch import SYSTEMS
from jobfeatures.errors import printable
from jobfeatures.records.combining import grouped
from jobfeatures.records.model import Job, JobKey, JobState, JobTable
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.model.missing import DaemonGroups, JobsWithoutGroup, Reason
from jobfeatures_exporter.model.snapshot import Snapshot
from jobfeatures_exporter.state.daemongroups import GroupReader, parent_of

log = logging.getLogger(__name__)

PATIENCE_SECS = 60.0  # a job in its prolog has no group yet
AGAIN_SECS = 300.0
DOCTOR = "jobfeatures-exporter doctor says what to set"
MAX_ASKED = 16  # processes of a job


def find_missing(
    jobs: Mapping[JobKey, Job], snapshot: Snapshot, tables: Collection[JobTable]
) -> dict[JobKey, Reason | None]:
    """Return the running jobs without a control group, and why each may have none.

    None instead of a reason means that the job should have one. `tables` are the batch systems' latest
    answers, which may say of a job that it gets no group.
    """
    groupless = frozenset[JobKey]().union(*(each.groupless for each in tables))
    found: dict[JobKey, Reason | None] = {}
    for key, job in jobs.items():
        sample = snapshot.jobs.get(key)
        has_group = key in snapshot.unconfirmed or (sample is not None and sample.in_group)
        if job.state is JobState.RUNNING and not has_group:
            makes_groups = key.batch_system in SYSTEMS and SYSTEMS[key.batch_system].has_groups
            found[key] = None if makes_groups and key not in groupless else Reason.EXPECTED
    return found


def judge_jobs(
    system: str, job_ids: Collection[str], snapshot: Snapshot, groups: GroupReader
) -> tuple[dict[JobKey, Reason], DaemonGroups]:
    """Return why each of some jobs has no control group, and the group of their batch system's daemon.

    The reason is EXPECTED if none of the groups of the job's processes looks like a job's, or if all
    processes started by the batch system's daemon are in the daemon's own group. Otherwise it is FOUND: the
    job should have a group.
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
    """Follows running jobs without a control group; `latest` has those that have had none for a minute.

    After that minute, the job's processes are examined to find out whether it should have a group; if not,
    again every 5 minutes. While some job of a batch system should have one, one warning names the system's
    daemon and the daemon's group.
    """

    def __init__(self, clock: Clock, groups: GroupReader) -> None:
        self._clock = clock
        self._groups = groups
        self._since: dict[JobKey, float] = {}  # monotonic
        self._judged: dict[JobKey, Reason] = {}  # by processes
        self._judge_again_secs = 0.0  # monotonic
        self.latest = JobsWithoutGroup()

    def follow(self, jobs: Mapping[JobKey, Job], snapshot: Snapshot, tables: Collection[JobTable]) -> None:
        """Update `latest` from one sample of the node; `tables` are the batch systems' latest answers."""
        now_secs = self._clock.monotonic_secs()
        missing = find_missing(jobs, snapshot, tables)
        self._since = {key: self._since.get(key, now_secs) for key in missing}
        late = {key: why for key, why in missing.items() if now_secs - self._since[key] >= PATIENCE_SECS}
        unexplained = {key for key, why in late.items() if why is None}
        is_due = now_secs >= self._judge_again_secs
        if is_due:
            self._judge_again_secs = now_secs + AGAIN_SECS
        self._judged = {
            key: why
            for key, why in self._judged.items()
            if key in unexplained and not (is_due and why is Reason.EXPECTED)
        }
        daemons = dict(self.latest.daemons)
        for system, ids in grouped(unexplained - self._judged.keys()).items():
            judged, daemon = judge_jobs(system, ids, snapshot, self._groups)
            self._judged.update(judged)
            if Reason.FOUND in judged.values() and system not in daemons:
                self._tell(system, min(ids), daemon)
                daemons[system] = daemon
        reasons = {key: why or self._judged[key] for key, why in late.items()}
        systems = {key.batch_system for key, why in reasons.items() if why is Reason.FOUND}
        self.latest = JobsWithoutGroup(
            reasons, {name: each for name, each in daemons.items() if name in systems}
        )

    @staticmethod
    def _tell(system: str, job_id: str, daemon: DaemonGroups) -> None:
        log.warning(
            "no control group of a running job is found, so its CPU time and memory are unknown; %s; %s",
            describe(daemon),
            DOCTOR,
            extra={"source": system, "job": job_id},
        )


def describe(daemon: DaemonGroups) -> str:
    """Return a sentence on the control group of a batch system's daemon."""
    if daemon.group is None:
        return f"{daemon.daemon} is not seen"
    if not daemon.group:
        return f"{daemon.daemon}'s control group cannot be read"
    return f"{daemon.daemon}'s control group is {printable(daemon.group)}"
