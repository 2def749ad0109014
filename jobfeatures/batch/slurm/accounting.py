"""Jobs and their steps as ``sacct`` tells them: text to records. Pure.

Fields and units: sacct(1). The separator stands on the command line, since
sacct takes it from nowhere else: see `jobfeatures.batch.slurm.fields`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jobfeatures.accounting import Accounting, AccountingRecord
from jobfeatures.batch.slurm.basics import NAME
from jobfeatures.batch.slurm.fields import Record, split_open
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.model import UNLIMITED, JobKey, Limit
from jobfeatures.quantities import parse_binary_size, parse_count

ACCOUNTING_SOURCE = "sacct"
ACCOUNTING_FIELDS = (
    *("JobIDRaw", "JobID", "User", "Account", "Partition", "JobName", "State", "Start", "End", "Submit"),
    *("AveCPU", "AveDiskRead", "AveDiskWrite", "AveRSS", "AveVMSize", "ElapsedRaw", "ExitCode", "Layout"),
    *(
        "MaxRSS",
        "MaxVMSize",
        "MinCPU",
        "ReqCPUS",
        "ReqMem",
        "ReqNodes",
        "ReqTRES",
        "AllocTRES",
        "Reservation",
    ),
    *("Suspended", "SystemCPU", "UserCPU", "TimelimitRaw", "Priority", "NodeList"),
)

NO_MEMORY = "16?"
_RAW_ID = re.compile(r"([1-9][0-9]{0,9})(?:\.([A-Za-z0-9_+-]{1,64}))?\Z")
_ARRAY_ID = re.compile(r"([1-9][0-9]{0,9})_(?:([0-9]{1,10})(?:\.|\Z)|\[)")
_HET_ID = re.compile(r"([1-9][0-9]{0,9})\+([0-9]{1,10})(?:\.|\Z)")
_STATE = re.compile(r"[A-Z_]{1,40}(?= |\Z)")
_EXIT = re.compile(r"([0-9]{1,10})(?::[0-9]{1,10})?\Z")
_ALIVE = frozenset({"PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING"})


def accounting_format() -> str:
    """Return the value of sacct's ``--format``."""
    return ",".join(ACCOUNTING_FIELDS)


def parse_accounting(text: str, separator: str, *, taken_at_secs: float) -> Accounting:
    """Return the records of ``sacct -a -P -n --noconvert --delimiter SEPARATOR``, times as epoch seconds.

    A bad record costs itself only. Raises ParseError where the answer is cut off.
    """
    records: list[AccountingRecord] = []
    rejected: list[Rejected] = []
    for values in split_open(text, separator, ACCOUNTING_FIELDS, source=ACCOUNTING_SOURCE):
        try:
            records.append(parse_accounting_record(values))
        except ParseError as error:
            rejected.append(
                Rejected(
                    ACCOUNTING_SOURCE,
                    f"{error.reason} (job {values['JobIDRaw'][:32]})",
                    0,
                    error.field,
                    error.text,
                )
            )
    return Accounting(
        source=NAME, records=tuple(records), taken_at_secs=taken_at_secs, rejected=tuple(rejected)
    )


def parse_accounting_record(values: Mapping[str, str]) -> AccountingRecord:
    """Return one job or step; raises ParseError.

    JobIDRaw is the controller's own number, with the step behind a dot; JobID
    tells of arrays (``3_1``, ``3_[2-5%2]`` where tasks have not been split
    off) and heterogeneous jobs (``6+1``). State may have words behind it
    (``CANCELLED by 6001``). Times that have not come are ``Unknown``.
    """
    record = Record(values)
    identity = _RAW_ID.match(values["JobIDRaw"])
    if identity is None:
        raise ParseError("not a job id", field="JobIDRaw", text=values["JobIDRaw"])
    state = _STATE.match(values["State"])
    if state is None:
        raise ParseError("not a state", field="State", text=values["State"])
    array, het = _ARRAY_ID.match(values["JobID"]), _HET_ID.match(values["JobID"])
    cpus, nodes = record.scaled("ReqCPUS"), record.scaled("ReqNodes")
    return AccountingRecord(
        key=JobKey(NAME, identity[1]),
        step=identity[2] or "",
        name=values["JobName"],
        state=state.group(),
        array_job_id=array[1] if array else None,
        array_task_id=int(array[2]) if array and array[2] else None,
        het_job_id=het[1] if het else None,
        het_offset=int(het[2]) if het else None,
        user=record.text("User"),
        account=record.text("Account"),
        partition=record.text("Partition"),
        reservation=record.text("Reservation"),
        nodes=record.nodes("NodeList"),
        submit_secs=record.count("Submit"),
        start_secs=record.count("Start"),
        end_secs=record.count("End"),
        wall_limit_secs=_parse_limit(record),
        priority=record.count("Priority"),
        distribution=record.text("Layout"),
        requested_cpus=cpus,
        requested_nodes=nodes,
        requested_memory_per_node_bytes=parse_requested_memory(record.text("ReqMem"), cpus, nodes),
        requested_resources=record.text("ReqTRES"),
        allocated_resources=record.text("AllocTRES"),
        suspended_secs=record.secs("Suspended"),
        exit_code=None if state.group() in _ALIVE else _parse_exit_code(record),
        elapsed_secs=record.count("ElapsedRaw"),
        user_cpu_secs=record.secs("UserCPU"),
        system_cpu_secs=record.secs("SystemCPU"),
        min_cpu_secs=record.secs("MinCPU"),
        average_cpu_secs=record.secs("AveCPU"),
        average_read_bytes=record.scaled("AveDiskRead"),
        average_written_bytes=record.scaled("AveDiskWrite"),
        average_resident_bytes=record.scaled("AveRSS"),
        average_virtual_bytes=record.scaled("AveVMSize"),
        max_resident_bytes=record.scaled("MaxRSS"),
        max_virtual_bytes=record.scaled("MaxVMSize"),
    )


def parse_requested_memory(text: str | None, cpus: int | None, nodes: int | None) -> int | None:
    """Return bytes per node of ReqMem, None for none, and where CPUs or nodes would have to be known.

    Up to 21.08 a letter at the end says per what: ``4Gn`` a node, ``2000Mc`` a
    CPU. Without it the value is the job's as a whole. A bare number is MiB.
    ``16?`` is 2**64 and says that there is no number. Raises ParseError.
    """
    if text is None or text == NO_MEMORY:
        return None
    per = text[-1:] if text[-1:] in {"n", "c"} else ""
    size = parse_binary_size(text.removesuffix(per) if per else text, field="ReqMem", bare_unit="M")
    if not size or per == "n":
        return size or None
    if per == "c":
        return None if not cpus or not nodes else size * cpus // nodes
    return size // nodes if nodes else None


def _parse_limit(record: Record) -> Limit:
    minutes = record.text("TimelimitRaw")
    if minutes is None:
        return None
    return UNLIMITED if minutes == "UNLIMITED" else parse_count(minutes, field="TimelimitRaw") * 60


def _parse_exit_code(record: Record) -> int | None:
    text = record.text("ExitCode")
    if text is None:
        return None
    match = _EXIT.match(text)
    if match is None:
        raise ParseError("not CODE:SIGNAL", field="ExitCode", text=text)
    return int(match[1])
