"""Recognises errors that mean lack of memory or of threads."""

from __future__ import annotations

_NO_THREAD = "can't start new thread"  # the text of the RuntimeError
LOOK_AT = "is memory (LimitAS=, MemoryMax=, ulimit -v) or the number of threads (TasksMax=) limited?"


def is_lack(error: BaseException) -> bool:
    """Return whether an error of Python means that memory or threads ran out."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and str(error) == _NO_THREAD)


def describe_lack(error: BaseException) -> str:
    """Return, for a message, what is lacking and which limits to look at."""
    return f"{str(error) or 'out of memory'}: {LOOK_AT}"
