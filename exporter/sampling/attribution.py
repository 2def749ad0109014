"""Which job a process belongs to, by its control group or by its ancestry: pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from exporter.snapshot import ProcessSample
from jobfeatures.model import Job, JobKey

SONAR_EPOCH_SECS = 1577836800  # 2020-01-01T00:00:00Z


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What a control group's path says. Exactly one of `job_id` and `sluid` is known."""

    batch_system: str
    job_id: str | None = None
    sluid: str | None = None  # Slurm's own unique id; the job's number is found elsewhere
    step: str | None = None
    node: str | None = None  # only where several emulated nodes share the host
    uid: int | None = None  # only in v1 paths


@dataclass(frozen=True, slots=True)
class BatchHierarchy:
    """How one batch system names control groups.

    `match` reads a path from the hierarchy's root. `job_directories` are the
    shapes, one pattern a level (fnmatch), of the directories of whole jobs.
    """

    name: str
    match: Callable[[str], Membership | None]
    job_directories: tuple[tuple[str, ...], ...]


_ID = r"[1-9][0-9]{0,9}"
_STEP = r"(?:/step_(?P<step>[A-Za-z0-9_.+-]{1,64}))?(?:/|\Z)"
_SLURM_V1 = re.compile(
    rf"/slurm(?:_(?P<node>[^/]{{1,255}}))?/uid_(?P<uid>0|{_ID})/job_(?P<job_id>{_ID}){_STEP}"
)
_SLURM_V2 = re.compile(
    r"/system\.slice/(?:(?P<node>[^/]{1,255})_)?slurmstepd\.scope/"
    rf"(?:job_(?P<job_id>{_ID})|(?P<sluid>s[0-9A-HJKMNP-TV-Z]{{13}})){_STEP}"
)


def match_slurm(path: str) -> Membership | None:
    """Return what a path of Slurm's says.

    Source: slurm.conf and cgroup.conf of Slurm 20.11 to 26.05, cgroup/v1 and cgroup/v2 plugins:
    ``/slurm[_NODE]/uid_U/job_J[/step_S[/task_T]]`` on v1,
    ``/system.slice/[NODE_]slurmstepd.scope/job_J[/step_S[/user/task_T]]`` on v2,
    where the job may be named by SLUID: ``s`` and 13 Crockford base-32 digits.
    """
    if match := _SLURM_V1.match(path):
        return Membership(
            batch_system="slurm",
            job_id=match["job_id"],
            step=match["step"],
            node=match["node"],
            uid=int(match["uid"]),
        )
    if match := _SLURM_V2.match(path):
        return Membership(
            batch_system="slurm",
            job_id=match["job_id"],
            sluid=match["sluid"],
            step=match["step"],
            node=match["node"],
        )
    return None


BATCH_HIERARCHIES = (
    BatchHierarchy(
        "slurm",
        match_slurm,
        (("slurm*", "uid_*", "job_*"), ("system.slice", "*slurmstepd.scope", "[js]*")),
    ),
)


def match_path(path: str, *, root: str = "") -> Membership | None:
    """Return whose control group a path from the hierarchy's root is, None where it is no job's.

    Only the start of a path proves anything: users may create groups of any
    name below groups that were delegated to them. `root` is the one prefix
    that is allowed, for a node that is itself a container.
    """
    prefix = root.rstrip("/")
    if not path.startswith(f"{prefix}/"):
        return None
    below = path[len(prefix) :].removesuffix(" (deleted)")
    for hierarchy in BATCH_HIERARCHIES:
        if membership := hierarchy.match(below):
            return membership
    return None


def parse_process_cgroup(text: str, *, root: str = "") -> Membership | None:
    """Return the job in the text of /proc/PID/cgroup, None for a process of no batch job; never raises.

    Source: cgroups(7), lines ``ID:CONTROLLERS:PATH``. Controllers may disagree
    on v1: slurmstepd joins the job in freezer only. The first line that names
    a step is the best answer, then the first that names a job.
    """
    best = None
    for line in text.split("\n"):
        _, _, rest = line.partition(":")
        _, colon, path = rest.partition(":")
        membership = match_path(path, root=root) if colon else None
        if membership is None:
            continue
        if membership.step is not None:
            return membership
        best = best or membership
    return best


