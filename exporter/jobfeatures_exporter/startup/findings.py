"""Defines the findings of the command `doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

TROUBLESHOOTING = "docs/troubleshooting.md"


class Mark(StrEnum):
    """The severity of a finding."""

    GOOD = "ok"
    NOTE = "note"
    WRONG = "WRONG"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one check of the command `doctor`.

    `mark` is its severity, `what` names the thing checked, `words` say what was found, and `remedy` says what
    to do if something is wrong.
    """

    mark: Mark
    what: str
    words: str
    remedy: str = ""


good, note, wrong = (partial(DoctorFinding, mark) for mark in Mark)


def see(section: str) -> str:
    """Return a remedy that refers to a section of the page on troubleshooting."""
    return f"see {section!r} in {TROUBLESHOOTING}"
