"""Shows the jobs of a log in a spool folder, at another speed: ``python -m tests.labs.replay LOG --spool DIR``.

To try dashboards, drains and features without a cluster. Ctrl-C ends it and removes its documents.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from jobfeatures.batch.spool.source import SUFFIX
from jobfeatures.commands.logarguments import opened_jobs, parse_zone
from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.writerecords import format_job
from jobfeatures.joblogs.loggedjob import Notes
from jobfeatures.settings.usage import complain
from jobfeatures.system.clock import Clock, SystemClock
from tests.labs.replaying import Event, Plan, format_event, make_job, plan_replay

LONGEST_SLEEP_SECS = 3600.0  # the time left is computed again at least this often


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


def main() -> None:
    """Replay a log; the log's times are read in the local zone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", help="of any kind that `jobfeatures convert` reads")
    parser.add_argument("--spool", required=True)
    parser.add_argument("--speed", type=float, default=60.0, help="default: 60, a minute per second")
    parser.add_argument("--node", default=os.uname().nodename)
    parser.add_argument("--cpus", type=int, help="show only jobs that fit a node of so many")
    parser.add_argument("--dry-run", action="store_true", help="only print what would happen at which second")
    given = parser.parse_args()
    notes = Notes()
    with opened_jobs(given.log, None, parse_zone(None), notes, all_runs=True) as jobs:
        plan = plan_replay(jobs, speed=given.speed, node_cpus=given.cpus)
    for reason, count in sorted(plan.passed_over.items()):
        complain(f"{count} jobs are not shown: {reason}")
    complain(f"{plan.jobs} jobs; {notes.rejected} records of the log were rejected")
    if given.dry_run:
        for event in plan.events:
            print(format_event(event))
        return
    player = Player(given.spool, SystemClock(), time.sleep, speed=given.speed, node=given.node)
    os.makedirs(given.spool, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: documents are removed
    try:
        with contextlib.suppress(KeyboardInterrupt):
            player.play(plan)
    finally:
        player.remove_documents()


if __name__ == "__main__":
    main()
