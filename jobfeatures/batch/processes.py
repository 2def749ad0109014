"""How batch systems find their jobs by a node's processes: interfaces, and parsers of /proc/PID/status."""

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
    """A process in one sample: what batch systems need of it, from proc_pid_stat(5)."""

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
        """Name (comm), which the process may choose."""


class Failures(Protocol):
    """Counts failures to read files, by what was to be read."""

    def add(self, what: str, error: OSError | ParseError) -> None:
        """Count one failure to read `what`; a file that vanished meanwhile is not a failure."""

    def tried(
        self,
        what: str,
        read: Callable[Arguments, Found],
        *arguments: Arguments.args,
        **more: Arguments.kwargs,
    ) -> Found | None:
        """Return what `read` returns; if it raises an error, count a failure to read `what`, return None."""


class UnnumberedGroups(NamedTuple):
    """The control groups of one batch system whose paths name no job id, in one sample."""

    members: Mapping[str, Sequence[Process]]  # by the name in the path; may be empty
    processes: Mapping[int, Process] = {}  # of the node, by pid
    in_groups: Collection[int] = ()  # pids in control groups of jobs
    living: Collection[str] = ()  # names of groups in which the kernel counts processes
    taken: Collection[str] = ()  # job ids in paths of other groups: they certainly belong to other jobs
    jobs: Mapping[JobKey, Job] = {}  # those known


class GroupNames(Protocol):
    """Finds the job ids of `UnnumberedGroups`, called once per sample."""

    def update(self, groups: UnnumberedGroups) -> Mapping[str, str]:
        """Return the job ids found so far, by the names in `groups.members`."""


class ActiveJob(NamedTuple):
    """What identifies a job's processes: their supplementary groups, and the pids of their supervisors."""

    gids: frozenset[int] = frozenset()
    supervisors: frozenset[int] = frozenset()


class JobProcesses(Protocol):
    """Finds, once per sample, the jobs of a batch system that creates no control groups."""

    @property
    def is_here(self) -> bool:
        """Return whether the batch system may have jobs on this node."""

    def update(self, processes: Mapping[int, Process]) -> Mapping[JobKey, ActiveJob]:
        """Return the jobs that are active now, given all processes of the node."""


@dataclass(slots=True)
class FoundJobId:
    """The job id of a control group, None until found, searched ever less often. `proven`: not forgeable."""

    job_id: str | None = None
    proven: bool = False
    gap: int = 0
    next_sample: int = 0

    def is_due(self, sample: int) -> bool:
        """Return whether to search in sample number `sample`; if so, the next search becomes due later."""
        if sample < self.next_sample:
            return False
        self.gap = min(max(1, self.gap * 2), MAX_GAP_SAMPLES)
        self.next_sample = sample + self.gap
        return True


def parse_uids(status: bytes) -> tuple[int, ...]:
    r"""Return real, effective, saved and file system uid in /proc/PID/status: ``Uid:\t1000\t0\t0\t0``.

    Source: proc_pid_status(5). The first line is the name, which the process chooses, with newlines escaped.
    Raises ParseError.
    """
    found = _UIDS.search(status.partition(b"\n")[2])
    if found is None:
        raise ParseError("line is missing", source="status", field="Uid")
    return tuple(map(int, found[1].split()))


def parse_real_uid(status: bytes) -> int:
    """Return the real uid in /proc/PID/status. Raises ParseError."""
    return parse_uids(status)[0]


def read_real_uid(procfs: str, pid: int) -> int:
    """Return the real uid of a process. Raises OSError, ParseError."""
    return parse_real_uid(read_bounded(f"{procfs}/{pid}/status", MAX_STATUS_BYTES)[0])


def is_in_container(procfs: str, pid: int) -> bool:
    """Return whether a process is in a pid namespace below that of this /proc, as those of containers are.

    Source: NSpid of proc_pid_status(5), which everybody may read. Raises OSError.
    """
    status = read_bounded(f"{procfs}/{pid}/status", MAX_STATUS_BYTES)[0]
    return _NESTED.search(status.partition(b"\n")[2]) is not None
