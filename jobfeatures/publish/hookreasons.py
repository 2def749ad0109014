"""Classifies why hooks fail, in whole or in part, for the metric that counts failures. Pure."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Mapping

from jobfeatures.errors import ConfigurationError, OtherClusterError, ParseError, UnsafePathError

ACTIONS = ("publish", "remove")
UNREADABLE = "a value of a prolog cannot be read: %s"  # logged and counted as "environment"
REASONS: Mapping[str, str] = {
    "cluster": "a job of another cluster has this number here and keeps its features; this one has none",
    "command": "there is no command, or it cannot be started",
    "configuration": "the configuration is broken; the last good one, or the defaults, were used",
    "daemon": "the daemon is running but did not publish or remove the job in time; it will do so later",
    "enospc": "no space, or no quota, is left where features are published",
    "environment": "the hook was started without a job, or a value that it was given cannot be read",
    "limits": "no limits from the batch system in time, or another job's; left to the daemon",
    "timeout": "the time limit was reached",
    "write": "something could not be written or removed for another reason",
    "other": "anything else",
}
MADE_GOOD = frozenset({"daemon", "limits"})  # by the daemon, soon
PAIRS = tuple(  # that are counted: an epilog asks for no limits, and takes nothing of another cluster's away
    pair
    for pair in itertools.product(ACTIONS, REASONS)
    if pair not in {("remove", "limits"), ("remove", "cluster")}
)


def reason_of(error: BaseException) -> str:
    """Return the word by which the failure of a hook with this error is counted, such as "timeout"."""
    if isinstance(error, OSError):
        return "enospc" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "write"
    if isinstance(error, OtherClusterError):
        return "cluster"
    if isinstance(error, UnsafePathError):
        return "write"
    if isinstance(error, ConfigurationError):
        return "configuration"
    return "environment" if isinstance(error, ParseError) else "other"
