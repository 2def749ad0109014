"""What a prolog and a source have in common: little, as a prolog pays for every import."""

from __future__ import annotations

import re

NAME = "slurm"
SOURCE = "scontrol show job"
NOTHING = frozenset({"", "Unknown", "None", "N/A", "(null)"})

_ID = re.compile(r"[1-9][0-9]{0,9}\Z")


def is_plain_id(text: str) -> bool:
    """Return whether a text is a job id as the controller counts them, fit to be asked about."""
    return _ID.match(text) is not None
