"""What a batch system's accounting tells of jobs and their steps: frozen records, no I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.errors import Rejected
from jobfeatures.model import JobKey, Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingRecord:
    """A job or one of its steps. None is unknown, or not there yet; sizes are bytes, times epoch seconds.

    `step` is empty for the job itself. `state` is the batch system's own word,
    one word in capitals. `average_` and `max_` are over the tasks of a step.
    """

    key: JobKey
    step: str = ""
    name: str = ""
    state: str
    array_job_id: str | None = None
    array_task_id: int | None = None
    het_job_id: str | None = None
    het_offset: int | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    reservation: str | None = None
    nodes: tuple[str, ...] = ()
    submit_secs: int | None = None
    start_secs: int | None = None
    end_secs: int | None = None
    wall_limit_secs: Limit = None
    priority: int | None = None
    distribution: str | None = None
    requested_cpus: int | None = None
    requested_nodes: int | None = None
    requested_memory_per_node_bytes: int | None = None
    requested_resources: str | None = None  # the batch system's list, such as cpu=2,mem=200M,node=1
    allocated_resources: str | None = None
    suspended_secs: int | None = None
    exit_code: int | None = None
    elapsed_secs: int | None = None
    user_cpu_secs: int | None = None
    system_cpu_secs: int | None = None
    min_cpu_secs: int | None = None
    average_cpu_secs: int | None = None
    average_read_bytes: int | None = None
    average_written_bytes: int | None = None
    average_resident_bytes: int | None = None
    average_virtual_bytes: int | None = None
    max_resident_bytes: int | None = None
    max_virtual_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """One answer of a batch system's accounting."""

    source: str
    records: tuple[AccountingRecord, ...]
    taken_at_secs: float
    rejected: tuple[Rejected, ...] = ()
