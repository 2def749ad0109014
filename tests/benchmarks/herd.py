"""Starts processes for benchmarks: ``herd.py SLEEPING BUSY [OF_THREADS THREADS [SECS]]``.

The first ones have that many threads each, of which one is busy where the process is: every so many seconds. All end
when standard input does.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import threading
import time

PR_SET_PDEATHSIG = 1
EVERY_SECS = 0.4  # less than passes between two scrapes, or scans


def child(every_secs: float, threads: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setpgid(0, 0)
    threading.stack_size(2**16)
    for _ in range(threads - 1):
        threading.Thread(target=signal.pause, daemon=True).start()
    while True:
        if every_secs:
            time.sleep(every_secs)
            with mmap.mmap(-1, 2**18) as fresh:
                fresh[0] = 1  # a page fault, which the stat line counts
        else:
            signal.pause()


def main() -> None:
    sleeping, busy, of_threads, threads = (*map(int, sys.argv[1:5]), 0, 1)[:4]
    every_secs = float(sys.argv[5]) if len(sys.argv) > 5 else EVERY_SECS
    pids = []
    try:
        for number in range(sleeping + busy):
            pid = os.fork()
            if pid == 0:
                child(every_secs if number >= sleeping else 0.0, threads if number < of_threads else 1)
            pids.append(pid)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
