"""Parsers of the texts in sacct's columns, and caches of their results. Pure.

Source: sacct(1), "Job Accounting Fields" and "JOB STATE CODES". Logs repeat
the same texts, so each is converted once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Any, NamedTuple

from jobfeatures.batch.basics import parse_epoch
from jobfeatures.batch.slurm.fields import UNKNOWN, expand_kept, whole_part
from jobfeatures.batch.slurm.gpus import parse_resources
from jobfeatures.batch.slurm.record import STATES
from jobfeatures.errors import ParseError, matched
from jobfeatures.records.localtimes import parse_local
from jobfeatures.records.model import UNLIMITED, JobState, Limit
from jobfeatures.records.quantities import parse_binary_size, parse_count, parse_slurm_duration

MAX_KEPT = 65536  # texts per column
MAX_NODE = 64  # characters of a node list that is kept
NO_NODES = "None assigned"
NO_MEMORY = "16?"  # 2**64, which means that no number is set

_JOB = re.compile(
    r"([1-9][0-9]{0,9})"
    r"(?:_([0-9]{1,10}|\[(?!\])[0-9,:%-]{0,65536}(?:\.\.\.(?:%[0-9]{1,10})?)?\])|\+([0-9]{1,10}))?\Z"
)
_DURATION = re.compile(r"(?:([0-9]{1,9})-)?(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{2}(?:\.[0-9]{1,9})?)\Z")
_MINUTE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}\Z")
_WITH_OFFSET = re.compile(rf"{_MINUTE.pattern[:-2]}:[0-9]{{2}}(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}})\Z")
_ENERGY = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,9}))?([KMGTP?]?)\Z")
_EXIT = re.compile(r"([0-9]{1,10}):([0-9]{1,10})\Z")
_HOURS = {f"{number:02}": number * 3600 for number in range(10_000)}
_SECONDS = {f":{second:02}": second for second in range(60)}
_IN_HOUR = {f":{secs // 60:02}:{secs % 60:02}": secs for secs in range(3600)}


class TextCache(dict[str, Any]):
    """A cache of converted texts, by text; it is emptied when it has grown too large."""

    def __init__(self, convert: Callable[[str], Any]) -> None:
        super().__init__()
        self._convert = convert

    def __missing__(self, text: str) -> Any:
        if len(self) >= MAX_KEPT:
            self.clear()
        value = self[text] = self._convert(text)
        return value

    def column(self, texts: Sequence[str]) -> list[Any]:
        """Return what the texts of a column convert to, from the cache or newly converted, in their order."""
        if texts and texts.count(texts[0]) == len(texts):
            return [self[texts[0]]] * len(texts)
        return list(map(self.__getitem__, texts))


class NodeNameCache(TextCache):
    """A cache of names of single nodes. Lists of nodes are not cached, as their parser has its own cache."""

    def __missing__(self, text: str) -> Any:
        return super().__missing__(text) if len(text) < MAX_NODE and "[" not in text else self._convert(text)


class Identity(NamedTuple):
    """The parts of a JobID: job, array and tasks, or heterogeneous job and component."""

    number: str
    array_job_id: str | None = None
    array_task_id: str | None = None
    het_job_id: str | None = None
    het_offset: int | None = None


REQUEUED = "REQUEUED"
FAILED_AND_REQUEUED = f"{REQUEUED} FAILED"  # see `with_ends`
ENDED = {REQUEUED: JobState.PREEMPTED, "RESIZING": JobState.UNKNOWN}  # of what has an end in accounting


def parse_job_id(text: str) -> Identity:
    """Split ``12``, ``12_3``, ``12_[4-9%2]`` or ``12+1`` into its parts. Raises ParseError for other text.

    sacct truncates a list of tasks after 64 characters unless SLURM_BITSTR_LEN is set, as in
    ``12_[1,3,6...%3]``: the tasks before the cut are returned.
    """
    match = matched(_JOB, text, "not a job id", field="JobID")
    if match[2] is not None:
        tasks = whole_part(match[2].strip("[]"))
        return Identity(text, array_job_id=match[1], array_task_id=tasks if tasks[:1].isdigit() else None)
    if match[3] is not None:
        return Identity(text, het_job_id=match[1], het_offset=int(match[3]))
    return Identity(text)


def are_job_ids(texts: Sequence[str]) -> bool:
    """Return whether all texts are plain job numbers, so that none needs `parse_job_id`: as in most logs."""
    together = "".join(texts)
    are_numbers = together.isdigit() and together.isascii() and all(texts)
    return are_numbers and min(texts)[0] > "0" and max(map(len, texts)) <= 10


def split_step(text: str) -> tuple[str, str, str]:
    """Split ``12.batch`` into job id, dot and step; the last two are "" for a job.

    The dots of a truncated list of tasks, ``12_[1,3...]``, do not begin a step.
    """
    return (text, "", "") if text.endswith("]") else text.partition(".")


def parse_state(text: str) -> JobState:
    """Return the state that the first word of a text means; UNKNOWN for an unknown word.

    Samples: ``CANCELLED by 6001``, and ``CANCELLED+`` if truncated. REQUEUED means PREEMPTED, as the run
    ended early, or the state that `with_ends` puts after it. RESIZING means UNKNOWN: only a part of the job
    ended, which goes on with other resources. Raises ParseError if the text is no state.
    """
    word, _, more = text.partition(" ")
    word = word.rstrip("+")
    if not word.isupper() or not word.replace("_", "").isalpha():
        raise ParseError("not a state", field="State", text=text)
    if word == REQUEUED and more in JobState.__members__:
        return JobState[more]
    return ENDED.get(word) or STATES.get(word, JobState.UNKNOWN)


def parse_state_word(text: str) -> str | None:
    """Return Slurm's own word for a state; None if `JobState` has a member of that name."""
    word = text.partition(" ")[0].rstrip("+")
    return None if word in JobState.__members__ or text == FAILED_AND_REQUEUED else word


