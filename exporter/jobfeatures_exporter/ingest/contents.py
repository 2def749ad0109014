"""The records that `parse` makes of other agents' documents (envelopes). They are immutable.

Content that a node's snapshot has too is held in the snapshot's types. If an envelope omits a number, the
record has 0, since agents omit zeros. None marks what the agent's version never sends, or reports as unset.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.errors import Rejected
from jobfeatures.formats.sonar.fields import PID_MAX
from jobfeatures.formats.sonar.parsejobs import ClusterRecord, SlurmJobRecord
from jobfeatures_exporter.model.hardware import SysinfoSample
from jobfeatures_exporter.model.snapshot import GpuSample, NodeSample


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessGpuRecord:
    """The use of one GPU by one process: utilisation in percent, and memory in bytes (None: not reported)."""

    uuid: str
    util_percent: float | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """One received process, or `count` processes of one parent and command that the agent has summed.

    The agent calls such a sum rolled up; its `pid` is 0, or since Sonar 0.18 a number above all pids that is
    stable as processes come and go. Figures are None if the agent does not report them.
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
        """Return whether this is the sum of several processes, which cannot be followed by pid."""
        return self.count > 1 or self.pid > PID_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedJob:
    """The user and processes of a job (`epoch` is 0) or of a process group; `job` is its id."""

    job: int
    epoch: int
    user: str
    processes: tuple[ProcessRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """A received sample of a node and its jobs; `time_secs` is None if the document gives no time.

    `core_secs` holds the CPU seconds each core was busy. `system` has the node's other figures, without those
    that have fields here. `errors` are the agent's messages on what it could not do; `rejected` are the
    elements that were left out as invalid.
    """

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
    """A received description of a node's hardware and software, in the field `sample`.

    Numbers that the document omits are None, since none of them can be 0. `rejected` are the elements that
    were left out as invalid.
    """

    cluster: str
    node: str
    time_secs: int | None
    sample: SysinfoSample
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsRecord:
    """Received jobs of a cluster. Where a later record of a job has a value, it replaces the earlier value.

    `time_secs` is None if the document gives no time; `rejected` are the elements that were left out as
    invalid.
    """

    cluster: str
    time_secs: int | None
    jobs: tuple[SlurmJobRecord, ...]
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRecord:
    """A received document that holds errors instead of data: it is only counted.

    `rejected` are the elements that were left out as invalid.
    """

    cluster: str
    rejected: tuple[Rejected, ...] = ()


Record = SampleRecord | SysinfoRecord | JobsRecord | ClusterRecord | ErrorRecord
