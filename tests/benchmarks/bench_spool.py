"""What a spool folder costs: loading it, looking again, and how soon a change is seen, against a bare parse.

Makes `--files` documents of one running job each, older than the time in which a file may still
change unseen, and takes turns at them:

xml.etree   every file read and parsed by the standard library, nothing else
load        the first poll of a SpoolSource: every file
look        a poll after which nothing has changed
change      a poll after one file was replaced
fresh       a poll of files that are younger than two seconds: all are read again, none is parsed
seen        from the replacement of a file until a thread that is woken by inotify has the changed
            job in its hands (waits for the notice, then polls)

Usage: python tests/benchmarks/bench_spool.py [--files 5000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobfeatures.batch.spool.source import UNSETTLED_SECS, SpoolSource
from jobfeatures.records.model import JobKey
from jobfeatures.system.clock import SystemClock
from tests.configured import settings_for

DOCUMENT = """<Job>
  <Id>render.{number}</Id>
  <Name>frame {number}</Name>
  <State>{state}</State>
  <User>root</User>
  <Project>film</Project>
  <Queue>farm</Queue>
  <StartTime>1795246160</StartTime>
  <Processors>4</Processors>
  <Requested>
    <Duration>3600</Duration>
    <Memory units="GB">2</Memory>
  </Requested>
  <TaskGroup>
    <Task><Process>{process}</Process></Task>
  </TaskGroup>
</Job>
"""


def put(folder: str, number: int, state: str = "Running") -> None:
    aside = f"{folder}/.aside"
    with open(aside, "w") as stream:
        stream.write(DOCUMENT.format(number=number, state=state, process=5000 + number))
    os.rename(aside, f"{folder}/{number}.xml")


def bare(folder: str) -> None:
    for entry in os.scandir(folder):
        with open(entry.path, "rb") as stream:
            ET.fromstring(stream.read())


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds on the clock, and of CPU."""
    started, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - cpu


def see_change(source: SpoolSource, folder: str, state: str) -> float:
    """Return the time from a change until a thread like the daemon's has seen it."""
    notice, seen = threading.Event(), threading.Event()

    def watch() -> None:
        while not seen.is_set():
            notice.wait()
            notice.clear()
            jobs = source.poll_jobs(frozenset()).jobs
            if jobs[JobKey("spool", "render.0")].state.value == state.upper():
                seen.set()

    with source.watch(notice.set):
        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        started = time.perf_counter()
        put(folder, 0, state)
        seen.wait(60)
        took = time.perf_counter() - started
        notice.set()
        thread.join()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    figures: dict[str, list[tuple[float, float]]] = {}

    def note(name: str, secs: tuple[float, float]) -> None:
        figures.setdefault(name, []).append(secs)

    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for number in range(options.files):
                put(folder, number)
            source = SpoolSource(settings_for("spool", spool_directory=folder), SystemClock(), "n1")
            source.poll_jobs(frozenset())
            note("fresh", timed(lambda source=source: source.poll_jobs(frozenset())))
            time.sleep(UNSETTLED_SECS + 0.1)
            note("xml.etree", timed(lambda: bare(folder)))
            source = SpoolSource(settings_for("spool", spool_directory=folder), SystemClock(), "n1")
            note("load", timed(lambda source=source: source.poll_jobs(frozenset())))
            note("look", timed(lambda source=source: source.poll_jobs(frozenset())))
            put(folder, 0, "Suspended")
            note("change", timed(lambda source=source: source.poll_jobs(frozenset())))
            note("seen", (see_change(source, folder, "Running"), math.nan))
    base = statistics.median(cpu for _, cpu in figures["xml.etree"])
    print(f"{options.files} files, median of {options.rounds} (slowest)")
    print(f"{'':10}{'ms':>8}{'slowest':>9}{'CPU ms':>8}{'x xml.etree':>13}")
    for name, values in figures.items():
        wall, cpu = (statistics.median(each) * 1000 for each in zip(*values, strict=True))
        slowest = max(each for each, _ in values) * 1000
        print(f"{name:10}{wall:8.1f}{slowest:9.1f}{cpu:8.1f}{cpu / base / 1000:13.2f}")


if __name__ == "__main__":
    main()
