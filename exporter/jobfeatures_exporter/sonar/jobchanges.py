"""Remembers which fields of a job have been sent, to send only new or changed values again. Pure.

Source: NEW-FORMAT.md, "Slurm": every field is sent with the first record after it got a value, and again when
it changed. After a restart everything is sent once more, which the format allows.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from jobfeatures.formats.sonar.envelopes import Document
from jobfeatures.formats.sonar.fields import fields_of
from jobfeatures.formats.sonar.writejobs import ALWAYS

MAX_RECORDS = 1_000_000  # about 300 bytes each
ROUNDS_KEPT = 2  # an ended job no longer appears in the answers and is then forgotten

_FIELDS = tuple(name for name in fields_of("SlurmJob") if name not in {"job_id", "job_step"})
_ABSENT = 0
_STATE, _START = _FIELDS.index("job_state"), _FIELDS.index("start_time")


class JobChanges:
    """Remembers a fingerprint of each field of each job's record that was sent.

    Call `changes` for each record of a query's answer, then `end_round` once. At most `MAX_RECORDS` are
    remembered; beyond that, the least recently seen are forgotten, and sent in full when seen again.
    """

    def __init__(self) -> None:
        self._round = 0
        self._sent: dict[tuple[int, str], tuple[int, array[int]]] = {}  # least recently seen first

    def __len__(self) -> int:
        return len(self._sent)

    def changes(self, fields: Document) -> Document | None:
        """Return a record's new and changed fields, and those that `ALWAYS` names; None if nothing is new."""
        key = fields["job_id"], fields["job_step"]
        now = array("q", [_fingerprint(name, fields) for name in _FIELDS])
        known = self._sent.pop(key, None)
        self._sent[key] = self._round, now
        if known is None or _begins_anew(known[1], now, fields["job_state"]):
            return dict(fields)
        before = known[1]
        for place, mark in enumerate(now):
            if mark == _ABSENT:
                now[place] = before[place]  # the value sent before stays valid: absence cannot be sent
        if now == before:
            return None
        new = {name for name, old, mark in zip(_FIELDS, before, now, strict=True) if old != mark}
        return {name: value for name, value in fields.items() if name in new or name in ALWAYS}

    def end_round(self) -> None:
        """Forget records not seen for `ROUNDS_KEPT` rounds, and those beyond `MAX_RECORDS`."""
        too_many = max(0, len(self._sent) - MAX_RECORDS)
        for number, (key, (seen, _)) in enumerate(list(self._sent.items())):
            if number >= too_many and seen > self._round - ROUNDS_KEPT:
                break
            del self._sent[key]
        self._round += 1


def _begins_anew(before: array[int], now: array[int], state: str) -> bool:
    """Return whether a job waits again or has another start: of another run, equal values are new."""
    if state == "PENDING" and before[_STATE] != now[_STATE]:
        return True
    return _ABSENT not in {before[_START], now[_START]} and before[_START] != now[_START]


def _fingerprint(name: str, fields: Mapping[str, Any]) -> int:
    if name not in fields:
        return _ABSENT
    value = fields[name]
    if isinstance(value, list):
        value = tuple(value)
    elif isinstance(value, dict):
        # The elapsed time of a running job changes each time and adds nothing to its start_time.
        lives = "end_time" not in fields
        value = tuple((key, each) for key, each in value.items() if not (lives and key == "ElapsedRaw"))
    return hash((name, value)) or 1  # small integers are their own hashes: 0 and 1 would coincide