def compute_epoch(boot_time_secs: int) -> int:
    """Return a boot time in seconds since 2020, as Sonar tells process groups of different boots apart."""
    return boot_time_secs - SONAR_EPOCH_SECS


class _Number:
    """A process, process-group or session id that a job names, until it may mean somebody else."""

    __slots__ = ("seen", "spent", "start_ticks")

    def __init__(self) -> None:
        self.seen = False
        self.spent = False
        self.start_ticks: int | None = None  # of the process of this id, where it was still there

    def observe(self, leader: ProcessSample | None, in_use: bool) -> None:
        if self.spent:
            return
        if not self.seen:
            self.seen = in_use
            self.start_ticks = None if leader is None else leader.start_ticks
        elif not in_use or (leader is not None and leader.start_ticks != self.start_ticks):
            # The kernel gives a number away again only after its process, group and session have ended.
            self.spent = True


class ProcessJobs:
    """Attributes processes to jobs whose source names processes, process groups or sessions.

    A process belongs to a job if its pid or process group is in
    `Job.processes`, its session in `Job.sessions`, or its parent belongs; it
    then belongs for its whole life or the job's, reparented or not. A number
    that has come to mean another process no longer counts.
    """

    def __init__(self) -> None:
        self._members: dict[int, tuple[int, JobKey]] = {}  # pid → start time, job
        self._numbers: dict[JobKey, dict[tuple[str, int], _Number]] = {}

    def update(self, processes: Mapping[int, ProcessSample], jobs: Mapping[JobKey, Job]) -> dict[int, JobKey]:
        """Return the job of each process that has one, given one scan and the jobs known at its time."""
        naming = {key: job for key, job in jobs.items() if job.processes or job.sessions}
        if not naming and not self._members:
            self._numbers.clear()
            return {}
        groups, sessions = self._listed(processes, naming)
        found: dict[int, JobKey | None] = {}
        for pid, (start_ticks, key) in self._members.items():
            process = processes.get(pid)
            if key in jobs and process is not None and process.start_ticks == start_ticks:
                found[pid] = key
        for pid in processes:
            if pid not in found:
                _resolve(pid, processes, groups, sessions, found)
        members = {pid: key for pid, key in found.items() if key is not None}
        self._members = {pid: (processes[pid].start_ticks, key) for pid, key in members.items()}
        return members

    def _listed(
        self, processes: Mapping[int, ProcessSample], naming: Mapping[JobKey, Job]
    ) -> tuple[dict[int, JobKey], dict[int, JobKey]]:
        """Return the jobs by process or process-group id, and by session id, that are still meant."""
        for key in self._numbers.keys() - naming.keys():
            del self._numbers[key]
        groups_in_use = {process.pgid for process in processes.values()}
        sessions_in_use = {process.session for process in processes.values()}
        groups: dict[int, JobKey] = {}
        sessions: dict[int, JobKey] = {}
        for key, job in naming.items():
            known = self._numbers.setdefault(key, {})
            for kind, ids, in_use, valid in (
                ("group", job.processes, groups_in_use, groups),
                ("session", job.sessions, sessions_in_use, sessions),
            ):
                for each in ids:
                    if each <= 0:  # 0 is the group and session of kernel threads
                        continue
                    number = known.setdefault((kind, each), _Number())
                    number.observe(processes.get(each), each in processes or each in in_use)
                    if not number.spent:
                        valid.setdefault(each, key)
        return groups, sessions


def _resolve(
    pid: int,
    processes: Mapping[int, ProcessSample],
    groups: Mapping[int, JobKey],
    sessions: Mapping[int, JobKey],
    found: dict[int, JobKey | None],
) -> None:
    """Find the job of one process, asking up its ancestors, and note it for all of them."""
    asked = []
    key = None
    while pid not in found:
        process = processes.get(pid)
        if process is None:
            break
        found[pid] = None  # ends a circle, which only a made-up tree can have
        asked.append(pid)
        key = groups.get(pid) or groups.get(process.pgid) or sessions.get(process.session)
        if key is not None:
            break
        pid = process.ppid
    else:
        key = found[pid]
    for each in asked:
        found[each] = key
