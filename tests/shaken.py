"""Have threads come late or be ahead, as JOBFEATURES_SHAKEN says: a loaded machine does that now and then.

`late`: a thread begins 50 ms after it was started. `ahead`: it has 50 ms before who started it goes on.
`slow`: each wait of a thread takes 20 ms more, and each turn of a loop of events 2 ms.
"""

import asyncio
import os
import sys
import threading
from functools import wraps
from time import sleep  # the real one, also where a test has another

SWITCH_SECS = 1e-5  # how long a thread keeps the interpreter; 5 ms by default


def paused(function, *, before_secs=0.0, after_secs=0.0):
    """Return the function with pauses before and after it."""

    @wraps(function)
    def changed(*arguments, **more):
        sleep(before_secs)
        found = function(*arguments, **more)
        sleep(after_secs)
        return found

    return changed


def pytest_configure():
    """Change what threads and loops do until the process ends."""
    kind = os.environ.get("JOBFEATURES_SHAKEN")
    start = threading.Thread.start
    sys.setswitchinterval(SWITCH_SECS)
    if kind == "ahead":
        threading.Thread.start = paused(start, after_secs=0.05)
    elif kind == "late":

        def start_late(thread):
            thread.run = paused(thread.run, before_secs=0.05)
            start(thread)

        threading.Thread.start = start_late
    elif kind == "slow":
        threading.Event.wait = paused(threading.Event.wait, after_secs=0.02)
        loop, turn = asyncio.BaseEventLoop, "_run_once"  # asyncio has no public name for it
        setattr(loop, turn, paused(getattr(loop, turn), after_secs=0.002))
    else:
        raise ValueError(f"JOBFEATURES_SHAKEN must be late, ahead or slow, not {kind}")