def parse_text(text: str) -> str | None:
    """Return a text; None if it is one of Slurm's words for unknown or none."""
    return None if text in UNKNOWN else text


def parse_nodes(text: str) -> tuple[str, ...] | None:
    """Return the node names in a compressed list; () for ``None assigned``, if a job has not run.

    None if unknown. Raises ParseError if malformed.
    """
    return None if text != NO_NODES and text in UNKNOWN else expand_kept(text)


def parse_number(text: str) -> int | None:
    """Return a count, None if unknown. ``2K`` is 2048. Raises ParseError if malformed."""
    if text.isdigit() and text.isascii() and len(text) < 19:
        return int(text)
    return None if text in UNKNOWN else parse_binary_size(text)


def parse_whole(text: str) -> int | None:
    """Return a number that sacct never abbreviates, None if unknown. Raises ParseError if malformed."""
    return None if text in UNKNOWN else parse_count(text)


def parse_positive(text: str) -> int | None:
    """Return a count; None for 0 too, if that means unknown. Raises ParseError if malformed."""
    return parse_number(text) or None


def parse_duration(text: str) -> float | int | None:
    """Return seconds of ``[days-][hours:]minutes:seconds[.fraction]``, None if unknown.

    Raises ParseError for other text.
    """
    try:
        return _HOURS[text[:-6]] + _IN_HOUR[text[-6:]]  # nearly all of them
    except KeyError:
        pass
    match = _DURATION.match(text)
    if match is None:
        if text in UNKNOWN:
            return None
        return parse_slurm_duration(text, bare_unit_secs=1)
    days, hours, minutes, seconds = match.groups("0")
    whole = int(days) * 86400 + int(hours) * 3600 + int(minutes) * 60
    return whole + (float(seconds) if "." in seconds else int(seconds))


def parse_durations(texts: Sequence[str]) -> list[float | int | None]:
    """Apply `parse_duration` to each text."""
    try:
        return [_HOURS[text[:-6]] + _IN_HOUR[text[-6:]] for text in texts]
    except KeyError:
        return list(map(parse_duration, texts))


def parse_numbers(
    texts: Sequence[str], parse: Callable[[str], int | None] = parse_number
) -> list[int | None]:
    """Apply `parse_number`, or another `parse`, to each text; faster than one by one."""
    together = "".join(texts)
    if together.isdigit() and together.isascii() and all(texts) and max(map(len, texts)) < 19:
        return list(map(int, texts))
    return list(map(parse, texts))


def parse_time_limit(text: str) -> Limit:
    """Return the column Timelimit in seconds; its text is a duration or UNLIMITED."""
    if text == "UNLIMITED":
        return UNLIMITED
    return None if text in UNKNOWN else parse_slurm_duration(text, field="Timelimit")


def parse_raw_time_limit(text: str) -> Limit:
    """Return the column TimelimitRaw in seconds; its text is a number of minutes or UNLIMITED."""
    if text == "UNLIMITED":
        return UNLIMITED
    return None if text in UNKNOWN else parse_count(text, field="TimelimitRaw") * 60


def parse_exit_code(text: str) -> tuple[int | None, int | None]:
    """Return exit status and signal from a text such as ``0:9``.

    A signal of 0 is None, as there was none. With a signal, a status of 0 is None.
    """
    if text in UNKNOWN:
        return None, None
    match = matched(_EXIT, text, "not CODE:SIGNAL", field="ExitCode")
    status, signal = int(match[1]), int(match[2])
    return (status, None) if not signal else (status or None, signal)


