"""slurmrestd's answers to ``diag``, ``licenses`` and ``reservations``. Pure.

Times of diag are microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from jobfeatures.batch.slurm.administration import make_cycles, make_licences, make_reservations
from jobfeatures.batch.slurm.basics import NAME
from jobfeatures.batch.slurm.json.values import JsonRecord
from jobfeatures.errors import ParseError, Rejected, parse_each
from jobfeatures.records.administration import (
    Licence,
    Licences,
    Requests,
    Reservation,
    Reservations,
    Scheduler,
    UserRequests,
    each_once,
)

_MICRO = 1e-6
_JOBS = ("submitted", "started", "completed", "canceled", "failed")
_QUEUED = {"agent": "agent_queue_size", "accounting": "dbd_agent_queue_size"}
# In the order of count, last, mean, longest, depth, length of the queue.
_CYCLES = {
    "main": (
        *("schedule_cycle_total", "schedule_cycle_last", "schedule_cycle_mean", "schedule_cycle_max"),
        *("schedule_cycle_mean_depth", "schedule_queue_length"),
    ),
    "backfill": (
        *("bf_cycle_counter", "bf_cycle_last", "bf_cycle_mean", "bf_cycle_max"),
        *("bf_depth_mean", "bf_queue_len"),
    ),
}
Made = TypeVar("Made", bound=Requests)


def parse_json_diag(document: JsonRecord, *, source: str, taken_at_secs: float) -> Scheduler:
    """Parse an answer to ``diag``. Raises ParseError."""
    found = JsonRecord(document.get("statistics"))
    if (threads := found.count("server_thread_count")) is None:
        raise ParseError("no statistics", source=source, field="statistics")
    jobs = {each: found.count(f"jobs_{each}") for each in _JOBS}
    queued = {to: found.count(name) for to, name in _QUEUED.items()}
    rejected: list[Rejected] = []
    return Scheduler(
        source=NAME,
        taken_at_secs=taken_at_secs,
        threads=threads,
        queued={name: each for name, each in queued.items() if each is not None},
        jobs={name: each for name, each in jobs.items() if each is not None},
        backfilled_jobs=found.count("bf_backfilled_jobs"),
        cycles={name: make_cycles(map(found.count, names)) for name, names in _CYCLES.items()},
        types=_requests(found.records("rpcs_by_message_type"), "message_type", Requests, rejected),
        users=_requests(found.records("rpcs_by_user"), "user", UserRequests, rejected),
        rejected=tuple(rejected),
    )


def _requests(
    records: Iterable[JsonRecord],
    name: str,
    make: Callable[[str, int, float], Made],
    rejected: list[Rejected],
) -> tuple[Made, ...]:
    def parse(record: JsonRecord) -> Made:
        text, count, total = record.text(name), record.count("count"), record.count("total_time")
        if not text or count is None or total is None:
            raise ParseError(f"{name}, count and total_time are required", text=text or "")
        return make(text, count, total * _MICRO)

    return each_once(parse_each(parse, records, rejected, "diag"), rejected, "diag")


def parse_json_licences(document: JsonRecord, *, source: str, taken_at_secs: float) -> Licences:
    """Parse an answer to ``licenses``. Raises ParseError where it has no list."""
    records = document.listed("licenses", source)
    return make_licences(_licence, records, source=source, taken_at_secs=taken_at_secs)


def _licence(record: JsonRecord) -> Licence:
    name, total, used = record.text("LicenseName"), record.count("Total"), record.count("Used")
    if name is None or total is None or used is None:
        raise ParseError("not a licence: LicenseName, Total and Used are required", text=name or "")
    return Licence(
        name=name, total=total, used=used, free=record.count("Free"), reserved=record.count("Reserved")
    )


def parse_json_reservations(document: JsonRecord, *, source: str, taken_at_secs: float) -> Reservations:
    """Parse an answer to ``reservations``. Raises ParseError where it has no list."""
    records = document.listed("reservations", source)
    return make_reservations(_reservation, records, source=source, taken_at_secs=taken_at_secs)


def _reservation(record: JsonRecord) -> Reservation:
    name, start, end = record.text("name"), record.count("start_time"), record.count("end_time")
    if name is None or start is None or end is None:
        raise ParseError("not a reservation: name, start_time and end_time are required", text=name or "")
    return Reservation(
        name=name,
        start_secs=start,
        end_secs=end,
        nodes=record.count("node_count"),
        cores=record.count("core_count"),
        is_maintenance="MAINT" in record.words("flags"),
    )
