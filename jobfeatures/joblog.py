"""Jobs as logs and accounting files tell of them: frozen records, no I/O.

A `JobRecord` is what one line, element or object says of one job (or of one
step of it) over all its nodes, usually after it has ended. `Job` of
`jobfeatures.model` is what a node knows of a job that may still run.

A format of such logs is one file that offers

``recognise(head)``
    whether a text that begins like this (4 KiB at most) is of the format,
``read_records(lines, source=…, strict=…)``
    what the lines say: records, and `Rejected` for those that could not be
    read. A strict reader raises ParseError instead, and repairs nothing.
``write_records(records, lost)``
    the lines that say it; only of formats that are written. `lost` is told,
    by name of the field, of every value that the format cannot hold, and by a
    name that begins with ``job `` of every job that has no place as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobfeatures.model import JobState, Limit

Number = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One job of a log, or one step of a job. Absent knowledge is None or empty, never zero.

    Times are seconds since the epoch, or since the log's start where the log
    tells no more. Sizes are bytes, and
    like CPU time they are of the whole job, all processors and nodes together.
    """

    batch_system: str
    job_id: str
    step: str | None = None  # None: the job itself
    state: JobState = JobState.UNKNOWN
    name: str | None = None
    user: str | None = None
    uid: int | None = None
    group: str | None = None
    gid: int | None = None
    account: str | None = None
    queue: str | None = None
    partition: str | None = None
    executable: str | None = None
    reservation: str | None = None
    priority: int | None = None
    submit_secs: Number | None = None
    eligible_secs: Number | None = None
    start_secs: Number | None = None  # of its last run
    end_secs: Number | None = None
    suspended_secs: Number | None = None
    restarts: int | None = None
    exit_status: int | None = None
    exit_signal: int | None = None
    nodes: tuple[str, ...] = ()
    total_nodes: int | None = None
    total_cpus: int | None = None  # allocated
    total_gpus: int | None = None
    requested_nodes: int | None = None
    requested_cpus: int | None = None
    requested_gpus: int | None = None
    requested_memory_bytes: Limit = None
    wall_limit_secs: Limit = None
    cpu_limit_secs: Limit = None
    used_cpu_secs: Number | None = None
    used_memory_bytes: int | None = None
    array_job_id: str | None = None
    array_task_id: str | None = None
    het_job_id: str | None = None
    het_offset: int | None = None
    preceding_job_id: str | None = None
    think_secs: Number | None = None  # between the end of that one and the submission of this


Lost = Callable[[str], None]
