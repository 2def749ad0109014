"""What the demonstration's jobs do: ``python -m jobfeatures_exporter.demo.payloads KIND PARENT_PID``."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from dataclasses import dataclass

from jobfeatures.client import Features, StatusWriter

GROW_STEP_BYTES = 8 * 2**20
GROW_LIMIT_BYTES = 256 * 2**20
PILOT_CPUS = 4
WAIT_SECS = 10.0


def burn() -> None:
    """Keep one CPU busy."""
    while True:
        sum(range(100_000))
        _end_with_parent()


def grow() -> None:
    """Allocate 8 MiB per second up to 256 MiB, free it, start again."""
    held: list[bytearray] = []
    while True:
        held.append(bytearray(os.urandom(4096)) * (GROW_STEP_BYTES // 4096))
        if len(held) * GROW_STEP_BYTES >= GROW_LIMIT_BYTES:
            held.clear()
        _rest(1.0)


def limited() -> None:
    """Work a little from time to time, without end: the batch system ends the job at its wall limit."""
    while True:
        _work(0.05)
        _rest(0.5)


@dataclass
class Payload:
    """A payload that the pilot has started: a process that keeps one CPU busy. Times are Unix times."""

    pid: int
    started_secs: int
    expected_end_secs: int


def pilot() -> None:
    """Play a pilot job: run several payloads at a time, and report on them to the node's daemon.

    The reports are the files in the folder that the variable JOBSTATUS names.
    """
    writer = StatusWriter(os.environ["JOBSTATUS"], allocated_cpu=PILOT_CPUS)
    payloads: list[Payload] = []
    while True:
        payloads = [payload for payload in payloads if not _has_ended(payload.pid)]
        if len(payloads) < PILOT_CPUS - 1 and time_left() > 60:
            payloads.append(_start_payload())
        if payloads:
            with contextlib.suppress(TimeoutError):  # the lock is held: the next update will report
                writer.update(**_status(payloads))
        _rest(2.0)


def time_left() -> float:
    """Return how many seconds this job may still run, by its job features; infinite if unknown."""
    seconds = Features.from_environment().remaining(time.time()).seconds
    return float("inf") if seconds is None else seconds


def _status(payloads: list[Payload]) -> dict[str, int | bool]:
    """Return the nine values of $JOBSTATUS by the draft of 2014, section "Pilot status information"."""
    last_start = max(payload.started_secs for payload in payloads)
    ends = [payload.expected_end_secs for payload in payloads]
    first_end, last_end = min(ends), max(ends)
    busy_after_first = sum(end - first_end for end in ends)
    return {
        "used_CPU": len(payloads),
        "last_job_start": last_start,
        "first_exp_job_end": first_end,
        "last_exp_job_end": last_end,
        "last_max_job_end": last_end + 60,
        "add_uncom_time": sum(last_start - payload.started_secs for payload in payloads),
        "add_final_exp_waste": PILOT_CPUS * (last_end - first_end) - busy_after_first,
        "can_postpone_last_job": False,
        "priority_factor": 10,
    }


def _start_payload() -> Payload:
    now = int(time.time())
    lasts_secs = random.randint(20, 60)  # noqa: S311  # not for security
    pid = os.fork()
    if pid == 0:
        global PARENT  # noqa: PLW0603  # this is a new process: its parent is the pilot
        PARENT = os.getppid()
        while time.time() < now + lasts_secs:
            _work(0.1)
            _rest(0.4)
        os._exit(0)
    return Payload(pid, now, now + lasts_secs)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _work(secs: float) -> None:
    end = time.monotonic() + secs
    while time.monotonic() < end:
        sum(range(10_000))


def _rest(secs: float) -> None:
    _end_with_parent()
    time.sleep(secs)


def _end_with_parent() -> None:
    """Exit if the demonstration is gone, even if it was killed and could not clean up."""
    if os.getppid() != PARENT:
        os._exit(1)


def _wait_for_features() -> None:
    """Wait until the features exist; a real prolog creates them before the job starts."""
    end = time.monotonic() + WAIT_SECS
    while time.monotonic() < end:
        if os.path.isdir(os.environ["JOBFEATURES"]) and os.path.isdir(os.environ["JOBSTATUS"]):
            return
        _rest(0.05)


PARENT = os.getppid()

if __name__ == "__main__":
    kind, parent = sys.argv[1:]
    if int(parent) == PARENT:
        with contextlib.suppress(KeyboardInterrupt):
            _wait_for_features()
            {"burn": burn, "grow": grow, "pilot": pilot, "limited": limited}[kind]()
