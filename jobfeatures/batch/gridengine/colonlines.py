"""Parses lines of Grid Engine's accounting file into fields by name. Pure.

Fields: accounting(5) (45 fields; Univa Grid Engine adds to them). Colons separate them, and nothing is
escaped: a job's name and its requests (the category) can hold colons, as in ``-l cpu=24:00:00``. Where these
two fields end is found from the numbers that must stand before and after them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from jobfeatures.errors import ParseError

FIELDS = (
    *("qname", "hostname", "group", "owner", "job_name", "job_number", "account", "priority"),
    *("submission_time", "start_time", "end_time", "failed", "exit_status", "ru_wallclock", "ru_utime"),
    *("ru_stime", "ru_maxrss", "ru_ixrss", "ru_ismrss", "ru_idrss", "ru_isrss", "ru_minflt", "ru_majflt"),
    *("ru_nswap", "ru_inblock", "ru_oublock", "ru_msgsnd", "ru_msgrcv", "ru_nsignals", "ru_nvcsw"),
    *("ru_nivcsw", "project", "department", "granted_pe", "slots", "task_number", "cpu", "mem", "io"),
    *("category", "iow", "pe_taskid", "maxvmem", "arid", "ar_sub_time"),
)
MORE_FIELDS = ("job_class", "qdel_info", "maxrss")  # added by Univa Grid Engine, after the others
LEAST_FIELDS: Final = FIELDS.index("category") + 1  # older versions write no more than these
MAX_LINE_CHARACTERS = 65536
NAME: Final = FIELDS.index("job_name")
CATEGORY: Final = FIELDS.index("category")

_TEXTS: Final = frozenset(
    {
        *("qname", "hostname", "group", "owner", "job_name", "account", "project", "department"),
        *("granted_pe", "category", "pe_taskid"),
    }
)
_COLUMNS = (*FIELDS, *MORE_FIELDS)
_NUMBERS: Final = tuple(place for place, name in enumerate(FIELDS) if name not in _TEXTS)
_HEAD: Final = tuple(place for place in _NUMBERS if place < CATEGORY)
_TAIL: Final = tuple(place for place in _NUMBERS if place > CATEGORY)
_NUMBER = re.compile(r"-?[0-9]*(?:\.[0-9]*)?(?:e[+-][0-9]+)?\Z", re.ASCII)
_MOST_COLONS = 256  # of a category


def parse_line(line: str) -> Mapping[str, str]:
    """Return a line's fields by name. Raises ParseError if it is not clear where the name and category end.

    Anything may follow the known fields. If one number is malformed, its text is returned as it is; if
    several are, ParseError is raised.
    """
    if len(line) > MAX_LINE_CHARACTERS:
        raise ParseError("line is too long", text=line)
    fields = line.rstrip("\n").split(":")
    if len(fields) < LEAST_FIELDS:
        raise ParseError(f"line has {len(fields)} fields, not {len(FIELDS)}", text=line)
    begins = [more for more in range(len(fields) - CATEGORY) if not _amiss(fields, _HEAD, more)]
    amiss = _amiss(fields, _NUMBERS)
    if amiss == 1 and not begins:
        begins = [0]
    elif len(begins) == 1 and (amiss or begins[0]):
        fields = _join(fields, NAME, begins[0])
        ends = [more for more in range(len(fields) - CATEGORY)[:_MOST_COLONS] if _ends(fields, more)]
        fields = _join(fields, CATEGORY, ends[0]) if ends else fields
    if len(begins) != 1 or _amiss(fields, _NUMBERS) > 1:
        name = next((FIELDS[place] for place in _NUMBERS if _is_amiss(fields, place)), "job_name")
        raise ParseError("fields cannot be told apart: a name has colons", field=name, text=line)
    return dict(zip(_COLUMNS, fields, strict=False))


def _is_amiss(fields: Sequence[str], place: int) -> bool:
    return place < len(fields) and not _NUMBER.match(fields[place])


def _amiss(fields: Sequence[str], places: Sequence[int], more: int = 0) -> int:
    """Return how many of the numbers at `places`, plus `more`, are malformed; counts to 2 at most."""
    return len(list(islice((place for place in places if _is_amiss(fields, place + more)), 2)))


def _ends(fields: Sequence[str], more: int) -> bool:
    """Return whether the category may contain `more` colons, and so extend over as many further fields."""
    is_category = fields[CATEGORY].startswith("-") and len(fields) - more >= len(FIELDS)
    return (is_category or not more) and not _amiss(fields, _TAIL, more)


def _join(fields: Sequence[str], place: int, count: int) -> list[str]:
    return [*fields[:place], ":".join(fields[place : place + count + 1]), *fields[place + count + 1 :]]
