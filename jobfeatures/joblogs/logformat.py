"""Defines the functions that the module of a log format must have.

``recognise(head)``
    returns whether a text that begins with `head` (4 KiB at most) is in this format.
``read_records(lines, source=…, notes=…)``
    parses the lines, and returns records, and a `Rejected` for each record that could not be
    read. `notes` counts what was ignored, what was repaired, and optional values that could
    not be read (`Notes.count_unread`): these are unknown, and the job is kept. A reader that
    repairs accepts ``strict=True``: then it repairs nothing, and raises ParseError. If its
    logs have steps, it accepts ``folds_steps=True``: steps that follow their job are then
    merged into it, and counted in `notes` as read and as merged; other steps are returned as
    `StepUse`, and jobs may be returned as `JobBatch`.
    In a log with an entry for each change of a job, a record has the entry in its field
    `report`; the module `folding` merges those of a job.
``write_records(records, lost)``
    formats the records as lines; only in formats that can be written. `lost` is called
    with the field's name for every value that the format cannot hold, and with a
    name that begins with ``job `` for every job that it cannot hold at all.

The reader of a format that can be written exactly as it was read accepts ``keep_text=True``: records then
have their `source_text`, and the text between them is returned as `Passage`. The writer writes both
unchanged, except for a record that no longer agrees with its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from jobfeatures.errors import Rejected
from jobfeatures.joblogs.loggedjob import Found


class LogReader(Protocol):
    """The interface of a module that reads a log format.

    The arguments of its `read_records` depend on the format.
    """

    def recognise(self, head: str) -> bool:
        """Return whether a text that begins with `head` is in this format."""

    @property
    def read_records(self) -> Callable[..., Iterator[Found | Rejected]]:
        """Return the function that turns lines into records; see the module docstring."""


class LogWriter(Protocol):
    """The interface of a module that writes a log format."""

    @property
    def write_records(self) -> Callable[..., Iterator[str]]:
        """Return the function that turns records into lines; see the module docstring."""
