"""One sample of the node: frozen records. Sizes are in bytes, times in seconds; a failed reading is None."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from jobfeatures.records.model import Alias, JobKey
from jobfeatures.records.quickrecord import quickly_made
from jobfeatures_exporter.model.measured import BoardSample, MemoryBytes, OpenFiles


class CpuSecs(NamedTuple):
    """CPU seconds since boot by mode, of one core or of all. Source: /proc/stat, proc_stat(5)."""

    user: float
    nice: float
    system: float
    idle: float
    iowait: float
    irq: float
    softirq: float
    steal: float


class DiskSample(NamedTuple):
    """A block device and its counters in /proc/diskstats (`stats`); `whole`: whether it is a whole disk."""

    major: int
    minor: int
    stats: tuple[int, ...]
    whole: bool | None = None  # a disk not composed of others or memory; None: a partition, or unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSample:
    """Measurements of the node; None: unknown. `energy_joules` is by RAPL domain, `cores` by number."""

    boot_time_secs: int | None = None
    cpu: CpuSecs | None = None  # over all cores
    cores: Mapping[int, CpuSecs] = field(default_factory=dict)  # by number; offline cores are absent
    memory_bytes: Mapping[str, int] = field(default_factory=dict)  # by /proc/meminfo's name
    load1: float | None = None
    load5: float | None = None
    load15: float | None = None
    runnable_entities: int | None = None  # of /proc/loadavg: runnable threads
    existing_entities: int | None = None
    disks: Mapping[str, DiskSample] = field(default_factory=dict)  # by name
    pressure_secs: Mapping[tuple[str, str], float] = field(default_factory=dict)  # see JobSample
    energy_joules: Mapping[str, float] = field(default_factory=dict)  # since our start, by RAPL domain
    board: BoardSample | None = None
    work_up: Mapping[str, bool] = field(default_factory=dict)  # whether each hardware event can be counted
    oom_kills: int | None = None  # since boot


class FigureSource(enum.Enum):
    """Whether a job's CPU time and memory were read from its control group or summed over its processes."""

    CGROUP = "cgroup"
    PROCESSES = "processes"


class BlockIo(NamedTuple):
    """What a control group read from and wrote to block devices, summed over devices."""

    read_bytes: int
    written_bytes: int
    reads: int
    writes: int


class ProcessIo(NamedTuple):
    """Bytes that processes read and wrote by system calls and, `data_…`, on storage; see proc_pid_io(5)."""

    read_bytes: int  # rchar: by read(2) and similar calls, page cache and pipes included
    written_bytes: int
    data_read_bytes: int
    data_written_bytes: int
    data_cancelled_bytes: int


class Scheduling(NamedTuple):
    """How the kernel scheduled a job's threads; `waiting_secs` is the time they waited for a CPU."""

    waiting_secs: float
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    running: int  # runnable threads
    blocked: int  # threads in uninterruptible sleep, mostly waiting for a disk


class Kind(enum.Enum):
    """What a set of processes is: a batch job, container, service, user session, or a mere process group."""

    # One object a member: its identity hashes faster than its name, and the key of every process is hashed.
    __hash__ = object.__hash__

    BATCH = "batch"
    CONTAINER = "container"
    SERVICE = "service"
    SESSION = "session"
    GROUP = "group"


