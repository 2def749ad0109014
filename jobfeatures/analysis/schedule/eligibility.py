"""Decides which jobs count in figures, and why others do not. Pure functions.

They take the values of one job, or arrays with one value for each job.
"""

from __future__ import annotations

from typing import Any, Final

from jobfeatures.joblogs.loggedjob import Number

UNKNOWN: Final = -1  # a value that is not reported
IMPOSSIBLE: Final = -2  # a value that cannot be true
LATEST_SECS: Final = 2**60  # later times are invalid

# Why a job does not count; the first reason that holds is reported.
UNREADABLE: Final = "unreadable"
NO_SUBMIT: Final = "no_submit_time"
NEVER_STARTED: Final = "never_started"
NO_RUNTIME: Final = "no_runtime"
NO_START: Final = "no_start_time"
NEGATIVE: Final = "impossible_times"
NO_USER: Final = "no_user"
NO_CPUS: Final = "no_cpus"
REASONS: Final = {
    UNREADABLE: "the record could not be read",
    NO_SUBMIT: "the time of submission is unknown",
    NEVER_STARTED: "the job never started, or was cancelled before",
    NO_RUNTIME: "the runtime is unknown",
    NO_START: "the start is unknown",
    NEGATIVE: "it started before it arrived, ended before it started, or ran impossibly long",
    NO_USER: "the user is unknown",
    NO_CPUS: "neither allocated nor requested processors are known",
}


def compute_rules(
    *, arrival: Any, start: Any, end: Any, runtime: Any, is_cancelled: Any, has_user: Any, cpus: Any
) -> dict[str, Any]:
    """Return for each reason not to count a job (except `UNREADABLE`) whether it applies.

    Each argument is the value of one job, or an array over jobs; so is each value of the result. A number may
    be `UNKNOWN` or `IMPOSSIBLE`. If several reasons apply, the first one in the order of the result is
    reported.
    """
    is_impossible = (runtime == IMPOSSIBLE) | (start == IMPOSSIBLE) | (end == IMPOSSIBLE)
    return {
        NO_SUBMIT: arrival < 0,
        NEVER_STARTED: ((runtime == UNKNOWN) & (start == UNKNOWN))
        | (is_cancelled & (runtime <= 0) & (is_impossible ^ True)),
        NO_RUNTIME: runtime == UNKNOWN,
        NO_START: start == UNKNOWN,
        NEGATIVE: is_impossible | (start < arrival) | (end < start),
        NO_USER: has_user ^ True,
        NO_CPUS: cpus < 0,
    }


def compute_runtime(
    start_secs: Number | None, end_secs: Number | None, suspended_secs: Number | None
) -> Number:
    """Return for how many seconds a job ran, without the time for which it was suspended.

    Returns `UNKNOWN` if the start or the end is None, and `IMPOSSIBLE` if the result would be negative.
    """
    if start_secs is None or end_secs is None:
        return UNKNOWN
    runtime = end_secs - start_secs - (suspended_secs or 0)
    return runtime if runtime >= 0 else IMPOSSIBLE
