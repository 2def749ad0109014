"""One look at the node: frozen records with one timestamp. Sizes are bytes, times seconds.

A reading that could not be made is None, never 0, which would be a counter reset.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from jobfeatures.model import JobKey
from jobfeatures.quickrecord import quickly_made
from jobfeatures_exporter.measured import BoardSample, OpenFiles


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
    """One block device, see Documentation/admin-guide/iostats.rst: `stats` are its fields as they stand."""

    major: int
    minor: int
    stats: tuple[int, ...]
    whole: bool | None = None  # a disk; not one that is made of others or memory; None: a part, or unknown


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
    runnable_entities: int | None = None  # of /proc/loadavg: threads that run or would
    existing_entities: int | None = None
    disks: Mapping[str, DiskSample] = field(default_factory=dict)  # by name
    pressure_secs: Mapping[tuple[str, str], float] = field(default_factory=dict)  # see JobSample
    energy_joules: Mapping[str, float] = field(default_factory=dict)  # since our start, by RAPL domain
    board: BoardSample | None = None
    work_up: Mapping[str, bool] = field(
        default_factory=dict
    )  # what is counted of programs' work, if it can be
    oom_kills: int | None = None  # since boot


class MemoryBytes(NamedTuple):
    """Memory of a job by component, meaning the same on cgroup v1, v2 and for sums over processes."""

    anon: int | None = None
    file: int | None = None  # page cache, without shmem
    shmem: int | None = None
    kernel: int | None = None
    swap: int | None = None
    charged: int | None = None  # what the kernel counts against the limit
    limit: int | None = None  # None also where unlimited
    swap_limit: int | None = None  # likewise
    peak: int | None = None

    @property
    def used(self) -> int | None:
        """Return what counts against the limit and the kernel cannot take back: all but page cache.

        Only this brings a job to its limit: page cache is charged too, and dropped before anything is killed.
        """
        return None if self.anon is None else self.anon + (self.shmem or 0) + (self.kernel or 0)


class Accounting(enum.Enum):
    """Where a job's figures come from."""

    CGROUP = "cgroup"
    PROCESSES = "processes"


class BlockIo(NamedTuple):
    """What a control group moved to and from block devices, all devices together."""

    read_bytes: int
    written_bytes: int
    reads: int
    writes: int


class ProcessIo(NamedTuple):
    """What processes read and wrote, proc_pid_io(5): `data_` reached the storage, the others are calls."""

    read_bytes: int  # rchar: by read(2) and the like, page cache and pipes included
    written_bytes: int
    data_read_bytes: int
    data_written_bytes: int
    data_cancelled_bytes: int


class Scheduling(NamedTuple):
    """How the kernel ran the threads of a job; `waiting` is for a CPU."""

    waiting_secs: float
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    running: int  # threads that run or would
    blocked: int  # that wait for a disk or the like


class Kind(enum.Enum):
    """What a set of processes is."""

    # One object a member: its identity hashes faster than its name, and the key of every process is hashed.
    __hash__ = object.__hash__

    BATCH = "batch"
    CONTAINER = "container"
    SERVICE = "service"
    SESSION = "session"
    GROUP = "group"


