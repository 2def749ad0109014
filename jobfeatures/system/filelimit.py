"""Reads and raises the limit of this process on open files: see getrlimit(2)."""

from __future__ import annotations

import contextlib
import resource

ENOUGH = 16384  # eight times what all listeners may have, for files that are kept open are many
LEAST = 128  # without clients a node's daemon needs some 60


def limits() -> tuple[int, int]:
    """Return the soft and the hard limit of open file descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 2**31 - 1
    return (
        most if soft == resource.RLIM_INFINITY else soft,
        most if hard == resource.RLIM_INFINITY else hard,
    )


def raise_limit(wanted: int = ENOUGH) -> int:
    """Raise the soft limit to `wanted`, or as far as the hard limit allows. Return the new soft limit."""
    soft, hard = limits()
    if soft < min(wanted, hard):
        with contextlib.suppress(OSError, ValueError):  # a sandbox may forbid it
            resource.setrlimit(
                resource.RLIMIT_NOFILE,
                (min(wanted, hard), resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
            )
    return limits()[0]


def allowed_connections(count: int) -> int:
    """Return how many of `count` connections to allow, given the hard limit on open files.

    That is `count`, but if the limit is below `ENOUGH`, only `count` × limit ÷ `ENOUGH`, and at least 4.
    """
    return min(count, max(4, count * limits()[1] // ENOUGH))
