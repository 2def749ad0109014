"""The process of the daemon that serves hooks, and nothing else.

On a busy node a thread among others comes too late: for each call of the kernel it has to win Python's lock
back from one that has lost its CPU. Alone, a process that mostly sleeps is served at once.

Standard input brings settings, a pickle of `Settings` each; its end, which is the daemon's, ends the process.
Standard output takes the name of a batch system, a line, that is to be asked about a job that starts.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO, NamedTuple

from jobfeatures.clock import SystemClock
from jobfeatures.config import Config
from jobfeatures.errors import Rejected
from jobfeatures.hooks import serve_request
from jobfeatures.logs import configure_logging
from jobfeatures.publish.intake import Intake
from jobfeatures.publish.request import Request
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.site import Site

NICENESS = -10  # a millisecond of work a job, for which a prolog waits: before what jobs do


class Settings(NamedTuple):
    """What requests are served by."""

    config: Config
    site: Site
    log_level: str
    log_format: str


def receive(stream: BinaryIO) -> Settings | None:
    """Wait for settings; None at the end. They come from our daemon alone."""
    try:
        settings: Settings = pickle.load(stream)  # noqa: S301
    except (EOFError, pickle.UnpicklingError):  # the latter where the end is within a message
        return None
    return settings


def main() -> None:
    """Serve hooks until standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # meant for the daemon, whose end we see
    settings = receive(sys.stdin.buffer)
    if settings is None:
        return
    os.set_blocking(1, False)
    with contextlib.suppress(OSError):  # not root, nor allowed to: hooks wait longer on a busy node
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    current = [settings]
    tree = FeatureTree(settings.config.features_root)

    def serve(request: Request, note: Callable[[Rejected], None]) -> None:
        key = serve_request(tree, current[0].config, current[0].site, request, note)
        if key is not None:
            with contextlib.suppress(OSError):  # nobody reads: the daemon asks at its next poll
                os.write(1, f"{key.batch_system}\n".encode("ascii"))

    intake = Intake(tree, SystemClock(), serve)

    def follow() -> None:
        while (changed := receive(sys.stdin.buffer)) is not None:
            current[0] = changed
            configure_logging(changed.log_level, changed.log_format)
        intake.stop()

    configure_logging(settings.log_level, settings.log_format)
    threading.Thread(target=follow, name="settings", daemon=True).start()
    intake.run()


if __name__ == "__main__":
    main()
