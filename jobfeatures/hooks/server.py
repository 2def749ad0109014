"""The daemon's child process that serves hooks, and does nothing else.

On a busy node, one thread among others would be too slow: after each system call it has to get Python's GIL
back from a thread that has lost its CPU. A separate process that mostly sleeps is scheduled at once.

Settings arrive on standard input, each as a pickle of `Settings`; the process ends at the end of this input,
when the daemon has ended. On standard output it writes, one per line, the batch systems to query about a
starting job.
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

from jobfeatures.config import Config
from jobfeatures.errors import JobfeaturesError, Rejected
from jobfeatures.hooks.actions import serve_request
from jobfeatures.hooks.request import Request
from jobfeatures.hooks.serving import HookRequests
from jobfeatures.publish.site import Site
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.system.clock import SystemClock
from jobfeatures.system.logs import configure_logging

NICENESS = -10  # ahead of the jobs: a prolog waits for this work, a millisecond per job


class Settings(NamedTuple):
    """The settings that the daemon sends to its child process: how to serve requests.

    `polled` are the batch systems that the daemon queries; None: any.
    """

    config: Config
    site: Site
    log_level: str
    log_format: str
    polled: frozenset[str] | None = None  # batch systems that may answer questions; None: any


def receive(stream: BinaryIO) -> Settings | None:
    """Wait for the daemon's next settings, a pickle; return None at the end of the stream."""
    try:
        settings: Settings = pickle.load(stream)  # noqa: S301
    except (EOFError, pickle.UnpicklingError):  # the latter if the stream ends within a message
        return None
    return settings


def main() -> None:
    """Serve hooks' requests with the settings from standard input, until that input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # meant for the daemon, whose end closes our input
    settings = receive(sys.stdin.buffer)
    if settings is None:
        return
    os.set_blocking(1, False)
    with contextlib.suppress(OSError):  # not permitted: hooks wait longer on a busy node
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    current = [settings]
    tree = FeatureTree(settings.config.batch.common.root)

    def serve(request: Request, note: Callable[[Rejected], None]) -> None:
        key = serve_request(tree, current[0].config, current[0].site, request, note)
        if key is not None:
            polled = current[0].polled
            if polled is None or key.batch_system in polled:
                with contextlib.suppress(OSError, JobfeaturesError):  # then the prolog does not wait
                    tree.hold_prolog(key)
            with contextlib.suppress(OSError):  # the pipe is full or closed: the daemon's next poll will do
                os.write(1, f"{key.batch_system}\n".encode("ascii"))

    intake = HookRequests(tree, SystemClock(), serve)

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
