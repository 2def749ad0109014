"""Splits the output of ``squeue`` and ``sacct`` into fields, which no user's text can shift. Pure.

Job names may contain newlines, any delimiter and complete forged records, and neither command escapes them.
Hence each call separates its fields by a random word, which nobody can guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from jobfeatures.batch.basics import count_ranges
from jobfeatures.batch.slurm.basics import NOTHING
from jobfeatures.errors import ParseError, matched
from jobfeatures.records.model import UNLIMITED, Unlimited
from jobfeatures.records.nodelist import expand_nodes
from jobfeatures.records.quantities import parse_count, parse_slurm_duration

UNKNOWN = NOTHING | {"NONE", "Unassigned", "INVALID", "Partition_Limit", "None assigned", "n/a"}

UIDS = 2**32  # of Linux
_TASKS = re.compile(r"\[?([0-9,:-]+?)(?:%[0-9]{1,10})?\]?\Z")


def split_closed(
    text: str, separator: str, fields: Sequence[str], *, source: str
) -> Iterator[Mapping[str, str]]:
    """Yield the records of `text`, by field name. Raises ParseError if the text is truncated.

    Every field, the last one too, is followed by `separator`. `source` names the command in errors.
    """
    pieces = text.split(separator)
    if (len(pieces) - 1) % len(fields) or pieces[-1].strip("\n"):
        raise ParseError("answer is cut off", source=source, text=pieces[-1])
    for start in range(0, len(pieces) - 1, len(fields)):
        pieces[start] = pieces[start].lstrip("\n")  # the newline that ends the previous record
        yield dict(zip(fields, pieces[start : start + len(fields)], strict=True))


def split_open(
    text: str, separator: str, fields: Sequence[str], *, source: str
) -> Iterator[Mapping[str, str]]:
    """Yield the records of `text`, by field name. Raises ParseError if the text is truncated.

    `separator` is between the fields, and a newline after each record. So the last of `fields` must not be
    one that users write. `source` names the command in errors.
    """
    pieces = text.split(separator)
    width = len(fields) - 1
    if (len(pieces) - 1) % width or (len(pieces) > 1 and not pieces[-1].endswith("\n")):
        raise ParseError("answer is cut off", source=source, text=pieces[-1])
    if len(pieces) == 1 and pieces[0].strip("\n"):
        raise ParseError("the answer has no records", source=source, text=pieces[0])
    first = pieces[0]
    for start in range(0, len(pieces) - 1, width):
        last, _, rest = pieces[start + width].partition("\n")
        yield dict(zip(fields, [first, *pieces[start + 1 : start + width], last], strict=True))
        first = rest


def reason_word(text: str) -> str:
    """Return why a job is pending, in one word such as Slurm's JSON has.

    squeue prints one reason as a sentence, "Nodes required for job are DOWN, DRAINED or reserved for jobs in
    higher priority partitions" (slurmctld's node_scheduler.c): it becomes ``Resources``.
    """
    sentence = "Nodes required for job are DOWN, DRAINED or reserved"
    return "Resources" if text.replace("_", " ").startswith(sentence) else text


def parse_uid(text: str) -> int:
    """Return a user id. Raises ParseError if malformed.

    squeue up to 26.05.2 prints user ids from 2**31 on as negative numbers.
    """
    if not text.startswith("-"):
        return parse_count(text)
    uid = UIDS - parse_count(text[1:])
    if not UIDS // 2 <= uid < UIDS - 1:
        raise ParseError("not a user id", text=text)
    return uid


@lru_cache(maxsize=1024)  # many jobs have the same
def parse_time_limit(text: str) -> int | Unlimited:
    """Return squeue's time limit in seconds, or UNLIMITED. Raises ParseError if malformed."""
    return UNLIMITED if text == "UNLIMITED" else parse_slurm_duration(text)


expand_kept = lru_cache(maxsize=4096)(expand_nodes)  # many jobs and steps are on the same nodes


def count_tasks(text: str) -> int:
    """Return the number of tasks in ``1-5,9%2`` or ``[0-100:4]``. Raises ParseError if malformed.

    Source: sbatch(1).
    """
    match = matched(_TASKS, text, "not a list of array tasks", field="ArrayTaskID")
    return count_ranges(match[1], "a list of array tasks", field="ArrayTaskID")


def whole_part(text: str) -> str:
    """Return a list of array tasks without the part that Slurm has cut off: ``5,7-...`` becomes ``5``.

    A complete list is returned as it is.
    """
    shown, dots, _ = text.partition("...")
    return shown.rpartition(",")[0] if dots else text