class UnitKey(NamedTuple):
    """Identity of a container, a service or a user session; never of a batch job."""

    kind: Kind
    name: str  # such as sshd.service, docker-0123456789ab, user-1000


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Identity of processes without a batch job: a process group of one boot.

    `epoch` is the boot time in seconds since 2020-01-01, as Sonar counts it.
    """

    pgid: int
    epoch: int


WorkKey = JobKey | UnitKey | GroupKey


def kind_of(key: WorkKey) -> Kind:
    """Return what a key identifies."""
    if isinstance(key, JobKey):
        return Kind.BATCH
    return key.kind if isinstance(key, UnitKey) else Kind.GROUP


class ProcessSample(NamedTuple):
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
class StepSample:
    """What one step of a job uses, as its control group says."""

    step: str
    user_cpu_secs: float | None = None
    system_cpu_secs: float | None = None
    memory: MemoryBytes = field(default_factory=MemoryBytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSample:
    """Processes of one job and one command; the CPU time is since the command got its own count."""

    command: str
    cpu_secs: float
    resident_bytes: int
    processes: int


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class JobSample:
    """What one job, or one process group without a job, uses on this node."""

    key: WorkKey
    accounting: Accounting
    user_cpu_secs: float | None = None  # neither ever falls while the job lives
    system_cpu_secs: float | None = None
    memory: MemoryBytes = field(default_factory=MemoryBytes)
    processes: int = 0
    threads: int = 0
    uid: int | None = None  # of one of its processes, where readable
    node: str | None = None  # the node name in the control group's path, where there is one
    sluid: str | None = None  # Slurm's own unique id, where the control group is named by it
    slot: str | None = None  # HTCondor's, where the control group is named by it
    oom_kills: int | None = None  # counters: they never decrease either
    memory_limit_hits: int | None = None
    throttled_secs: float | None = None  # by a CPU quota, summed over CPUs
    block_io: BlockIo | None = None
    process_io: ProcessIo | None = None
    scheduling: Scheduling | None = None
    network: tuple[int, ...] | None = None  # bytes and packets received by IP, the same sent
    # Seconds stalled, by resource (cpu, memory, io) and share of tasks (some, full).
    pressure_secs: Mapping[tuple[str, str], float] = field(default_factory=dict)
    cpus: int | None = None  # that its cpuset lets it use
    cpu_numbers: frozenset[int] | None = None  # which they are
    core_nanosecs: Mapping[int, int] = field(default_factory=dict)  # by CPU, where v1 counts them; on request
    steps: tuple[StepSample, ...] = ()
    energy_joules: float | None = None  # of the CPU packages, by its share of CPU time
    board_joules: Mapping[str, float] = field(default_factory=dict)  # of the whole machine's, by sensor
    work: Mapping[str, float] = field(default_factory=dict)  # done, by figure; empty: not counted
    cgroup: str | None = None  # the path of its control group, of the first where there are several
    cgroup_version: int | None = None  # 1 or 2
    in_group: bool = False  # there are control groups of it, be they such as count nothing (freezer)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCard:
    """A card, or a part of one that is a device of its own (MIG). Unknown is None or empty, never 0."""

    uuid: str
    index: int | None = None  # of the driver's library; may change at boot
    minor: int | None = None  # of /dev/nvidiaN or /dev/dri/cardN
    parent_uuid: str | None = None  # of the card that an instance is a part of
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
        """Return a part of its memory in percent, None where either is unknown."""
        return None if used_bytes is None or not self.memory_bytes else 100.0 * used_bytes / self.memory_bytes


class GpuProcess(NamedTuple):
    """What one process does on one card."""

    pid: int
    memory_bytes: int | None = None
    ce_util_percent: float | None = None


GpuCount = tuple[str, ...]  # what a card counts on request, and further words for it: ("ecc", "corrected")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """The state of one card at its own time: drivers answer when they like."""

    card: GpuCard
    taken_at_secs: float
    failing: int = 0  # an error code, 1 where nothing better is known; see SampleGpu of Sonar's format
    fan_percent: float | None = None
    compute_mode: str = ""
    performance_state: int | None = None
    memory_used_bytes: int | None = None
    ce_util_percent: float | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    ce_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    energy_joules: float | None = None  # a counter since our start: by the driver's, else power integrated
    busy_secs: float | None = None  # a counter: utilisation integrated since our start
    processes: tuple[GpuProcess, ...] = ()
    counts: Mapping[GpuCount, float] = field(default_factory=dict)  # what is not known is missing, as below
    clock_reasons: Mapping[str, bool] = field(default_factory=dict)  # whether each holds clocks back now
    flags: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGpu:
    """One job on one card; counters since we first saw it there. Without use they are None."""

    key: WorkKey
    uuid: str
    allocated: bool = False  # by the batch system
    busy_secs: float | None = None
    energy_joules: float | None = None
    memory_bytes: int | None = None
    ce_util_percent: float | None = None
    counts: Mapping[GpuCount, float] = field(default_factory=dict)  # of times when the job held it alone


class ProcessReader(NamedTuple):
    """How processes are read: bpf or procfs, and why not the other."""

    name: str = "procfs"
    reason: str = ""


class KernelChecks(NamedTuple):
    """What the kernel says of its own sums, since it began; `threads` of the latest look."""

    full: int  # charges for which there was no room
    without_storage: int  # tasks that could not be followed for a moment
    tails: int  # ends of which the last moment is missing
    threads: int
    misses: int  # hooks that were not run because the processor was in one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that was read at one time.

    Where the kernel sums what processes do, only some of them are listed, unless all were asked for.
    """

    taken_at_secs: float
    duration_secs: float
    node: NodeSample | None
    jobs: Mapping[WorkKey, JobSample]
    final: Mapping[JobKey, JobSample] = field(default_factory=dict)  # of jobs that have gone since the last
    read_at_secs: float = 0.0  # monotonic; when the jobs' figures were read
    processes: Mapping[int, ProcessSample] = field(default_factory=dict)  # by pid
    lists_all: bool = True  # of them
    process_count: int | None = None  # of all, where these are not listed
    reader: ProcessReader | None = None
    no_network: str | None = None  # why packets of jobs are not counted, "" where they are; None: nobody asks
    kernel_checks: KernelChecks | None = None  # where the kernel's sums are read
    # Whose each process is, by pid; a bare number is a process group without a job, see `key_of`.
    keys: Mapping[int, JobKey | UnitKey | int] = field(default_factory=dict)
    epoch: int | None = None  # of GroupKey
    commands: Mapping[JobKey, tuple[CommandSample, ...]] = field(default_factory=dict)  # on request
    open_files: Mapping[int, OpenFiles] = field(default_factory=dict)  # of jobs' processes by pid; on request
    gpus: tuple[GpuSample, ...] = ()
    job_gpus: tuple[JobGpu, ...] = ()
    gpu_unattributed: Mapping[str, int] = field(default_factory=dict)  # unknown processes by card's uuid
    gpu_drivers: Mapping[str, bool] = field(default_factory=dict)  # whether each has answered of late
    # Exit records of the kernel since start, by what became of them: counted, elsewhere, unknown.
    exit_records: Mapping[str, int] = field(default_factory=dict)
    unreadable: Mapping[str, int] = field(default_factory=dict)  # readings left out since start, by kind
    kept_files: Mapping[str, int] = field(default_factory=dict)  # open, by how often they are read
    reopened: int | None = None  # times since start that no more descriptors could be kept

    def key_of(self, pid: int) -> WorkKey | None:
        """Return whose a process is, None for one that was not there or where the boot time is unknown."""
        key = self.keys.get(pid)
        if isinstance(key, int):
            return None if self.epoch is None else GroupKey(key, self.epoch)
        return key


class ProcessDetail(NamedTuple):
    """What is read of a process only when it is asked for; None where it cannot be read."""

    uid: int | None = None
    anon_bytes: int | None = None  # resident memory of its own, RssAnon of proc_pid_status(5)
    data_bytes: int | None = None  # data and stack, of proc_pid_statm(5)
    io: ProcessIo | None = None


class Software(NamedTuple):
    """A package that is installed for all."""

    key: str
    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SysinfoSample:
    """How the node is made. A number that cannot be found out is None.

    All cores are taken to be alike: `sockets` × `cores_per_socket` × `threads_per_core` logical processors.
    """

    taken_at_secs: float
    os_name: str
    os_release: str
    architecture: str
    sockets: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    cpu_model: str = ""
    memory_bytes: int | None = None
    numa_distances: tuple[tuple[int, ...], ...] = ()  # from each NUMA node to each, 10 to itself
    topology_svg: str = ""  # hwloc's drawing, and its text
    topology_text: str = ""
    cards: tuple[GpuCard, ...] = ()
    software: tuple[Software, ...] = ()  # for cards, where a folder of it is named
