"""Reads values of Slurm's JSON, in the shapes that its data parsers write: v0.0.37 to v0.0.46. Pure.

Values are read by their shape, not by the version: sites run plugins of several versions at once, and a
version changes while it is being developed.

======================  ====================================================================
a number                ``10``, or ``{"set": true, "infinite": false, "number": 10}`` (from v0.0.39)
no number               ``null``, 4294967294 or -2 (NO_VAL), or ``"set": false``
no limit                ``null`` in v0.0.37 and v0.0.38, 4294967295 (INFINITE), or ``"infinite": true``
a state                 ``"RUNNING"``, or ``["RUNNING", "COMPLETING"]``: a base state and flags
======================  ====================================================================

Source: https://slurm.schedmd.com/rest_api.html and the OpenAPI documents that slurmrestd serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from jobfeatures.batch.basics import MAX_EPOCH_SECS
from jobfeatures.batch.slurm.basics import NOTHING
from jobfeatures.errors import ParseError
from jobfeatures.records.jsontext import clean, parse_object
from jobfeatures.records.model import UNLIMITED, Limit
from jobfeatures.records.nodelist import expand_nodes

MEBIBYTE = 2**20
VERSIONS = tuple(f"v0.0.{number}" for number in range(46, 36, -1))  # newest first

# What every answer of a known version has of what is read here: a later version without one is refused.
ALWAYS_THERE: Mapping[str, tuple[str, ...]] = {
    "jobs": (
        *("job_id", "job_state", "name", "user_id", "nodes", "cpus", "time_limit", "start_time", "end_time"),
    ),
    "nodes": ("name", "state", "cpus", "alloc_cpus", "real_memory", "alloc_memory", "gres", "reason"),
    "partitions": ("name", "nodes", "partition"),
    "reservations": ("name", "node_list", "flags", "start_time", "end_time"),
}

_NO_VALUE = frozenset({2**32 - 2, 2**64 - 2, -2})  # NO_VAL64 as a signed number: from Slurm 24.05 on
_INFINITE = frozenset({2**32 - 1, 2**64 - 1})
_LARGEST = 2**63 - 1


def parse_document(data: bytes | str, *, source: str) -> JsonRecord:
    """Return the JSON object that an answer consists of. Raises ParseError for anything else.

    `source` names the answer in errors.
    """
    return JsonRecord(parse_object(data, source=source))


def missing_field(document: JsonRecord) -> str | None:
    """Return the first field of `ALWAYS_THERE` that an answer lacks, as ``jobs[0].cpus``; None if none."""
    for kind, names in ALWAYS_THERE.items():
        found = document.get(kind)
        for place, each in enumerate(found if isinstance(found, list) else ()):
            for name in names:
                if not isinstance(each, Mapping) or name not in each:
                    return f"{kind}[{place}].{name}"
    return None


class JsonRecord:
    """Reads the values at given paths in one JSON object. Methods raise ParseError, which names the path."""

    def __init__(self, values: Any) -> None:
        """`values` is a parsed JSON object; anything else counts as an empty one."""
        self.values: Mapping[str, Any] = values if isinstance(values, Mapping) else {}
        self.unread: dict[str, str] = {}  # unreadable members of lists, which are left out, by name

    def get(self, *path: str) -> Any:
        """Return the value at a path, as it was parsed from JSON; None if absent."""
        found: Any = self.values
        for name in path:
            if not isinstance(found, Mapping):
                return None
            found = found.get(name)
        return found

    def number(self, *path: str) -> Limit:
        """Return the whole number at a path, or UNLIMITED for "no limit"; None if it is not set."""
        return parse_number(self.get(*path), ".".join(path))

    def count(self, *path: str) -> int | None:
        """Return the whole number at a path; None if it is not set or unlimited."""
        found = self.number(*path)
        return found if isinstance(found, int) else None

    def nonzero(self, *path: str) -> int | None:
        """Return the whole number at a path; None if not set, and for 0.

        This is for fields in which 0 means that there is no value.
        """
        return self.count(*path) or None

    def epoch(self, *path: str) -> int | None:
        """Return the time at a path in epoch seconds; None if not set, and for 0.

        Raises ParseError also for a time in milliseconds.
        """
        found = self.nonzero(*path)
        if found is not None and found >= MAX_EPOCH_SECS:
            raise ParseError("not seconds since the epoch", field=".".join(path), text=str(found))
        return found

    def mebibytes(self, *path: str) -> int | None:
        """Return in bytes the size at a path, which Slurm writes in MiB; None if not set, and for 0."""
        found = self.nonzero(*path)
        return None if found is None else found * MEBIBYTE

    def text(self, *path: str) -> str | None:
        """Return the text at a path; None if absent, or one of Slurm's words for unknown or none."""
        value = self.raw_text(*path)
        return None if value is None or value in NOTHING else value

    def raw_text(self, *path: str) -> str | None:
        """Return the text at a path as it is, with U+FFFD in place of invalid Unicode; None if absent."""
        value = self.get(*path)
        if value is None:
            return None
        if not isinstance(value, str):
            raise ParseError("not a text", field=".".join(path), text=str(value)[:80])
        return clean(value)

    def words(self, *path: str) -> tuple[str, ...]:
        """Return the words of the list at a path, or the one word of a text there; () if absent."""
        value = self.get(*path)
        if isinstance(value, str):
            value = [value]
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ParseError("not a list of words", field=".".join(path), text=str(value)[:80])
        return tuple(clean(each) for each in value if each)

    def nodes(self, *path: str) -> tuple[str, ...]:
        """Return the nodes in the compressed list, ``n[1-2]``, at a path, or in a JSON list of such lists."""
        lists = (expand_nodes(each) for each in self.words(*path) if each not in NOTHING)
        return tuple(dict.fromkeys(chain.from_iterable(lists)))

    def listed(self, name: str, source: str) -> list[JsonRecord]:
        """Return the objects in the list `name`. Raises ParseError if there is no such list.

        `source` names the answer in errors.
        """
        value = self.values.get(name)
        if not isinstance(value, list):
            raise ParseError(f"no list of {name}", source=source, field=name)
        return [JsonRecord(each) for each in value]

    def records(self, *path: str) -> Iterator[JsonRecord]:
        """Yield the objects in the list at a path; none if it is absent."""
        value = self.get(*path)
        if value is None:
            return
        if not isinstance(value, list):
            raise ParseError("not a list", field=".".join(path), text=str(value)[:80])
        for each in value:
            if not isinstance(each, Mapping):
                raise ParseError("not an object", field=".".join(path), text=str(each)[:80])
            yield JsonRecord(each)


