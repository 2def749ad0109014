"""Jobs and their steps as ``sacct`` tells the controller role: text to records. Pure.

Fields and units: sacct(1), read as `jobfeatures.batch.slurm.sacct` reads them. The
separator stands on the command line, since sacct takes it from nowhere else:
see `jobfeatures.batch.slurm.fields`.
"""

from __future__ import annotations

from itertools import islice

from jobfeatures.batch.slurm.basics import NAME
from jobfeatures.batch.slurm.fields import split_open
from jobfeatures.batch.slurm.sacct.reader import RowConverter
from jobfeatures.batch.slurm.sacct.records import make_record
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblog import Accounting, JobRecord

ACCOUNTING_SOURCE = "sacct"
ACCOUNTING_FIELDS = (
    *("JobIDRaw", "JobID", "User", "Account", "Partition", "JobName", "State", "Start", "End", "Submit"),
    *("AveCPU", "AveDiskRead", "AveDiskWrite", "AveRSS", "AveVMSize", "ElapsedRaw", "ExitCode", "Layout"),
    *("MaxRSS", "MaxVMSize", "MinCPU", "ReqCPUS", "ReqMem", "ReqNodes", "ReqTRES", "AllocTRES"),
    *("Reservation", "Suspended", "SystemCPU", "UserCPU", "TimelimitRaw", "Priority", "NodeList"),
)
BATCH = 256  # records that are converted together


def accounting_format() -> str:
    """Return the value of sacct's ``--format``."""
    return ",".join(ACCOUNTING_FIELDS)


def parse_accounting(text: str, separator: str, *, taken_at_secs: float) -> Accounting:
    """Return the records of ``sacct -a -P -n --noconvert --delimiter SEPARATOR``, times as epoch seconds.

    A bad record costs itself only. Raises ParseError where the answer is cut off.
    """
    records: list[JobRecord] = []
    rejected: list[Rejected] = []
    converter = RowConverter(ACCOUNTING_FIELDS)
    answer = split_open(text, separator, ACCOUNTING_FIELDS, source=ACCOUNTING_SOURCE)
    while rows := [tuple(values.values()) for values in islice(answer, BATCH)]:
        for row, found in zip(rows, converter.each(range(len(rows)), rows), strict=True):
            try:
                if isinstance(found, ParseError):
                    raise found
                records.append(make_record(found))
            except ParseError as error:
                rejected.append(Rejected.from_error(error.at(ACCOUNTING_SOURCE, about=f"job {row[0][:32]}")))
    return Accounting(
        source=NAME, records=tuple(records), taken_at_secs=taken_at_secs, rejected=tuple(rejected)
    )
