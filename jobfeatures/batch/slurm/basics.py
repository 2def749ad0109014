"""Checks Slurm's job ids, for prologs and sources; kept small, as a prolog pays for every import."""

from __future__ import annotations

import re

from jobfeatures.errors import matched

NAME = "slurm"
SOURCE = "scontrol show job"
ENVIRONMENT = {"SLURM_TIME_FORMAT": "%s"}  # of its commands: times in epoch seconds
NOTHING = frozenset({"", "Unknown", "None", "N/A", "(null)"})

_ID = re.compile(r"[1-9][0-9]{0,9}\Z")


def is_plain_id(text: str) -> bool:
    """Return whether a text is a plain job number, safe to pass to scontrol."""
    return _ID.match(text) is not None


def checked_id(text: str, *, source: str = "", field: str = "") -> str:
    """Return `text` as it is if it is a plain job number, else raise ParseError."""
    return matched(_ID, text, "not a job id", source=source, field=field)[0]
