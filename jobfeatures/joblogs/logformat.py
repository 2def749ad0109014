"""Defines the functions that the module of a log format must have.

``recognise(head)``
    returns whether a text that begins with `head` (4 KiB at most) is in this format.
``read_records(lines, source=…, notes=…)``
    returns the records, and a `Rejected` for each that could not be read. `notes` counts what was
    ignored, repaired or unread. A reader that repairs accepts ``strict=True``: then it raises
    ParseError instead. With ``folds_steps=True``, steps that follow their job are merged into it; other
    steps are returned as `StepUse`, jobs perhaps as `JobBatch`. Where a log has an entry for each change
    of a job, each record has the entry in `report`, and `folding` merges them.
``write_records(records, lost)``
    returns the lines, if the format can be written. `lost` is called with the name of the field for each
    value that the format cannot hold, and with a name that begins with ``job `` for each job.

If a log can be written exactly as it was read, the reader accepts ``keep_text=True``: records have their
`source_text`, and other text is returned as `Passage`. The writer writes both unchanged, except for changed
records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from jobfeatures.errors import Rejected
from jobfeatures.joblogs.loggedjob import Found


class LogReader(Protocol):
    """The interface of a module that reads a log format. Some formats' `read_records` have more arguments."""

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
