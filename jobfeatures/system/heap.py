"""Reduces the memory of a program whose many threads mostly wait, by glibc's mallopt(3) and malloc_trim(3).

By default each thread gets an arena of its own, where freed memory stays. Python's threads take turns anyway.
With another C library nothing is done.
"""

from __future__ import annotations

import contextlib
import ctypes

_M_ARENA_MAX = -8


def share_one_arena() -> None:
    """Have all threads that are started from now on allocate from one heap."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def give_back_free_memory() -> None:
    """Return free memory of the heap to the operating system."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
