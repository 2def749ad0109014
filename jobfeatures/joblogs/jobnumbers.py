"""Assigns numbers to jobs of any batch system, for formats that were designed for Slurm. Pure."""

from __future__ import annotations

import re
from typing import Final

LARGEST: Final = 2**32 - 1  # largest job id in Slurm; invented numbers are larger

# Numbers of Slurm, LSF and Grid Engine; PBS and Torque add the name of their server: 123.pbs1.
_NUMBER = re.compile(r"([0-9]{1,10})(?:\.[A-Za-z][A-Za-z0-9.-]*)?\Z")


class JobNumbers:
    """Assigns numbers to jobs: the job id if it is a number, else a number above those that Slurm uses."""

    def __init__(self) -> None:
        self._made: dict[str, int] = {}

    def number(self, job_id: str) -> tuple[int, bool]:
        """Return the number of a job, and whether this number is the job's own id."""
        if is_number(job_id):
            return int(job_id), True
        return self._made.setdefault(job_id, LARGEST + 1 + len(self._made)), False


def is_number(text: str) -> bool:
    """Return whether a job id is a number that Slurm could assign."""
    return text.isascii() and text.isdigit() and text[0] != "0" and len(text) <= 10 and int(text) <= LARGEST


def parse_job_number(job_id: str) -> int | None:
    """Return the number in a job id such as ``123`` or ``123.pbs1``.

    Returns None for ids such as ``7[3]`` or ``12.0``.
    """
    match = _NUMBER.match(job_id)
    number = int(match[1]) if match else 0
    return number if 0 < number <= LARGEST else None
