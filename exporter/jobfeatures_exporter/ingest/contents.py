"""Contents of other agents' envelopes (documents) as frozen records, where possible in a snapshot's types.

A number that an envelope omits is 0 here, since agents omit zeros; None marks what
the agent's version never sends, or reports as unset.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.errors import Rejected
from jobfeatures.formats.sonar.fields import PID_MAX
from jobfeatures.formats.sonar.parsejobs import ClusterRecord, SlurmJobRecord
from jobfeatures_exporter.model.snapshot import GpuSample, NodeSample, SysinfoSample


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessGpuRecord:
    """The use of one GPU by one process."""

    uuid: str
    util_percent: float | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """One process, or `count` rolled-up processes of one parent and command.

    If rolled up, `pid` is 0, or since Sonar 0.18 a number above all pids, stable as processes come and go.
    """

    pid: int
    ppid: int
    command: str
    count: int
    cpu_secs: int
    resident_bytes: int  # private: anonymous memory
    threads: int | None
    data_read_bytes: int | None
    data_written_bytes: int | None
    data_cancelled_bytes: int | None
    gpus: tuple[ProcessGpuRecord, ...] = ()

    @property
    def is_rolled_up(self) -> bool:
        """Return whether this stands for several processes, which cannot be followed by pid."""
        return self.count > 1 or self.pid > PID_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedJob:
    """The processes of a job, or of a process group where `epoch` is not 0."""

    job: int
    epoch: int
    user: str
    processes: tuple[ProcessRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """A node and its jobs at one time; `time_secs` is None if the envelope's time is empty."""

    cluster: str
    node: str
    time_secs: int | None
    core_secs: tuple[int, ...]  # busy, by core
    used_memory_bytes: int | None
    system: NodeSample  # without the figures above
    gpus: tuple[GpuSample, ...]  # identified, but without counters
    jobs: tuple[ReceivedJob, ...]
    errors: tuple[str, ...]  # what the agent could not do
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SysinfoRecord:
    """A node's hardware and software. Numbers missing in the envelope are None: none of them can be 0."""

    cluster: str
    node: str
    time_secs: int | None
    made: SysinfoSample
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsRecord:
    """Jobs of a cluster: records may be partial and repeated; later ones override earlier ones."""

    cluster: str
    time_secs: int | None
    jobs: tuple[SlurmJobRecord, ...]
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRecord:
    """An envelope that holds errors instead of data: it is only counted."""

    cluster: str
    rejected: tuple[Rejected, ...] = ()


Record = SampleRecord | SysinfoRecord | JobsRecord | ClusterRecord | ErrorRecord
