"""`jobfeatures replay`."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from jobfeatures.batch.spool.source import SUFFIX
from jobfeatures.commands.common import number_flag, read_config
from jobfeatures.commands.logarguments import add_kind, add_strict, opened_jobs, parse_zone
from jobfeatures.errors import ConfigurationError, ParseError
from jobfeatures.formats.sss.writerecords import format_job
from jobfeatures.joblogs.loggedjob import Notes
from jobfeatures.joblogs.replaying import Event, Plan, format_event, make_job, plan_replay
from jobfeatures.settings.usage import complain
from jobfeatures.system.clock import Clock, SystemClock

DONE, NOT_ALL, UNREADABLE = 0, 1, 2
LONGEST_SLEEP_SECS = 3600.0  # the time left is computed again at least this often


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.description = (
        "Show the jobs of a log in a spool folder, at another speed, to try dashboards, drains and features "
        "without a cluster. Ctrl-C ends it and removes its documents. Exit status: 0, or 2 "
        "if the log could not be read or the folder not be written."
    )
    parser.add_argument(
        "log", metavar="LOG", help="a log of any kind that `convert` reads; - is standard input"
    )
    parser.add_argument(
        "--speed",
        type=number_flag(float, "a number above 0", 1e-6, 1e9),
        default=60.0,
        metavar="N",
        help="how much faster (default: 60, a minute per second)",
    )
    parser.add_argument("--spool", metavar="DIR", help="the folder (default: the setting spool.directory)")
    parser.add_argument("--node", metavar="NAME", help="the node the jobs are on (default: this machine)")
    parser.add_argument(
        "--cpus",
        type=number_flag(int, "a whole number, 1 or more", 1, 10**9),
        metavar="N",
        help="show only jobs that fit a node of N CPUs (default: all jobs)",
    )
    add_kind(parser)
    add_strict(parser)
    parser.add_argument("--dry-run", action="store_true", help="only print what would happen at which second")
    parser.add_argument(
        "--config.file", dest="config.file", metavar="FILE", help="the file with the settings"
    )


def run(arguments: argparse.Namespace) -> int:
    """Replay a log."""
    zone = parse_zone(arguments.zone)
    notes = Notes()
    with opened_jobs(arguments.log, arguments.from_kind, zone, notes, all_runs=True) as jobs:
        try:
            plan = plan_replay(jobs, speed=arguments.speed, node_cpus=arguments.cpus)
        except ParseError as error:
            raise error.at(arguments.log) from None
    _report(plan, notes, arguments.speed)
    done = NOT_ALL if arguments.strict and notes.rejected else DONE
    if arguments.dry_run:
        for event in plan.events:
            print(format_event(event))
        return done
    spool = arguments.spool or read_config(arguments).spool_directory
    if spool is None:
        raise ConfigurationError("--spool", "is needed: spool.directory is not set")
    node = arguments.node or os.uname().nodename
    player = Player(spool, SystemClock(), time.sleep, speed=arguments.speed, node=node)
    try:
        os.makedirs(spool, exist_ok=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: documents are removed
        with contextlib.suppress(KeyboardInterrupt):
            player.play(plan)
    except OSError as error:
        complain(f"{spool}: {error.strerror}")
        return UNREADABLE
    finally:
        player.remove_documents()
    return done


@dataclass(slots=True)
class Player:
    """Writes the documents of jobs when they start, and removes them when they end."""

    spool: str
    clock: Clock
    sleep: Callable[[float], None]
    speed: float
    node: str
    _there: set[str] = field(default_factory=set)

    def play(self, plan: Plan) -> None:
        """Replay all events, then return. Raises OSError if a document cannot be written."""
        began_secs = self.clock.now_secs()
        began = self.clock.monotonic_secs()
        for event in plan.events:
            while (left := began + event.at_secs - self.clock.monotonic_secs()) > 0:
                self.sleep(min(left, LONGEST_SLEEP_SECS))
            if event.starts:
                self._show(event, began_secs, plan.log_began_secs)
            else:
                self._remove(_file_name(event))

    def _show(self, event: Event, began_secs: float, log_began_secs: float) -> None:
        job = make_job(
            event, began_secs=began_secs, log_began_secs=log_began_secs, speed=self.speed, node=self.node
        )
        try:
            text = format_job(job)
        except ParseError as error:  # a name with control characters
            complain(f"job {event.job_id!r} is not shown: {error}")
            return
        name = _file_name(event)
        aside = os.path.join(self.spool, f".{name}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._there.add(name)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.rename(aside, os.path.join(self.spool, name))

    def remove_documents(self) -> None:
        """Remove the remaining documents; leave those that cannot be removed."""
        for name in sorted(self._there):
            self._remove(name)

    def _remove(self, name: str) -> None:
        self._there.discard(name)
        for each in (name, f".{name}"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.spool, each))


def _file_name(event: Event) -> str:
    return f"replay-{os.getpid()}-{event.number}{SUFFIX}"


def _report(plan: Plan, notes: Notes, speed: float) -> None:
    for rejected in notes.shown:
        complain(rejected)
    if notes.rejected > len(notes.shown):
        complain(f"{notes.rejected - len(notes.shown)} more rejected")
    for fault in notes.faults(""):
        complain(fault.reason)
    for name, count in sorted(notes.folded.items()):
        complain(f"folded: {name} ({count})")
    for reason, count in sorted(plan.passed_over.items()):
        complain(f"{count} jobs are not shown: {reason}")
    complain(f"{plan.jobs} jobs, {plan.log_secs:.0f} s of the log in {plan.log_secs / speed:.0f} s")
