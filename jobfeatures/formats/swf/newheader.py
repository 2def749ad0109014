"""Makes the header of a newly written log: pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from jobfeatures.formats.swf.header import Comment, Header, format_date
from jobfeatures.formats.swf.numbering import Numbering
from jobfeatures.formats.swf.records import KINDS, NAMED
from jobfeatures.formats.swf.survey import Survey

LATEST_SECS: Final = 253402300799  # the end of the year 9999, after which there are no dates
# Labels that a new header computes itself, and does not copy from the old one.
_MADE_ANEW: Final = frozenset(
    {
        *("Version", "MaxJobs", "MaxRecords", "Preemption", "UnixStartTime", "TimeZone", "TimeZoneString"),
        *("StartTime", "EndTime", "MaxQueues", "Queue", "MaxPartitions", "Partition"),
    }
)


def make_header(survey: Survey, start_secs: int, numbering: Numbering, old: Header | None = None) -> Header:
    """Return the header of jobs whose times count from `start_secs`; `old` is that of their log."""
    is_model = start_secs == 0 and survey.jobs > 0 and not survey.is_measured  # times are of no clock
    tells_time = not is_model if old is None else old.readable(Header.start_secs) is not None
    zone = ZoneInfo("UTC")
    end_secs = start_secs if survey.end_secs is None else survey.end_secs
    texts: list[tuple[str, str]] = [
        ("Version", "2.2"),
        ("MaxJobs", str(survey.jobs)),
        ("MaxRecords", str(survey.jobs)),
        ("Preemption", "No"),
    ]
    if tells_time:
        texts.append(("UnixStartTime", str(start_secs)))
        if 0 <= start_secs <= LATEST_SECS:
            texts += [
                ("TimeZoneString", "UTC"),
                ("StartTime", format_date(datetime.fromtimestamp(start_secs, zone))),
                ("EndTime", format_date(datetime.fromtimestamp(max(0, end_secs), zone))),
            ]
    if old is not None:
        texts += [
            (each.label, each.value)
            for each in old.comments
            if each.label not in _MADE_ANEW and not NAMED.match(each.value)
        ]
    for kind, label in KINDS.items():
        if label and (names := numbering[kind].names):
            texts.append((f"Max{label}s", str(len(names))))
            texts += [(label, f"{number} {one_word(name)}") for name, number in names.items()]
    if old is None or old.requests_cpu_time() is not survey.is_cpu:
        kind_of_time = "average CPU times per processor" if survey.is_cpu else "wall clock times"
        texts.append(("Note", f"requested times are {kind_of_time}"))
    for kind, label in KINDS.items():
        if not label:
            names = numbering[kind].names
            texts += [("Note", f"{kind} {number} is {one_line(name)}") for name, number in names.items()]
    return Header("", [Comment(label, value) for label, value in texts])


def one_line(name: str) -> str:
    """Return a name without what would end a comment's line."""
    return " ".join(name.split())


def one_word(name: str) -> str:
    """Return the same as one word."""
    return "_".join(name.split())
