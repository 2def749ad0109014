"""Run the lab until Ctrl-C: ``python -m tests.labs.monitoring DIRECTORY [--interval 5] [--rules FILE…]``."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import threading
from pathlib import Path

from tests.labs.monitoring.lab import Lab

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, help="is made, and holds everything")
    parser.add_argument("--interval", type=float, default=5.0, help="of scraping, in seconds")
    parser.add_argument("--rules", type=Path, nargs="*", default=[])
    arguments = parser.parse_args()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with (
        contextlib.suppress(KeyboardInterrupt),
        Lab(arguments.directory.resolve(), interval_secs=arguments.interval, rules=arguments.rules) as lab,
    ):
        print(json.dumps({"prometheus": lab.prometheus, **lab.exporters}, indent=2), flush=True)
        ended.wait()
