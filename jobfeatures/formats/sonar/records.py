"""What Sonar's envelopes say, as frozen records. Sizes are bytes, times seconds since the epoch.

A number that an envelope leaves out is 0 there, since agents leave zeros out; None marks what
the agent's version does not send at all, or says to be unset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jobfeatures.errors import Rejected
from jobfeatures.formats.sonar.fields import PID_MAX
from jobfeatures.model import Cluster, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessGpuRecord:
    """One process on one card."""

    uuid: str
    util_percent: float
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """One process, or `count` of one parent and command that were rolled up.

    Then `pid` is 0, or since Sonar 0.18 a number above those of processes, the same while they come and go.
    """

    pid: int
    ppid: int
    command: str
    count: int
    cpu_secs: int
    resident_bytes: int  # private: anonymous memory
    virtual_bytes: int
    threads: int | None
    data_read_bytes: int | None
    data_written_bytes: int | None
    data_cancelled_bytes: int | None
    gpus: tuple[ProcessGpuRecord, ...] = ()

    @property
    def is_rolled_up(self) -> bool:
        """Return whether it stands for processes that nobody can follow by a pid."""
        return self.count > 1 or self.pid > PID_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """The processes of a job, or of a process group where `epoch` is not 0."""

    job: int
    epoch: int
    user: str
    processes: tuple[ProcessRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRecord:
    """The state of a card. What no working card has at 0 is None where it is left out."""

    uuid: str
    index: int
    failing: int
    fan_percent: int | None
    compute_mode: str
    performance_state: int | None
    memory_used_bytes: int | None
    ce_util_percent: int | None
    memory_util_percent: int | None
    temperature_celsius: int | None
    power_watts: int | None
    power_limit_watts: int | None
    ce_clock_mhz: int | None
    memory_clock_mhz: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRecord:
    """A block device, `stats` as the kernel writes them."""

    name: str
    major: int
    minor: int
    stats: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """A node and its jobs at one time; `time_secs` None where the envelope has an empty one."""

    cluster: str
    node: str
    time_secs: int | None
    boot_secs: int | None
    core_secs: tuple[int, ...]  # busy, by core
    used_memory_bytes: int | None
    load1: float | None
    load5: float | None
    load15: float | None
    runnable_entities: int | None
    existing_entities: int | None
    disks: tuple[DiskRecord, ...]
    gpus: tuple[GpuRecord, ...]
    jobs: tuple[JobRecord, ...]
    errors: tuple[str, ...]  # what the agent could not do
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRecord:
    """A card as it is built."""

    uuid: str
    index: int
    address: str
    manufacturer: str
    model: str
    architecture: str
    driver: str
    firmware: str
    memory_bytes: int | None
    power_limit_watts: int | None
    max_power_limit_watts: int | None
    min_power_limit_watts: int | None
    max_ce_clock_mhz: int | None
    max_memory_clock_mhz: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SysinfoRecord:
    """How a node is built. Numbers are None where the envelope lacks them: none of them can be 0."""

    cluster: str
    node: str
    time_secs: int | None
    os_name: str
    os_release: str
    architecture: str
    cpu_model: str
    numa_nodes: int | None
    sockets: int | None
    cores_per_socket: int | None
    threads_per_core: int | None
    memory_bytes: int | None
    cards: tuple[CardRecord, ...]
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJobRecord:
    """One record of a job or, where `step` is not empty, of a step of it."""

    job: Job
    step: str
    node_count: int | None
    exit_code: int | None
    allocated: Mapping[str, str]  # trackable resources by name, as Slurm writes them
    requested: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsRecord:
    """Jobs of a cluster: partial and repeated; a later one overrides."""

    cluster: str
    time_secs: int | None
    jobs: tuple[SlurmJobRecord, ...]
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """Partitions and nodes of a cluster; its time is the cluster's `taken_at_secs`, 0 where it is empty."""

    cluster: str
    state: Cluster
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRecord:
    """An envelope that holds errors instead of data."""

    cluster: str
    node: str
    time_secs: int | None
    details: tuple[str, ...]
    rejected: tuple[Rejected, ...] = ()


Record = SampleRecord | SysinfoRecord | JobsRecord | ClusterRecord | ErrorRecord
