"""The jobs record: what accounting, or else the queue, tells of jobs and their steps. Pure.

Source: NEW-FORMAT.md, "SlurmJob", and what Sonar sends. The profiles differ:

- `current`: the type is ``job``; ``time_limit`` is seconds + 2, as Sonar sends it;
  ``requested_resources`` and ``allocated_resources`` are there.
- `seed`: the type is ``jobs``; ``time_limit`` is minutes + 2, as the text says.

In both, sizes are KiB, an extended unsigned is 0 where unset, 1 where infinite,
else the value + 2, and what is not known is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from jobfeatures.accounting import AccountingRecord
from jobfeatures.errors import ParseError
from jobfeatures.formats.sonar.envelopes import (
    CURRENT,
    JOBS,
    SEED,
    Document,
    Origin,
    data_envelope,
    timestamp,
    unicode_text,
)
from jobfeatures.formats.sonar.fields import JOB_STATES
from jobfeatures.jobnumbers import parse_job_number
from jobfeatures.model import UNLIMITED, Limit
from jobfeatures.nodelist import fold_ranges

_DIGITS = re.compile(r"[0-9]{1,19}\Z", re.ASCII)
TYPES = {CURRENT: JOBS, SEED: "jobs"}
LIMIT_UNIT_SECS = {CURRENT: 1, SEED: 60}
ALWAYS = ("job_id", "job_step", "job_name", "job_state")  # stand in every record

# Slurm's words that the format does not have.
_OTHER_WORDS = {
    "LAUNCH_FAILED": "FAILED",
    "RECONFIG_FAIL": "NODE_FAIL",
    "REQUEUE_FED": "PENDING",
    "REQUEUE_HOLD": "PENDING",
    "RESV_DEL_HOLD": "PENDING",
    "SIGNALING": "RUNNING",
    "SPECIAL_EXIT": "PENDING",
    "STAGE_OUT": "COMPLETING",
}


def jobs_document(origin: Origin, records: Iterable[Document], taken_at_secs: float) -> Document:
    """Return the envelope of job records as `job_fields` makes them; none is a sign of life."""
    return data_envelope(
        origin,
        TYPES[origin.profile],
        {
            "time": timestamp(taken_at_secs, origin.zone),
            "cluster": origin.cluster,
            "slurm_jobs": list(records),
        },
    )


def job_fields(origin: Origin, record: AccountingRecord) -> Document:
    """Return all that is known of one job or step, in the order of the text.

    Raises ParseError for a job id that is no number, and a state or a node's name that is none.
    """
    fields: dict[str, Any] = {
        "job_id": _job_number(record.key.job_id),
        "job_step": record.step,
        "job_name": unicode_text(record.name),
        "job_state": job_state(record.state),
        "array_job_id": _number(record.array_job_id),
        "array_task_id": record.array_task_id,
        "het_job_id": _number(record.het_job_id),
        "het_job_offset": record.het_offset,
        "user_name": record.user,
        "account": record.account,
        "submit_time": _time(origin, record.submit_secs),
        "time_limit": _limit(record.wall_limit_secs, LIMIT_UNIT_SECS[origin.profile]),
        "partition": record.partition,
        "reservation": record.reservation,
        "nodes": list(fold_ranges(record.nodes)) or None,
        "priority": _limit(record.priority, 1),
        "distribution": record.distribution,
        "requested_cpus": record.requested_cpus,
        "requested_memory_per_node": _kib(record.requested_memory_per_node_bytes),
        "requested_node_count": record.requested_nodes,
        "start_time": _time(origin, record.start_secs),
        "suspend_time": record.suspended_secs,
        "end_time": _time(origin, record.end_secs),
        "exit_code": record.exit_code,
    }
    if origin.profile == CURRENT:
        fields["requested_resources"] = record.requested_resources
        fields["allocated_resources"] = record.allocated_resources
    fields["sacct"] = _known(_sacct(record)) or None
    return _known(fields)


def _sacct(record: AccountingRecord) -> dict[str, Any]:
    return {
        "MinCPU": record.min_cpu_secs,
        "AllocTRES": record.allocated_resources,
        "AveCPU": record.average_cpu_secs,
        "AveDiskRead": _kib(record.average_read_bytes),
        "AveDiskWrite": _kib(record.average_written_bytes),
        "AveRSS": _kib(record.average_resident_bytes),
        "AveVMSize": _kib(record.average_virtual_bytes),
        "ElapsedRaw": record.elapsed_secs,
        "SystemCPU": record.system_cpu_secs,
        "UserCPU": record.user_cpu_secs,
        "MaxRSS": _kib(record.max_resident_bytes),
        "MaxVMSize": _kib(record.max_virtual_bytes),
    }


def job_state(state: str) -> str:
    """Return one of the format's words. Raises ParseError for what is none of Slurm's."""
    found = state if state in JOB_STATES else _OTHER_WORDS.get(state)
    if found is None:
        raise ParseError("not a state of a job", field="job_state", text=state)
    return found


def _known(fields: Mapping[str, Any]) -> Document:
    return {
        name: unicode_text(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if value is not None
    }


def _time(origin: Origin, secs: int | None) -> str | None:
    return None if secs is None else timestamp(secs, origin.zone)


def _limit(value: Limit, unit: int) -> int | None:
    """Return an extended unsigned, rounded up to whole units: a limit is not told shorter than it is."""
    if value is None:
        return None
    return 1 if value is UNLIMITED else -(-value // unit) + 2


def _kib(size: int | None) -> int | None:
    return None if size is None else size // 1024


def _job_number(job_id: str) -> int:
    # A log's jobs may have numbers that were made up, beyond those that any batch system gives.
    number = int(job_id) if _DIGITS.match(job_id) else parse_job_number(job_id)
    if number is None:
        raise ParseError("not a number", field="job_id", text=job_id)
    return number


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
