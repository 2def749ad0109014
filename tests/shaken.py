"""Have threads come late or be ahead, where JOBFEATURES_SHAKEN says so: a loaded machine does that now and then.

`late`: a thread begins 50 ms after it was started. `ahead`: it has 50 ms before who started it goes on.
`slow`: each wait of a thread takes 20 ms more, and each turn of a loop of events 2 ms.
"""

import asyncio
import os
import sys
import threading
import time
from functools import wraps

SWITCH_SECS = 1e-5  # how long a thread keeps the interpreter; 5 ms by default


def after(function, secs):
    """Return the function with a pause after it."""

    @wraps(function)
    def changed(*arguments, **more):
        found = function(*arguments, **more)
        time.sleep(secs)
        return found

    return changed


def before(function, secs):
    """Return the function with a pause before it."""

    @wraps(function)
    def changed(*arguments, **more):
        time.sleep(secs)
        return function(*arguments, **more)

    return changed


def pytest_configure():
    """Change what threads and loops do until the process ends."""
    kind = os.environ["JOBFEATURES_SHAKEN"]
    sys.setswitchinterval(SWITCH_SECS)
    thread, loop = threading.Thread, asyncio.base_events.BaseEventLoop
    if kind == "ahead":
        thread.start = after(thread.start, 0.05)
    elif kind == "late":
        start = thread.start

        def started(self):
            self.run = before(self.run, 0.05)
            start(self)

        thread.start = started
    elif kind == "slow":
        threading.Event.wait = after(threading.Event.wait, 0.02)
        turn = "_run_once"  # asyncio has no public name for it
        setattr(loop, turn, after(getattr(loop, turn), 0.002))
    else:
        raise ValueError(f"JOBFEATURES_SHAKEN={kind}: late, ahead or slow")
