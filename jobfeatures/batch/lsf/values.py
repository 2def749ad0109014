"""Parses values printed by LSF's commands: states, times, limits, sizes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta, tzinfo
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from jobfeatures.batch.lsf.basics import NOTHING
from jobfeatures.errors import ParseError, matched
from jobfeatures.records.model import JobState

# https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=reference-bjobs, "JOB STATUS"
STATES: Mapping[str, JobState] = {
    "PEND": JobState.PENDING,
    "PSUSP": JobState.PENDING,  # held before it was dispatched
    "WAIT": JobState.PENDING,  # member of a chunk job whose turn has not come
    "PROV": JobState.RUNNING,  # has its host, which is being woken
    "RUN": JobState.RUNNING,
    "USUSP": JobState.SUSPENDED,
    "SSUSP": JobState.SUSPENDED,
    "DONE": JobState.COMPLETED,
    "EXIT": JobState.FAILED,
    # mbatchd cannot reach the host, or could not when it killed the job: the job may still run
    "UNKWN": JobState.UNKNOWN,
    "ZOMBI": JobState.UNKNOWN,
}

# https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=reference-bacct, "Termination reasons": the keyword
# that bjobs prints, and the number in lsb.acct (exitInfo).
_ENDS = (
    ("TERM_PREEMPT", 1, JobState.PREEMPTED),
    ("TERM_RUNLIMIT", 5, JobState.TIMEOUT),
    ("TERM_DEADLINE", 6, JobState.TIMEOUT),
    ("TERM_FORCE_OWNER", 8, JobState.CANCELLED),
    ("TERM_FORCE_ADMIN", 9, JobState.CANCELLED),
    ("TERM_CPULIMIT", 12, JobState.TIMEOUT),
    ("TERM_OWNER", 14, JobState.CANCELLED),
    ("TERM_ADMIN", 15, JobState.CANCELLED),
    ("TERM_MEMLIMIT", 16, JobState.OUT_OF_MEMORY),
    ("TERM_SWAP", 20, JobState.OUT_OF_MEMORY),
    ("TERM_BUCKET_KILL", 23, JobState.CANCELLED),  # bkill -b
)
ENDS = {keyword: state for keyword, _, state in _ENDS}
ENDS_BY_NUMBER = {number: state for _, number, state in _ENDS}

UNITS = {unit: 1024**power for power, unit in enumerate("BKMGTPEZ")}
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME = re.compile(
    r"(?:[A-Z][a-z]{2} +)?([A-Z][a-z]{2}) +([0-9]{1,2}) +([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?"
    r"(?: +([0-9]{4}))?(?: +([LEX]))?\Z"
)
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_LIMIT = re.compile(rf"({_NUMBER})(?::([0-9]{{1,9}}))?(?::([0-9]{{1,9}}))?(?:/(\S{{1,255}}))?\Z")
_SIZE = re.compile(rf"({_NUMBER}) ?([KMGTPEZ])?(?:B|bytes?)?\Z", re.IGNORECASE)
_REASON = re.compile(r"TERM_[A-Z_]{1,40}")


class TimeLimit(NamedTuple):
    """A time limit as it was set: seconds at the speed of a host or host model, if `host` names one."""

    secs: Fraction
    host: str | None = None


def parse_state(stat: str, exit_reason: str = "") -> JobState:
    """Return the state of a job from LSF's word `stat`, such as RUN.

    For EXIT, the keyword at the start of `exit_reason` says more exactly how the job ended.
    """
    state = STATES.get(stat, JobState.UNKNOWN)
    if stat != "EXIT":
        return state
    match = _REASON.match(exit_reason)
    return ENDS.get(match[0], state) if match else state


def parse_time(text: str, *, now_secs: float, tz: tzinfo | None = None, field: str = "") -> int | None:
    """Return a timestamp as epoch seconds, None if unknown.

    Samples: ``Nov 21 12:31``, ``Nov 21 12:31:07 2026``, each optionally followed by a letter for how an end
    was estimated: L by the run limit, E and X by the job's own estimate. LSF documents no epoch form. The
    time is local to `tz` (None: this machine's zone). Without a year, it is the latest such date at most a
    day after `now_secs`; without seconds, it is up to a minute early. Raises ParseError if malformed.
    """
    if text in NOTHING:
        return None
    match = _TIME.match(text)
    if match is None or match[1] not in _MONTHS:
        raise ParseError("not a time", field=field, text=text)
    month, day = _MONTHS.index(match[1]) + 1, int(match[2])
    clock = int(match[3]), int(match[4]), int(match[5] or "0")
    if match[6]:
        return _epoch((int(match[6]), month, day), clock, tz, field, text)
    latest = datetime.fromtimestamp(now_secs, tz) + timedelta(days=1)
    for year in range(latest.year, latest.year - 9, -1):  # 29 February: at worst eight years apart
        try:
            found = _epoch((year, month, day), clock, tz, field, text)
        except ParseError:
            continue
        if found <= latest.timestamp():
            return found
    raise ParseError("not a time", field=field, text=text)


def _epoch(
    date: tuple[int, int, int], clock: tuple[int, int, int], tz: tzinfo | None, field: str, text: str
) -> int:
    try:
        return int(datetime(*date, *clock, tzinfo=tz).timestamp())
    except (ValueError, OverflowError, OSError):
        raise ParseError("not a time", field=field, text=text) from None


@lru_cache(maxsize=1024)  # many jobs have the same
def parse_limit(text: str, *, field: str = "") -> TimeLimit | None:
    """Return a run or CPU limit, None if unknown.

    Samples: ``1440.0`` and ``240.0/hostA`` (minutes), ``24:00`` (hours and minutes), ``24:00:00``
    (``LSB_HMS_TIME_FORMAT``). The slash precedes the host or model whose speed is meant. Source: bjobs -o and
    -hms, bsub -W. Raises ParseError if malformed.
    """
    if text in NOTHING:
        return None
    match = _LIMIT.match(text)
    if match is None or (match[2] is not None and "." in match[1]):
        raise ParseError("not a limit", field=field, text=text)
    first = Fraction(match[1])
    secs = first * 60 if match[2] is None else first * 3600 + int(match[2]) * 60 + int(match[3] or "0")
    return TimeLimit(secs, match[4])


def parse_size(text: str, *, field: str = "", bare_unit: str = "K") -> int | None:
    """Return bytes from ``9 Mbytes``, ``5.2 Gbytes``, ``100M`` or ``2048`` (powers of 1024), None if unknown.

    A bare number is in `bare_unit`, LSF_UNIT_FOR_LIMITS of lsf.conf. Raises ParseError if malformed.
    """
    if text in NOTHING:
        return None
    match = matched(_SIZE, text, "not a size", field=field)
    unit = match[2].upper() if match[2] else ("B" if text[-1].isalpha() else bare_unit)
    return int(Fraction(match[1]) * UNITS[unit])
