#!/bin/bash
# parsl 2026.10.26 (PyPI): drain_period of the HighThroughputExecutor, seconds after which a pool of workers in a batch
# job takes no more tasks.
# One would guess: the smaller the number, the sooner it drains; 0 is at once, as what is left of a job less a margin
# comes to 0 near its end.
# What happens: 5 drains after five seconds, 0 never: it is taken for no number at all.
# Why it matters: a line that hands over the time that a job has left, cut off at 0, makes just those pools accept tasks
# to the last second whose job has least time: they are killed with what they do.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install parsl==2026.10.26
cd "$work"
cat >pool.py <<'PYTHON'
import sys
import time

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.providers import LocalProvider


def is_drained(period, within_secs=30):
    executor = HighThroughputExecutor(
        label=f"after{period}", address="127.0.0.1", encrypted=False, drain_period=period,
        provider=LocalProvider(init_blocks=1, max_blocks=1, min_blocks=1),
    )
    with parsl.load(Config(executors=[executor], run_dir=f"runs{period}", strategy="none")):
        deadline = time.monotonic() + 100
        while not executor.connected_managers():
            assert time.monotonic() < deadline, "no pool has come"
            time.sleep(0.2)
        deadline = time.monotonic() + within_secs
        while time.monotonic() < deadline:
            pools = executor.connected_managers()
            if not pools or all(pool["draining"] for pool in pools):
                return True
            time.sleep(0.2)
    return False


if __name__ == "__main__":
    print("parsl", parsl.__version__)
    print("guess: 0 drains sooner than 5")
    for period, expected in ((5, True), (0, False)):
        seen = is_drained(period)
        print(f"drain_period={period}: {'drains' if seen else 'goes on for 30 s'}")
        assert seen == expected, "changed"
PYTHON
export PATH="$work/venv/bin:$PATH"
python pool.py
