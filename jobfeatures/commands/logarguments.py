"""Arguments and helpers shared by the commands on logs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import tzinfo
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from jobfeatures.analysis.schedule.shares import parse_words
from jobfeatures.errors import ConfigurationError, nearest
from jobfeatures.formats.swf.fields import Meaning
from jobfeatures.joblogs.folding import fold_jobs
from jobfeatures.joblogs.logfiles import reading
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.logkinds import KINDS, read_log
from jobfeatures.openlog import open_log
from jobfeatures.system.progress import shown_progress

# What an SWF log may mean where the standard leaves it open, or logs deviate from it.
MEANINGS: Final = {
    "bytes": "memory is in bytes, not KiB",
    "per-job": "memory is of the job, not of each processor",
    "cpu-time": "requested times are CPU times",
    "wall-time": "or wall times, whatever the header says",
    "no-waits": "jobs whose wait is unknown started when they were submitted",
}


def add_kind(parser: argparse.ArgumentParser) -> None:
    """Add ``--from`` and ``--zone``, which say how to read a log."""
    parser.add_argument(
        "--from",
        dest="from_kind",
        metavar="KIND",
        choices=list(KINDS),
        help=f"(default: by content) one of {', '.join(KINDS)}",
    )
    parser.add_argument(
        "--zone", metavar="NAME", help="time zone of the log, such as Europe/Berlin (default: local)"
    )


@contextmanager
def opened_jobs(
    name: str, kind: str | None, zone: tzinfo | None, notes: Notes, *, all_runs: bool = False
) -> Iterator[Iterator[JobRecord]]:
    """Open a job log for a ``with`` block, which receives an iterator over its jobs.

    With `all_runs`, a requeued job is yielded once for each run. `kind` is the log's format (None: to be
    recognised), `zone` that of times without an offset (None: this machine's), and `notes` counts what was
    ignored or repaired. Raises LogFileError if the file cannot be read, KindError if its format is unclear,
    ParseError if the log as a whole is malformed.
    """
    with reading(name) as stream:
        kind, lines = open_log(stream, kind, name)
        records = read_log(shown_progress(lines, stream, name), kind, source=name, zone=zone, notes=notes)
        yield fold_jobs(notes.accepted(records), notes.count_folded, all_runs=all_runs)


def add_meaning(parser: argparse.ArgumentParser) -> None:
    """Add ``--swf``, which says how to interpret fields whose meaning differs among SWF logs."""
    meanings = ", ".join(f"{word} ({meaning})" for word, meaning in MEANINGS.items())
    parser.add_argument("--swf", metavar="LIST", help=f"how to read an SWF log: some of {meanings}")


def parse_meaning(arguments: argparse.Namespace) -> Meaning:
    """Return what ``--swf`` says of an SWF log's fields. Raises ConfigurationError for an invalid list."""
    words = parse_words("--swf", arguments.swf, tuple(MEANINGS)) if arguments.swf is not None else ()
    is_cpu, is_wall = "cpu-time" in words, "wall-time" in words
    if is_cpu and is_wall:
        raise ConfigurationError("--swf", "cpu-time and wall-time cannot be combined")
    return Meaning(
        "bytes" in words, "per-job" in words, is_cpu if is_cpu or is_wall else None, "no-waits" in words
    )


def add_strict(parser: argparse.ArgumentParser) -> None:
    """Add ``--strict``: exit status 1 if a record could not be read."""
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a record could not be read")


def parse_zone(name: str | None) -> tzinfo | None:
    """Return the time zone with this name, None for this machine's. Raises ConfigurationError if unknown."""
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError, RecursionError):  # KeyError: unknown; RecursionError: many slashes
        near = nearest(name, _zones()) if len(name) < 80 else ""
        raise ConfigurationError("--zone", f"no such zone: {name!r}{near}") from None


_zones = cache(available_timezones)  # it walks through the whole data base
