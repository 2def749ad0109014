"""Starts processes for bench_scan.py: ``herd.py SLEEPING BUSY``; all end when standard input does."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1


def child(busy: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setpgid(0, 0)
    while True:
        if busy:
            time.sleep(0.1)
            with mmap.mmap(-1, 2**18) as fresh:
                fresh[0] = 1  # a page fault, which the stat line counts
        else:
            signal.pause()


def main() -> None:
    sleeping, busy = int(sys.argv[1]), int(sys.argv[2])
    pids = []
    try:
        for number in range(sleeping + busy):
            pid = os.fork()
            if pid == 0:
                child(number >= sleeping)
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
