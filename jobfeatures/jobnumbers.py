"""Numbers for the jobs of any batch system, for formats that are made for Slurm: pure."""

from __future__ import annotations

import re
from typing import Final

LARGEST: Final = 2**32 - 1  # that Slurm gives; numbers that are made up come after it

# Numbers of Slurm, LSF and Grid Engine; PBS and Torque add the name of their server: 123.pbs1.
_NUMBER = re.compile(r"([0-9]{1,10})(?:\.[A-Za-z][A-Za-z0-9.-]*)?\Z")


class JobNumbers:
    """Numbers for jobs: their own where they have one, else one that no job of Slurm has."""

    def __init__(self) -> None:
        self._made: dict[str, int] = {}

    def number(self, job_id: str) -> tuple[int, bool]:
        """Return a number, and whether it says what `job_id` said."""
        if is_number(job_id):
            return int(job_id), True
        return self._made.setdefault(job_id, LARGEST + 1 + len(self._made)), False


def is_number(text: str) -> bool:
    """Return whether the id of a job is a number as Slurm gives them."""
    return text.isascii() and text.isdigit() and text[0] != "0" and len(text) <= 10 and int(text) <= LARGEST


def parse_job_number(job_id: str) -> int | None:
    """Return a batch job's number; None for one that is not a number alone, as ``7[3]`` or ``12.0``."""
    match = _NUMBER.match(job_id)
    number = int(match[1]) if match else 0
    return number if 0 < number <= LARGEST else None