class UnitKey(NamedTuple):
    """Identity of a unit: a container, a service or a user session."""

    kind: Kind
    name: str  # such as sshd.service, docker-0123456789ab, user-1000


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Identity of a process group during one boot; `epoch` is the boot time in seconds since 2020-01-01."""

    pgid: int
    epoch: int


WorkKey = JobKey | UnitKey | GroupKey
RunKey = tuple[JobKey, int]  # one run of a job, by `JobSample.run`: counters are kept under it


def kind_of(key: WorkKey | int) -> Kind:
    """Return what a key stands for: a job, container, service, session or process group (int: its PGID)."""
    if isinstance(key, JobKey):
        return Kind.BATCH
    return key.kind if isinstance(key, UnitKey) else Kind.GROUP


class ProcessSample(NamedTuple):
    """One process. (pid, start_ticks) identifies it during one boot; ticks are the kernel's clock ticks."""

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
class StepSample:
    """What one step of a job uses on this node, as read from the step's control group; None: unknown."""

    step: str
    user_cpu_secs: float | None = None
    system_cpu_secs: float | None = None
    memory: MemoryBytes = field(default_factory=MemoryBytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSample:
    """What a job's processes with one command use; CPU time counts since the command was first reported."""

    command: str
    cpu_secs: float
    resident_bytes: int
    processes: int


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class JobSample:
    """What one batch job, container, service, session or process group uses on this node; None: unknown.

    `run` is greater for each later execution of a requeued job. `place` is the container or path that its
    control group is in ("": the default one), `alias` the name that the group has instead of the job's id.
    `pressure_secs` is stalled time by resource and ``some`` or ``full`` (all tasks stalled). `work` counts
    hardware events.
    """

    key: WorkKey
    run: int = 0  # which of all jobs' runs here; greater with another run of the same job
    accounting: FigureSource
    user_cpu_secs: float | None = None  # neither decreases while the job lives
    system_cpu_secs: float | None = None
    memory: MemoryBytes = field(default_factory=MemoryBytes)
    processes: int | None = 0  # None: its end was told while it had some, and they are not followed
    threads: int | None = 0
    uid: int | None = None  # of one of its processes, where readable
    node: str | None = None  # the node name in the control group's path, where there is one
    place: str = ""  # the container, else the path, that its control group stands below; "": the ordinary one
    alias: Alias | None = None  # what its control group is named by in place of its id
    oom_kills: int | None = None  # counters: they never decrease either
    memory_limit_hits: int | None = None
    memory_ooms: int | None = None  # times that a limit left no memory to have; v2 only
    memory_high_hits: int | None = None
    throttled_secs: float | None = None  # by a CPU quota, summed over CPUs
    block_io: BlockIo | None = None
    process_io: ProcessIo | None = None
    scheduling: Scheduling | None = None
    network: tuple[int, ...] | None = None  # bytes and packets received by IP, then bytes and packets sent
    # Seconds stalled, by resource (cpu, memory, io) and share of tasks (some, full).
    pressure_secs: Mapping[tuple[str, str], float] = field(default_factory=dict)
    cpus: int | None = None  # number of CPUs that its cpuset allows
    cpu_numbers: frozenset[int] | None = None  # the CPUs that its cpuset allows
    core_nanosecs: Mapping[int, int] = field(default_factory=dict)  # by CPU, where v1 counts them; on request
    steps: tuple[StepSample, ...] = ()
    energy_joules: float | None = None  # of the CPU packages, by its share of CPU time
    board_joules: Mapping[str, float] = field(default_factory=dict)  # of the whole machine's, by sensor
    work: Mapping[str, float] = field(default_factory=dict)  # counters, by name; empty: not counted
    cgroup: str | None = None  # the path of its control group, the first if there are several
    cgroup_version: int | None = None  # 1 or 2
    is_frozen: bool = False  # all its control groups are, as its batch system has suspended it
    in_group: bool = False  # it has a control group, even if only one without accounting (freezer)

    @property
    def has_place_in_id(self) -> bool:
        """Return whether the job id is ``ID@PLACE``: the batch system's id, and where the job's group is.

        Such an id tells the job apart from one of another cluster that is on this node with the same id.
        `place` is the container, else the path, below which the job's control group is.
        """
        return (
            self.place != "" and isinstance(self.key, JobKey) and self.key.job_id.endswith(f"@{self.place}")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCard:
    """A GPU card, or a MIG instance of one; None or empty: unknown. In names, `ce` means compute engine."""

    uuid: str
    index: int | None = None  # of the driver's library; may change at boot
    minor: int | None = None  # of /dev/nvidiaN or /dev/dri/cardN
    render_minors: tuple[int, ...] = ()  # of /dev/dri/renderDN; each partition of an AMD card has one
    partitions: int = 1  # of an AMD card: GPUs of their own to the batch system, not to us
    parent_uuid: str | None = None  # of the card that an instance belongs to
    instance_id: int | None = None  # of the GPU instance on that card
    address: str = ""
    manufacturer: str = ""  # NVIDIA, AMD, Intel
    model: str = ""
    architecture: str = ""
    driver: str = ""
    firmware: str = ""
    memory_bytes: int | None = None
    power_limit_watts: float | None = None
    max_power_limit_watts: float | None = None
    min_power_limit_watts: float | None = None
    max_ce_clock_mhz: int | None = None
    max_memory_clock_mhz: int | None = None

    def memory_percent(self, used_bytes: int | None) -> float | None:
        """Return `used_bytes` in percent of the card's memory, None if either is unknown."""
        return None if used_bytes is None or not self.memory_bytes else 100.0 * used_bytes / self.memory_bytes


class GpuProcess(NamedTuple):
    """The use of one GPU card by one process: its memory on the card, and its share of the compute engine."""

    pid: int
    memory_bytes: int | None = None
    ce_util_percent: float | None = None


GpuCount = tuple[str, ...]  # an optional counter of a card, by name and qualifiers: ("ecc", "corrected")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """State of a GPU card at a Unix time; `ce` is compute engine, `failing` an error code; None: unknown."""

    card: GpuCard
    taken_at_secs: float
    failing: int = 0  # an error code, 1 if no other is known; see SampleGpu of Sonar's format
    fan_percent: float | None = None
    compute_mode: str = ""
    performance_state: int | None = None
    memory_used_bytes: int | None = None
    memory_busy_percent: float | None = None  # of the time in which it was read or written, not how full
    ce_util_percent: float | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    ce_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    energy_joules: float | None = None  # a counter since our start: the driver's, else integrated power
    busy_secs: float | None = None  # a counter: utilisation integrated since our start
    processes: tuple[GpuProcess, ...] = ()
    counts: Mapping[GpuCount, float] = field(default_factory=dict)  # unknown ones are absent, here and below
    clock_reasons: Mapping[str, bool] = field(default_factory=dict)  # whether each throttles the clocks now
    flags: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGpu:
    """A job's use of one GPU card, counted from when the job is first seen on the card; None: unknown."""

    key: WorkKey
    uuid: str
    allocated: bool = False  # by the batch system
    busy_secs: float | None = None
    energy_joules: float | None = None
    memory_bytes: int | None = None
    ce_util_percent: float | None = None
    counts: Mapping[GpuCount, float] = field(default_factory=dict)  # over times of exclusive use by the job


ASKED_FOR = "asked for"


class ProcessReader(NamedTuple):
    """How processes are measured (`name`: bpf or procfs), and why eBPF is not used (`reason`; "": it is)."""

    name: str = "procfs"
    reason: str = ""

    @property
    def failure(self) -> str:
        """Return why eBPF cannot be used although settings allow it; "" if it is used or not allowed."""
        return "" if self.reason == ASKED_FOR else self.reason


class KernelChecks(NamedTuple):
    """Counts since the start of what the eBPF programs missed; `threads` is the number of threads now.

    `full`: usage not counted, as there was no room for another control group. `without_storage`: tasks that
    could briefly not be tracked. `tails`: exits whose last moment was not counted. `misses`: skipped calls.
    """

    full: int  # charges dropped for lack of room for another control group
    without_storage: int  # tasks that could briefly not be tracked
    tails: int  # exits whose last moment was not counted
    threads: int
    misses: int  # hooks skipped because the CPU was already running one


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One sample: everything that was read of the node at one time.

    `final` has last samples of ended jobs, `unconfirmed` jobs that their batch system has yet to confirm,
    `keys` the owner of each process. `processes` is complete if `lists_all`. `no_network` is why packets are
    not counted ("": they are).
    """

    taken_at_secs: float
    duration_secs: float
    node: NodeSample | None
    jobs: Mapping[WorkKey, JobSample]
    final: Mapping[JobKey, JobSample] = field(default_factory=dict)  # of jobs that ended since the last one
    unconfirmed: Collection[JobKey] = ()  # their groups count once the batch system says that they run here
    read_at_secs: float = 0.0  # monotonic; when the jobs' figures were read
    processes: Mapping[int, ProcessSample] = field(default_factory=dict)  # by pid
    lists_all: bool = True  # whether `processes` is complete
    process_count: int | None = None  # of all processes, if not all are listed
    reader: ProcessReader | None = None
    no_network: str | None = None  # why jobs' packets are not counted, "" if they are; None: disabled
    kernel_checks: KernelChecks | None = None  # if the kernel's sums are read
    # The owner of each process, by pid; a bare number is a process group without a job, see `key_of`.
    keys: Mapping[int, JobKey | UnitKey | int] = field(default_factory=dict)
    epoch: int | None = None  # of GroupKey
    commands: Mapping[JobKey, tuple[CommandSample, ...]] = field(default_factory=dict)  # on request
    programs: Mapping[JobKey, Mapping[str, float]] = field(default_factory=dict)  # CPU seconds by path
    thread_states: Mapping[int, Mapping[str, int]] = field(default_factory=dict)  # of jobs' processes by pid
    open_files: Mapping[int, OpenFiles] = field(default_factory=dict)  # of jobs' processes by pid; on request
    gpus: tuple[GpuSample, ...] = ()
    job_gpus: tuple[JobGpu, ...] = ()
    gpu_unattributed: Mapping[str, int] = field(default_factory=dict)  # unknown processes by card's uuid
    gpu_drivers: Mapping[str, bool] = field(default_factory=dict)  # whether each has answered recently
    unreadable: Mapping[str, int] = field(default_factory=dict)  # failed readings since start, by kind
    reopened: int | None = None  # how often since start no more descriptors could be kept open

    def key_of(self, pid: int) -> WorkKey | None:
        """Return the owner of a process: a job, unit or process group; None: not listed, or no boot time."""
        key = self.keys.get(pid)
        if isinstance(key, int):
            return None if self.epoch is None else GroupKey(key, self.epoch)
        return key


class ProcessDetail(NamedTuple):
    """Figures of a process for Sonar's documents: uid, private memory, data size, I/O; None: unreadable."""

    uid: int | None = None
    anon_bytes: int | None = None  # private resident memory, RssAnon of proc_pid_status(5)
    data_bytes: int | None = None  # data and stack, of proc_pid_statm(5)
    io: ProcessIo | None = None


def cpu_secs_of(sample: JobSample | StepSample) -> float | None:
    """Return a job's or step's CPU seconds on this node; None if user or system time cannot be read."""
    if sample.user_cpu_secs is None or sample.system_cpu_secs is None:
        return None
    return sample.user_cpu_secs + sample.system_cpu_secs
