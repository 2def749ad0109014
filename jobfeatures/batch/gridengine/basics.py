"""Parses job ids, times and sizes as Grid Engine's files and commands write them. Pure.

Time and memory specifiers: sge_types(5). Limits, and how they are multiplied by slots: queue_conf(5),
"RESOURCE LIMITS".
"""

from __future__ import annotations

import re

from jobfeatures.errors import ParseError, matched
from jobfeatures.records.model import UNLIMITED, JobKey, Limit

NAME = "gridengine"
NOTHING = frozenset({"", "none", "undefined", "na", "null"})  # in lower case; matched in any case

_DIRECTORY = re.compile(r"([1-9][0-9]{0,9})\.([1-9][0-9]{0,9})", re.ASCII)
_TASK = re.compile(r"^ja_task_id=([0-9]{1,10})$", re.MULTILINE)
_NUMBER = re.compile(
    r"(?:0[xX](?P<hex>[0-9a-fA-F]{1,16})|(?P<octal>0[0-7]{1,18})|(?P<decimal>0|[1-9][0-9]{0,17}))\Z"
)
_FRACTION = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})\Z", re.ASCII)
_PART = re.compile(r"[0-9]{0,10}\Z", re.ASCII)
_PLAIN_ID = re.compile(r"[1-9][0-9]{0,9}\Z", re.ASCII)
_ID = re.compile(r"([1-9][0-9]{0,9})(?:\.([1-9][0-9]{0,9}))?\Z", re.ASCII)
_MULTIPLIERS = {
    **{letter: 1000**power for power, letter in enumerate("kmgt", 1)},
    **{letter: 1024**power for power, letter in enumerate("KMGT", 1)},
}
_WORDS: dict[str, Limit] = {**dict.fromkeys(NOTHING), "infinity": UNLIMITED, "inf": UNLIMITED}


def is_number(text: str) -> bool:
    """Return whether a text is a job number."""
    return _PLAIN_ID.match(text) is not None


def checked_number(text: str, *, source: str = "", field: str = "") -> str:
    """Return `text` as it is if it is a job number, else raise ParseError."""
    return matched(_PLAIN_ID, text, "not a job id", source=source, field=field)[0]


def number_of(job_id: str) -> str | None:
    """Return the number in a job id, as qstat takes it: ``7`` for ``7`` and ``7.3``; None if not an id."""
    match = _ID.match(job_id)
    return match[1] if match else None


def make_key(number: str, task: str | None) -> JobKey:
    """Return the key of a job or, with `task`, of an array's task. Raises ParseError if one is malformed."""
    job_id = number if task is None else f"{number}.{task}"
    matched(_ID, job_id, "not a job id")
    return JobKey(NAME, job_id)


def parse_job_id(name: str, config: str) -> str | None:
    """Return the id of the job whose directory is called `name`; None if the name is not that of a job.

    The name is ``<job>.<task>``. All tasks of an array share one number and several may run on a node, so the
    id is ``JOB.TASK`` for an array. For any other job the id is ``JOB``, as `qstat` and JOB_ID give the
    number alone. A `ja_task_id` of 0 in `config`, the text of the job's file, means that it is not in an
    array; users can forge text there, so nothing else is taken from it.
    """
    directory = _DIRECTORY.fullmatch(name)
    if directory is None:
        return None
    task = _TASK.search(config)
    return directory[1] if task is not None and int(task[1]) == 0 else name


def parse_limit_secs(text: str, *, field: str = "") -> Limit:
    """Parse a time specifier to seconds: ``3600``, ``1:0:1``, ``1::1`` (both 3601), ``0x10``, ``010`` (8).

    INFINITY is UNLIMITED; NONE, UNDEFINED and "" are None. A fraction of a second, as in ``60.000000``, is
    dropped. Raises ParseError if malformed.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if ":" in text:
        parts = text.split(":")
        if len(parts) != 3 or not all(_PART.match(part) for part in parts) or not any(parts):
            raise ParseError("not a time", field=field, text=text)
        hours, minutes, seconds = (int(part or "0") for part in parts)
        return hours * 3600 + minutes * 60 + seconds
    return _parse_number(text, field, "not a time")


def parse_limit_bytes(text: str, *, field: str = "") -> Limit:
    """Parse a memory specifier to bytes: ``4G`` is 4 * 1024**3, ``4g`` is 4 * 1000**3, ``500`` is 500.

    INFINITY is UNLIMITED; NONE, UNDEFINED and "" are None. Raises ParseError if malformed.
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    scale = _MULTIPLIERS.get(text[-1], 1)
    return _parse_number(text[:-1] if scale != 1 else text, field, "not a size", scale)


def least_limit(*limits: Limit) -> Limit:
    """Return the lowest limit. An unknown one, None, is ignored: it does not mean UNLIMITED."""
    numbers = [each for each in limits if isinstance(each, int)]
    if numbers:
        return min(numbers)
    return UNLIMITED if limits and None not in limits else None


def known(text: str | None) -> str | None:
    """Return a text; None if it is one of Grid Engine's words for no value, such as NONE."""
    return None if text is None or text.lower() in NOTHING else text


def _parse_number(text: str, field: str, reason: str, scale: int = 1) -> int:
    match = _NUMBER.match(text)
    if match is not None:
        if match["hex"]:
            return int(match["hex"], 16) * scale
        return (int(match["octal"], 8) if match["octal"] else int(match["decimal"])) * scale
    fraction = matched(_FRACTION, text, reason, field=field)
    below: int = int(fraction[2]) * scale // 10 ** len(fraction[2])
    return int(fraction[1]) * scale + below