def parse_number(value: Any, field: str) -> Limit:
    """Return a number from ``10``, ``null`` or ``{"set": …}``, or UNLIMITED; None if it is not set.

    Raises ParseError, which names `field`.
    """
    if isinstance(value, Mapping):
        if value.get("infinite") is True:
            return UNLIMITED
        if value.get("set") is not True:
            return None
        value = value.get("number", {})
    elif value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and value in _NO_VALUE:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ParseError("must be a whole number, 0 or more", field=field, text=str(value)[:80])
    if value in _INFINITE:
        return UNLIMITED
    if value > _LARGEST:
        raise ParseError("number too large", field=field, text=str(value))
    return value


def exit_code_of(record: JsonRecord) -> tuple[int | None, int | None]:
    """Return the exit status and the signal in ``exit_code``; at least one of the two is None.

    ``exit_code`` is an object or a wait status.
    """
    if isinstance(record.get("exit_code"), Mapping):
        signals = (record.nonzero("exit_code", "signal", name) for name in ("id", "signal_id"))
        signal = next(filter(None, signals), None)
        return (None if signal else record.count("exit_code", "return_code")), signal
    code = record.count("exit_code")
    if code is None or code & 0x7F:
        return None, code and code & 0x7F
    return code >> 8 & 0xFF, None


# Slurm's commands print the first of these flags that a job has, instead of its state.
_FLAGS = (
    *("COMPLETING", "STAGE_OUT", "CONFIGURING", "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD"),
    *("SPECIAL_EXIT", "STOPPED", "REVOKED", "RESV_DEL_HOLD", "SIGNALING", "RECONFIG_FAIL"),
)


def state_word(words: Sequence[str]) -> str:
    """Return the word that Slurm's commands would print for a state: `words` are the base state and flags.

    Source: squeue(1), "JOB STATE CODES". The flag POWER_UP_NODE is ignored.
    """
    for flag in _FLAGS:
        if flag in words:
            return flag
    return next((word for word in words if word != "POWER_UP_NODE"), "")


def complaints(document: JsonRecord) -> tuple[str, ...]:
    """Return the texts of the errors that an answer reports."""
    return tuple(_complaint(each) for each in _objects(document.get("errors")))


def error_numbers(document: JsonRecord) -> tuple[int, ...]:
    """Return Slurm's error numbers in an answer; errors without a number are left out."""
    found = [each.get("error_number", each.get("errno")) for each in _objects(document.get("errors"))]
    return tuple(each for each in found if isinstance(each, int) and not isinstance(each, bool))


def _objects(value: Any) -> Iterable[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else ()


def _complaint(error: Mapping[str, Any]) -> str:
    parts = [error.get(name) for name in ("source", "description", "error")]
    return ": ".join(clean(part) for part in parts if isinstance(part, str) and part) or "unnamed error"
