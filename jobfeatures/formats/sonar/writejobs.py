"""Makes Sonar's documents of jobs, from jobs and steps as accounting, or else the queue, reports them. Pure.

Source: NEW-FORMAT.md, "SlurmJob", and what Sonar sends. The profiles differ:

- `current`: the type is ``job``; ``time_limit`` is seconds + 2, as Sonar sends it;
  ``requested_resources`` and ``allocated_resources`` are present.
- `seed`, as specified: the type is ``jobs``; ``time_limit`` is minutes + 2, ``AveDiskRead`` and
  ``AveDiskWrite`` are bytes, and there are eight states.

In both, other sizes are in KiB, and unknown values are left out. An extended unsigned number is 0 if unset, 1
if infinite, else the value + 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from jobfeatures.errors import ParseError
from jobfeatures.formats.sonar import CURRENT, SEED
from jobfeatures.formats.sonar.envelopes import JOBS, Document, Origin, data_envelope, timestamp, unicode_text
from jobfeatures.formats.sonar.fields import JOB_STATES, SEED_JOB_STATES
from jobfeatures.joblogs.jobnumbers import parse_job_number
from jobfeatures.joblogs.loggedjob import JobRecord, Number
from jobfeatures.records.model import UNLIMITED, Limit
from jobfeatures.records.nodelist import fold_ranges

_DIGITS = re.compile(r"[0-9]{1,19}\Z", re.ASCII)
TYPES = {CURRENT: JOBS, SEED: "jobs"}
LIMIT_UNIT_SECS = {CURRENT: 1, SEED: 60}
ALWAYS = ("job_id", "job_step", "job_name", "job_state")  # in every record

# Slurm states that the format lacks → the nearest that it has.
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
# States that the specification of v0.13 lacks → the nearest that it has.
_SEED_WORDS = {
    "BOOT_FAIL": "FAILED",
    "COMPLETING": "RUNNING",
    "CONFIGURING": "RUNNING",
    "NODE_FAIL": "FAILED",
    "PREEMPTED": "CANCELLED",
    "REQUEUED": "PENDING",
    "RESIZING": "RUNNING",
    "REVOKED": "CANCELLED",
    "STOPPED": "RUNNING",
    "SUSPENDED": "RUNNING",
}


def jobs_document(origin: Origin, records: Iterable[Document], taken_at_secs: float) -> Document:
    """Return an envelope with jobs that `job_fields` returned; `taken_at_secs` is the time of the data.

    An envelope without jobs only shows that the exporter runs.
    """
    return data_envelope(
        origin,
        TYPES[origin.profile],
        {
            "time": timestamp(taken_at_secs, origin.zone),
            "cluster": origin.cluster,
            "slurm_jobs": list(records),
        },
    )


def job_fields(origin: Origin, record: JobRecord) -> Document:
    """Return the known fields of one job or step, in the order of the specification.

    Raises ParseError for a job id that is not a number, and for an invalid state or node name.
    """
    more, word = dict(record.more), record.state_word or record.state.value
    fields: dict[str, Any] = {
        "job_id": _job_number(record.job_id),
        "job_step": record.step or "",
        "job_name": unicode_text(record.name or ""),
        "job_state": job_state(word.partition(" ")[0], origin.profile),  # without who cancelled it
        "array_job_id": _number(record.array_job_id),
        "array_task_id": _number(record.array_task_id),
        "het_job_id": _number(record.het_job_id),
        "het_job_offset": record.het_offset,
        "user_name": record.user,
        "account": record.account,
        "submit_time": _time(origin, record.submit_secs),
        "time_limit": _limit(record.wall_limit_secs, LIMIT_UNIT_SECS[origin.profile]),
        "partition": record.partition or record.queue,
        "reservation": record.reservation,
        "nodes": list(fold_ranges(record.nodes)) or None,
        "priority": _limit(record.priority, 1),
        "distribution": more.get("distribution"),
        "requested_cpus": record.requested_cpus,
        "requested_memory_per_node": requested_memory_kib(record),
        "requested_node_count": record.requested_nodes,
        "start_time": _time(origin, record.start_secs),
        "suspend_time": _whole(record.suspended_secs),
        "end_time": _time(origin, record.end_secs),
        "exit_code": 0
        if record.exit_status is None and record.exit_signal is not None
        else record.exit_status,
    }
    if origin.profile == CURRENT:
        fields["requested_resources"] = _resources(record, "requested")
        fields["allocated_resources"] = _resources(record, "allocated")
    else:
        fields["gres_detail"] = (
            str(more.get("gres_detail", "")).split("\n") if "gres_detail" in more else None
        )
        fields["minimum_cpus_per_node"] = more.get("min_cpus_per_node")
    fields["sacct"] = _known(_sacct(record, 1 if origin.profile == SEED else 1024)) or None
    return _known(fields)


def _sacct(record: JobRecord, traffic_unit_bytes: int) -> dict[str, Any]:
    more: dict[str, Any] = dict(record.more)
    user, system = record.user_cpu_secs, record.system_cpu_secs
    return {
        "MinCPU": _whole(more.get("min_cpu_secs")),
        "AllocTRES": _resources(record, "allocated"),
        "AveCPU": _whole(more.get("average_cpu_secs")),
        "AveDiskRead": _units(more.get("average_read_bytes"), traffic_unit_bytes),
        "AveDiskWrite": _units(more.get("average_written_bytes"), traffic_unit_bytes),
        "AveRSS": _units(more.get("average_resident_bytes")),
        "AveVMSize": _units(more.get("average_virtual_bytes")),
        "ElapsedRaw": _whole(record.run_secs),
        "SystemCPU": _whole(system),
        "UserCPU": _whole(record.used_cpu_secs if user is None and system is None else user),
        "MaxRSS": _units(more.get("max_resident_bytes", record.used_memory_bytes)),
        "MaxVMSize": _units(more.get("max_virtual_bytes")),
    }


def _resources(record: JobRecord, which: str) -> str | None:
    reported = dict(record.more).get(f"{which}_resources")
    return resources_text(record, which) if reported is None else str(reported)


def resources_text(record: JobRecord, which: str) -> str | None:
    """Return a record's resources in Slurm's notation, such as ``cpu=128,node=1``; None if none is known.

    `which` is "requested" or "allocated".
    """
    amounts: tuple[tuple[str, int | None], ...]
    if which == "requested":
        amounts = (("gres/gpu", record.requested_gpus),)
    else:
        amounts = (("cpu", record.total_cpus), ("node", record.total_nodes), ("gres/gpu", record.total_gpus))
    return ",".join(f"{name}={amount}" for name, amount in amounts if amount is not None) or None


def requested_memory_kib(record: JobRecord) -> int | None:
    """Return the requested memory of the whole job in KiB, rounded up; None if unknown or unlimited.

    Sonar and sacct (ReqMem) report the same amount.
    """
    size = record.requested_memory_bytes
    return -(-size // 1024) if isinstance(size, int) else None


def _whole(secs: Any) -> int | None:
    return None if secs is None or secs < 0 else int(secs)


def job_state(state: str, profile: str = CURRENT) -> str:
    """Translate a Slurm state to the name that the profile uses. Raises ParseError for an unknown state."""
    found = state if state in JOB_STATES else _OTHER_WORDS.get(state)
    if found is None:
        raise ParseError("not a state of a job", field="job_state", text=state)
    return found if profile != SEED or found in SEED_JOB_STATES else _SEED_WORDS[found]


def _known(fields: Mapping[str, Any]) -> Document:
    return {
        name: unicode_text(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if value is not None
    }


def _time(origin: Origin, secs: Number | None) -> str | None:
    return None if secs is None else timestamp(int(secs), origin.zone)


def _limit(value: Limit, unit: int) -> int | None:
    """Encode a limit as an extended unsigned, rounded up to whole units, so that it never gets shorter."""
    if value is None:
        return None
    return 1 if value is UNLIMITED else -(-value // unit) + 2


def _units(size: int | None, unit: int = 1024) -> int | None:
    return None if size is None else size // unit


def _job_number(job_id: str) -> int:
    # Jobs from a log may have generated numbers, above those that any batch system assigns.
    number = int(job_id) if _DIGITS.match(job_id) else parse_job_number(job_id)
    if number is None:
        raise ParseError("not a number", field="job_id", text=job_id)
    return number


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
