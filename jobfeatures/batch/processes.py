"""Interfaces by which batch systems find their jobs by a node's processes; reads /proc/PID/status."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

from jobfeatures.errors import ParseError
from jobfeatures.records.model import Job, JobKey
from jobfeatures.system.privatefile import read_bounded

MAX_ASKED = 64  # processes per job and sample
MAX_GAP_SAMPLES = 32
MAX_STATUS_BYTES = 2**22

_UIDS = re.compile(rb"^Uid:((?:[ \t]+[0-9]{1,10}){4})$", re.MULTILINE)
_NESTED = re.compile(rb"^NSpid:[ \t]+[0-9]+[ \t]+[0-9]", re.MULTILINE)
Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


class Process(Protocol):
    """A process in one sample, with the values that batch systems need from it; see proc_pid_stat(5)."""

    @property
    def pid(self) -> int:
        """Process id."""

    @property
    def ppid(self) -> int:
        """Process id of the parent."""

    @property
    def start_ticks(self) -> int:
        """Start time, in clock ticks since boot."""

    @property
    def command(self) -> str:
        """Name (comm), which the process itself can change."""


class Failures(Protocol):
    """Counts failures to read files, by the kind of file."""

    def add(self, what: str, error: OSError | ParseError) -> None:
        """Count one failure to read a file of the kind `what`, unless the file has just vanished."""

    def tried(
        self,
        what: str,
        read: Callable[Arguments, Found],
        *arguments: Arguments.args,
        **more: Arguments.kwargs,
    ) -> Found | None:
        """Call `read` with the arguments and return its result; if it fails, count a failure, return None.

        The failure is counted under `what`, the kind of file.
        """


class UnnumberedGroups(NamedTuple):
    """The control groups of one batch system whose paths have no job id but another name, in one sample.

    `members` are the groups' processes, by that name. `processes` are all processes of the node, by pid;
    `in_groups` are the pids in control groups of jobs. `living` are the names of groups in which the kernel
    counts processes. `taken` are job ids in the paths of other groups, which belong to other jobs. `jobs` are
    the known jobs.
    """

    members: Mapping[str, Sequence[Process]]  # by the name in the path; may be empty
    processes: Mapping[int, Process] = {}  # of the node, by pid
    in_groups: Collection[int] = ()  # pids in control groups of jobs
    living: Collection[str] = ()  # names of groups in which the kernel counts processes
    taken: Collection[str] = ()  # job ids in paths of other groups: they certainly belong to other jobs
    jobs: Mapping[JobKey, Job] = {}  # those known


class GroupNames(Protocol):
    """Finds the job ids of control groups whose paths have another name; called once per sample."""

    def update(self, groups: UnnumberedGroups) -> Mapping[str, str]:
        """Return the known job ids, by the group's name; these names are the keys of `groups.members`."""


class ActiveJob(NamedTuple):
    """How to recognise a job's processes: by their supplementary groups, or as descendants of a supervisor.

    `gids` are the groups, `supervisors` the pids of the batch system's own processes for the job.
    """

    gids: frozenset[int] = frozenset()
    supervisors: frozenset[int] = frozenset()


class JobProcesses(Protocol):
    """Finds the processes of jobs if the batch system creates no control groups; called once per sample."""

    @property
    def is_here(self) -> bool:
        """Return whether the batch system may have jobs on this node."""

    def update(self, processes: Mapping[int, Process]) -> Mapping[JobKey, ActiveJob]:
        """Return how to recognise each active job's processes; `processes` are all of the node's, by pid."""


@dataclass(slots=True)
class FoundJobId:
    """The result of searching for the job id of a control group; None until found.

    The search is repeated at ever longer intervals: `gap` is the present interval in samples, `next_sample`
    the number of the sample in which to search next. `proven`: no user could have forged the id.
    """

    job_id: str | None = None
    proven: bool = False
    gap: int = 0
    next_sample: int = 0

    def is_due(self, sample: int) -> bool:
        """Return whether to search in the sample with this number; if so, schedule the next search."""
        if sample < self.next_sample:
            return False
        self.gap = min(max(1, self.gap * 2), MAX_GAP_SAMPLES)
        self.next_sample = sample + self.gap
        return True


def parse_uids(status: bytes) -> tuple[int, ...]:
    r"""Return real, effective, saved and file system uid in /proc/PID/status: ``Uid:\t1000\t0\t0\t0``.

    Source: proc_pid_status(5). The first line is the name, which the process chooses, with newlines escaped.
    Raises ParseError if the line is missing.
    """
    found = _UIDS.search(status.partition(b"\n")[2])
    if found is None:
        raise ParseError("line is missing", source="status", field="Uid")
    return tuple(map(int, found[1].split()))


def parse_real_uid(status: bytes) -> int:
    """Return the real uid in /proc/PID/status. Raises ParseError if it is missing."""
    return parse_uids(status)[0]


def read_real_uid(procfs: str, pid: int) -> int:
    """Return the real uid of a process. Raises OSError or ParseError if its status file is unreadable."""
    return parse_real_uid(read_bounded(f"{procfs}/{pid}/status", MAX_STATUS_BYTES)[0])


def is_in_container(procfs: str, pid: int) -> bool:
    """Return whether a process is in a pid namespace of its own, below that of this /proc, as in a container.

    Source: NSpid of proc_pid_status(5), which everybody may read. Raises OSError if the process's status file
    cannot be read.
    """
    status = read_bounded(f"{procfs}/{pid}/status", MAX_STATUS_BYTES)[0]
    return _NESTED.search(status.partition(b"\n")[2]) is not None
