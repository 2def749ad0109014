"""Shows a progress bar for long inputs; nothing without a terminal or without tqdm (extra: analysis)."""

from __future__ import annotations

import importlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

LINES_BETWEEN: Final = 1000


def shown_progress(lines: Iterable[str], stream: TextIO, label: str) -> Iterable[str]:
    """Return the lines, and show the progress on standard error as they are read.

    `stream` is the file that the lines come from. If it is a regular one, also compressed, the bar shows the
    share that has been read.
    """
    tqdm = _load_tqdm()
    return lines if tqdm is None else _shown(lines, stream, tqdm, label)


def _load_tqdm() -> Any:
    """Return the class of tqdm's bars, None if no bar can be shown."""
    if not sys.stderr.isatty():
        return None
    try:
        return importlib.import_module("tqdm").tqdm
    except ImportError:
        return None


def _size_of(file: Any) -> int | None:
    try:
        found = os.fstat(file.fileno())
    except (AttributeError, OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _offset_in(file: Any) -> int:
    try:
        return int(file.tell())
    except (AttributeError, OSError, ValueError):
        return 0


def _shown(lines: Iterable[str], stream: TextIO, tqdm: Any, label: str) -> Iterator[str]:
    binary: Any = getattr(stream, "buffer", None)
    file = getattr(binary, "fileobj", None) or getattr(binary, "_fp", None) or binary  # that on disk
    size = _size_of(file)
    unit: dict[str, Any] = {"unit": " lines"} if size is None else {"unit": "B", "unit_divisor": 1024}
    with tqdm(total=size, desc=label, unit_scale=True, leave=False, file=sys.stderr, **unit) as bar:
        for number, line in enumerate(lines, 1):
            yield line
            if number % LINES_BETWEEN == 0:
                bar.update(LINES_BETWEEN if size is None else max(0, _offset_in(file) - bar.n))


@contextmanager
def shown_count(total: int | None, label: str) -> Iterator[Callable[[int], object]]:
    """Show a progress bar on standard error in a ``with`` block; yields a function to add to the count.

    If `total` is None, only the label is shown.
    """
    tqdm = _load_tqdm()
    if tqdm is None:
        yield lambda _: None
        return
    form = None if total is not None else "{desc} …"
    with tqdm(total=total, desc=label, unit_scale=True, leave=False, file=sys.stderr, bar_format=form) as bar:
        yield bar.update