def parse_energy(text: str) -> int | None:
    """Return an energy in joules, such as 1200 for ``1.20K``; None if unknown.

    Both 0 and 2**64 - 2 mean unknown. Raises ParseError if malformed.
    """
    if text in UNKNOWN:
        return None
    match = matched(_ENERGY, text, "not an amount of energy", field="ConsumedEnergy")
    fraction = match[2] or ""
    joules = int(match[1] + fraction) * 1000 ** " KMGTP?".index(match[3] or " ") // 10 ** len(fraction)
    return joules if 0 < joules < 2**63 else None


def parse_memory(text: str) -> int | None:
    """Return the bytes of ``mem=`` in a list such as ``cpu=2,mem=200M``; None if it is not in the list."""
    return parse_resources(text).get("mem") if text else None


def parse_size(text: str) -> int | None:
    """Return bytes of ``33504K`` (a K is 1024), None if unknown. Raises ParseError if malformed."""
    number = text[:-1]
    if text.endswith("K") and number.isdigit() and number.isascii() and len(number) < 16:
        return int(number) * 1024
    return None if text in UNKNOWN else parse_binary_size(text)


def parse_sizes(texts: Sequence[str]) -> list[int | None]:
    """Apply `parse_size` to each text."""
    present = list(filter(None, texts))
    *numbers, rest = "".join(present).split("K")
    together = "".join(numbers)
    if (together.isdigit() and together.isascii() and all(numbers) and max(map(len, numbers)) < 16) and (
        not rest and [*map(len, present)] == [len(number) + 1 for number in numbers]
    ):
        found = map(int, numbers)
        return [next(found) * 1024 if text else None for text in texts]
    return list(map(parse_size, texts))


class RequestedMemory(NamedTuple):
    """The column ReqMem: a size in bytes, and what it is for.

    `per` is ``n`` for each node, ``c`` for each CPU, "" for the whole job.
    """

    size_bytes: int
    per: str

    def of_job(self, cpus: int | None, nodes: int | None) -> int | None:
        """Return the bytes for the whole job; None if the number of CPUs or nodes is unknown and needed."""
        count = 1 if not self.per else cpus if self.per == "c" else nodes
        return self.size_bytes * count if count and self.size_bytes else None


def parse_requested_memory(text: str) -> RequestedMemory | None:
    """Parse ReqMem: ``4Gn``, ``2000Mc`` (up to 20.11) or ``4G``; a bare number is MiB. None if unknown.

    Raises ParseError if malformed.
    """
    if text in UNKNOWN or text == NO_MEMORY:
        return None
    per = text[-1] if text[-1] in "nc" else ""
    return RequestedMemory(parse_binary_size(text.removesuffix(per), field="ReqMem", bare_unit="M"), per)


class Times:
    """Converts columns of times, in ISO local time or epoch seconds, to epoch seconds.

    sacct prints local time; an offset that ``SLURM_TIME_FORMAT`` adds is respected. A time in an hour that
    clocks repeat or skip is ambiguous: its result is an int of the class `Twice` or `Skipped`, and `are_odd`
    becomes True.
    """

    def __init__(self, zone: tzinfo | None = None) -> None:
        """`zone` is the time zone of the machine that ran sacct; None: this machine's."""
        self.are_odd = False
        self._zone = zone
        self._minutes = TextCache(self._minute)
        self._hours = TextCache(self._hour)

    def column(self, texts: Sequence[str]) -> list[int | None]:
        """Return a column's times in epoch seconds, None if unknown. Raises ParseError if malformed."""
        hours, seconds = self._hours, _IN_HOUR
        try:
            return [hours[text[:13]] + seconds[text[13:]] for text in texts]
        except (KeyError, TypeError, ParseError):  # not all are ISO times
            return [self.one(text) for text in texts]

    def one(self, text: str) -> int | None:
        """Return one time in epoch seconds, None if unknown. Raises ParseError if malformed."""
        if text in UNKNOWN:
            return None
        second = _SECONDS.get(text[16:])
        if second is None and text.isdigit():
            return parse_epoch(text, field="time")
        if second is None:
            matched(_WITH_OFFSET, text, "not a time", field="time")
            return parse_local(text, None, field="time")
        minute: int = self._minutes[text[:16]]
        if type(minute) is int:
            return minute + second
        self.are_odd = True
        return parse_local(text, self._zone, field="time")

    def _hour(self, text: str) -> int:
        first, last = (self._minute(f"{text}:{minute}") for minute in ("00", "59"))
        if last - first != 59 * 60 or type(first) is not int or type(last) is not int:
            raise ParseError("ambiguous: clocks are set back in this hour", field="time", text=text)
        return first

    def _minute(self, text: str) -> int:
        matched(_MINUTE, text, "not a time", field="time")
        return parse_local(text, self._zone, field="time")
