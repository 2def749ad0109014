"""One look at the node: frozen records with one timestamp. Sizes are bytes, times seconds.

A reading that could not be made is None, never 0: a false zero is a counter reset.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from jobfeatures.model import JobKey


@dataclass(frozen=True, slots=True)
class CpuSecs:
    """CPU seconds since boot by mode, of one core or of all. Source: /proc/stat, proc_stat(5)."""

    user: float
    nice: float
    system: float
    idle: float
    iowait: float
    irq: float
    softirq: float
    steal: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSample:
    """The node as a whole."""

    boot_time_secs: int | None = None
    cpu: CpuSecs | None = None  # over all cores
    cores: Mapping[int, CpuSecs] = field(default_factory=dict)  # by number; offline cores are absent
    memory_bytes: Mapping[str, int] = field(default_factory=dict)  # by /proc/meminfo's name
    load1: float | None = None
    load5: float | None = None
    load15: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBytes:
    """Memory of a job by component, meaning the same on cgroup v1, v2 and for sums over processes."""

    anon: int | None = None
    file: int | None = None  # page cache, without shmem
    shmem: int | None = None
    kernel: int | None = None
    swap: int | None = None
    charged: int | None = None  # what the kernel counts against the limit
    limit: int | None = None  # None also where unlimited
    peak: int | None = None


class Accounting(enum.Enum):
    """Where a job's figures come from."""

    CGROUP = "cgroup"
    PROCESSES = "processes"


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Identity of processes without a batch job: a process group of one boot.

    `epoch` is the boot time in seconds since 2020-01-01, as Sonar counts it.
    """

    pgid: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSample:
    """One process. (pid, start_ticks) identifies it for one boot. Times are the kernel's clock ticks."""

    pid: int
    ppid: int
    pgid: int
    session: int
    start_ticks: int
    command: str
    state: str
    user_ticks: int
    system_ticks: int
    children_user_ticks: int
    children_system_ticks: int
    threads: int
    resident_bytes: int
    virtual_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSample:
    """What one job, or one process group without a job, uses on this node."""

    key: JobKey | GroupKey
    accounting: Accounting
    user_cpu_secs: float | None = None  # neither ever falls while the job lives
    system_cpu_secs: float | None = None
    memory: MemoryBytes = field(default_factory=MemoryBytes)
    processes: int = 0
    threads: int = 0
    uid: int | None = None  # of one of its processes, where readable
    node: str | None = None  # the node name in the control group's path, where there is one


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that was read at one time."""

    taken_at_secs: float
    duration_secs: float
    node: NodeSample | None
    jobs: Mapping[JobKey | GroupKey, JobSample]
    processes: int  # on the node
    unreadable: Mapping[str, int] = field(default_factory=dict)  # readings left out since start, by kind
