"""Reads jobs from sacct's logs, and from its answers to the controller role. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import tzinfo
from itertools import chain, islice

from jobfeatures.batch.slurm.basics import NAME
from jobfeatures.batch.slurm.fields import split_open
from jobfeatures.batch.slurm.sacct.lines import is_header, parse_header
from jobfeatures.batch.slurm.sacct.reader import RecordConverter, read_rows
from jobfeatures.batch.slurm.sacct.requeued import with_ends
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.loggedjob import Accounting, JobBatch, JobRecord, Notes, StepUse

ACCOUNTING_SOURCE = "sacct"
ACCOUNTING_FIELDS = (
    *("JobIDRaw", "JobID", "User", "Account", "Partition", "JobName", "State", "Start", "End", "Submit"),
    *("AveCPU", "AveDiskRead", "AveDiskWrite", "AveRSS", "AveVMSize", "ElapsedRaw", "ExitCode", "Layout"),
    *("MaxRSS", "MaxVMSize", "MinCPU", "ReqCPUS", "ReqMem", "ReqNodes", "ReqTRES", "AllocTRES"),
    *("Reservation", "Suspended", "SystemCPU", "UserCPU", "TimelimitRaw", "Priority", "NodeList"),
)
BATCH = 256  # records converted together


def recognise(head: str) -> bool:
    """Return whether `head`, the beginning of a log, is a header that sacct prints."""
    return is_header(head.lstrip().partition("\n")[0])


def read_records(
    lines: Iterable[str],
    *,
    source: str,
    notes: Notes,
    zone: tzinfo | None = None,
    folds_steps: bool = False,
) -> Iterator[JobRecord | StepUse | JobBatch | Rejected]:
    """Yield the jobs of a log, each followed by its steps, and a Rejected for each malformed row.

    `zone` is the time zone of the machine that ran sacct (None: this machine's); times in epoch seconds
    (``SLURM_TIME_FORMAT=%s``) need none. Each run of a requeued job (``sacct -D``) has a record. With
    `folds_steps`, steps are merged into their jobs. `source` names the log in errors; `notes` counts values
    that could not be read.
    """
    rest = iter(lines)
    try:
        delimiter, names = parse_header(next((line for line in rest if line.strip()), ""))
    except ParseError as error:
        yield Rejected.from_error(error.at(source))
        return
    yield from read_rows(
        rest, delimiter, names, source=source, zone=zone, notes=notes, folds_steps=folds_steps
    )


def parse_accounting(text: str, separator: str, *, taken_at_secs: float) -> Accounting:
    """Parse the output of ``sacct -a -P -n --noconvert --delimiter SEPARATOR``, times as epoch seconds.

    Malformed records are rejected, the others used. Raises ParseError if the output is truncated.
    """
    records: list[JobRecord] = []
    rejected: list[Rejected] = []
    notes = Notes()
    converter = RecordConverter(ACCOUNTING_FIELDS, notes=notes)
    answer = split_open(text, separator, ACCOUNTING_FIELDS, source=ACCOUNTING_SOURCE)
    rows_read = iter(lambda: [tuple(values.values()) for values in islice(answer, BATCH)], [])
    batches = ((range(len(rows)), list(zip(*rows, strict=True))) for rows in rows_read)
    for numbers, columns in with_ends(batches, ACCOUNTING_FIELDS):
        each = chain.from_iterable(converter.each(numbers, columns))
        for job_id, found in zip(columns[0] if columns else (), each, strict=True):
            if isinstance(found, JobRecord):
                records.append(found)
            elif isinstance(found, ParseError):
                error = found.at(ACCOUNTING_SOURCE, about=f"job {job_id[:32]}")
                rejected.append(Rejected.from_error(error))
    return Accounting(NAME, tuple(records), taken_at_secs, (*rejected, *notes.faults(ACCOUNTING_SOURCE)))
