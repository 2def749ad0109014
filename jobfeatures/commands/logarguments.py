"""Arguments and helpers shared by the commands on logs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import tzinfo
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from jobfeatures.analysis.schedule.shares import CPU, STEPS, ShareRules, parse_shares_of
from jobfeatures.analysis.simulate.policies import REFRESH_SECS, Fairshare
from jobfeatures.analysis.simulate.pools import Pool, parse_nodes, parse_processors
from jobfeatures.errors import ConfigurationError, nearest, shown
from jobfeatures.formats.swf.fields import Meaning
from jobfeatures.joblogs.folding import fold_jobs
from jobfeatures.joblogs.logfiles import open_log, reading
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.logkinds import KINDS, read_log
from jobfeatures.system.progress import shown_progress


def add_kind(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say how to read a log."""
    readable = [name for name, kind in KINDS.items() if kind.reader]
    parser.add_argument(
        "--from",
        dest="from_kind",
        metavar="KIND",
        choices=readable,
        help=f"(default: by content) one of {', '.join(readable)}",
    )
    parser.add_argument(
        "--zone", metavar="NAME", help="time zone of the log, such as Europe/Berlin (default: local)"
    )


@contextmanager
def opened_jobs(
    name: str, kind: str | None, zone: tzinfo | None, notes: Notes, *, all_runs: bool = False
) -> Iterator[Iterator[JobRecord]]:
    """Open a log and yield its jobs, with a progress bar. Raises LogFileError, ParseError, KindError."""
    with reading(name) as stream:
        kind, lines = open_log(stream, kind, name)
        records = read_log(shown_progress(lines, stream, name), kind, source=name, zone=zone, notes=notes)
        yield fold_jobs(notes.accepted(records), notes.fold, all_runs=all_runs)


def add_meaning(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the meaning of SWF fields that the standard leaves open."""
    parser.add_argument(
        "--memory-unit",
        choices=("KiB", "B"),
        default="KiB",
        help="unit of memory in an SWF log (default: KiB)",
    )
    parser.add_argument(
        "--memory-per",
        choices=("processor", "job"),
        default="processor",
        help="whether memory in an SWF log is per processor or per job (default: processor)",
    )
    parser.add_argument(
        "--requested-time",
        choices=("wall", "cpu"),
        help="kind of requested times in an SWF log (default: by its header, else wall)",
    )


def parse_meaning(arguments: argparse.Namespace) -> Meaning:
    """Return the meaning of SWF fields that the arguments give."""
    requested = arguments.requested_time
    is_cpu = None if requested is None else requested == "cpu"
    return Meaning(arguments.memory_unit == "B", arguments.memory_per == "job", is_cpu)


def add_strict(parser: argparse.ArgumentParser) -> None:
    """Add the argument for unreadable records."""
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a record could not be read")


def parse_zone(name: str | None) -> tzinfo | None:
    """Return the time zone of a name, None for this machine's. Raises ConfigurationError."""
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError, RecursionError):  # KeyError: unknown; RecursionError: many slashes
        near = nearest(name, _zones()) if len(name) < 80 else ""
        raise ConfigurationError("--zone", f"no such zone: {name!r}{near}") from None


_zones = cache(available_timezones)  # it walks through the whole data base


class Simulation(NamedTuple):
    """The simulated machine (None: as the log describes it) and the fairshare settings."""

    pool: Pool | None
    rules: Fairshare


def add_simulation(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of simulations."""
    parser.add_argument("--nodes", metavar="KINDS", help="simulate nodes, such as 7x80cpu,504GB,4gpu;2x16cpu")
    parser.add_argument(
        "--processors",
        metavar="N",
        help="simulate one pool of N (default: as the log says, else the most in use)",
    )
    parser.add_argument(
        "--fairshare-refresh",
        default=str(REFRESH_SECS),
        metavar="SECS",
        help=f"interval of updates of the users' order between events (default: {REFRESH_SECS})",
    )
    parser.add_argument(
        "--fairshare-halving",
        default="0",
        metavar="SECS",
        help="half-life of past use, such as 259200 (default: 0, no decay)",
    )
    parser.add_argument(
        "--fairshare-of",
        action="append",
        default=[],
        metavar="USER=N",
        help="share of a user, or of a group's users (group:NAME=N); others have 1; may be repeated",
    )


def parse_simulation(arguments: argparse.Namespace) -> Simulation:
    """Return the simulation that the arguments describe. Raises ConfigurationError."""
    users, groups = parse_shares_of("--fairshare-of", arguments.fairshare_of, (CPU,))
    if not all(share[CPU] for share in (*users.values(), *groups.values())):
        raise ConfigurationError("--fairshare-of", "a share of 0: such jobs would never run")
    rules = Fairshare(
        _whole_secs("--fairshare-refresh", arguments.fairshare_refresh, least=1),
        _whole_secs("--fairshare-halving", arguments.fairshare_halving, least=0),
        ShareRules({CPU: STEPS[CPU]}, users, groups),
    )
    if arguments.nodes is not None and arguments.processors is not None:
        raise ConfigurationError("--processors", "cannot be combined with --nodes")
    if arguments.nodes is not None:
        return Simulation(parse_nodes("--nodes", arguments.nodes), rules)
    if arguments.processors is not None:
        return Simulation(parse_processors("--processors", arguments.processors), rules)
    return Simulation(None, rules)


def _whole_secs(key: str, text: str, *, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) >= least):
        raise ConfigurationError(key, f"must be whole seconds, {least} or more, not {shown(text)}")
    return int(text)
