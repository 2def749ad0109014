"""Defines the 18 fields of a line of SWF. Source: The Standard Workload Format, "The Data Fields"."""

from __future__ import annotations

from typing import Final, NamedTuple

UNKNOWN: Final = -1  # "irrelevant for a specific log or model"

Number = int | float


class SwfJob(NamedTuple):
    """The 18 numbers of one line of SWF; −1 means unknown.

    Times are in seconds, memory is in KiB per processor.
    """

    number: int
    submit_secs: Number  # since the log's start
    wait_secs: Number
    run_secs: Number
    processors: int  # allocated
    cpu_secs: Number  # used, user and system, averaged over the processors
    memory_kib: int  # used, averaged over the processors
    requested_processors: int
    requested_secs: Number
    requested_memory_kib: int  # per processor
    status: int
    user: int
    group: int
    executable: int
    queue: int
    partition: int
    preceding: int
    think_secs: Number


FIELDS: Final = SwfJob._fields
# "It is permissible to use floating point values for time fields."
TIME_FIELDS: Final = frozenset(
    {"submit_secs", "wait_secs", "run_secs", "cpu_secs", "requested_secs", "think_secs"}
)
IS_TIME: Final = tuple(name in TIME_FIELDS for name in FIELDS)

FAILED, COMPLETED, CONTINUED, LAST_COMPLETED, LAST_FAILED, CANCELLED = range(6)
STATUSES: Final = frozenset({UNKNOWN, *range(6)})
PARTIAL: Final = frozenset({CONTINUED, LAST_COMPLETED, LAST_FAILED})


class Meaning(NamedTuple):
    """How to interpret fields of a log where the format leaves a choice, or where the log deviates from it.

    `memory_is_bytes`: memory is in bytes, not KiB. `memory_is_of_job`: it is per job, not per processor.
    `requests_cpu_time`: requested times are CPU times, not wall times (None: as the header says). `no_waits`:
    jobs that ran, but whose wait is unknown, started when they were submitted.
    """

    memory_is_bytes: bool = False  # not KiB
    memory_is_of_job: bool = False  # not of a processor
    requests_cpu_time: bool | None = None  # average CPU time, not wall time; None: see the header
    no_waits: bool = False  # jobs that ran, and whose wait is unknown, started when submitted
