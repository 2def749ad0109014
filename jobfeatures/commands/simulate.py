"""`jobfeatures simulate`: computes the schedule that another scheduler would have made of a log's jobs."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from jobfeatures.analysis.schedule.shares import CPU, STEPS, ShareRules, parse_shares_of
from jobfeatures.analysis.simulate.policies import REFRESH_SECS, Fairshare, Policy
from jobfeatures.analysis.simulate.pools import Pool, parse_nodes, parse_processors
from jobfeatures.commands.logarguments import (
    add_kind,
    add_meaning,
    add_strict,
    parse_meaning,
    parse_zone,
)
from jobfeatures.errors import ConfigurationError, shown
from jobfeatures.joblogs.disksort import DiskSorter
from jobfeatures.joblogs.logfiles import replacing, writing
from jobfeatures.settings.usage import complain, need
from jobfeatures.system.progress import shown_count

DONE, NOT_SIMULATED = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `jobfeatures simulate` to its parser."""
    parser.description = (
        "Simulate how a scheduler would have run the jobs of a log, and write the schedule in the Standard "
        "Workload Format. Exit status: 0 written, 1 no job can be simulated, 2 the log could not be read or "
        "the schedule written, or wrong usage."
    )
    parser.add_argument("log", metavar="LOG", help="a log, may be compressed; -: standard input")
    parser.add_argument(
        "--policy", required=True, choices=[policy.value for policy in Policy], help="the scheduler"
    )
    _add_simulation(parser)
    parser.add_argument(
        "--arrival",
        choices=("submit", "eligible"),
        default="submit",
        help="when a job arrives: submitted or eligible (default: submit)",
    )
    parser.add_argument(
        "--output", default="-", metavar="FILE", help="also .gz, .xz, .bz2, .zst (default: standard output)"
    )
    add_kind(parser)
    add_strict(parser)
    add_meaning(parser)


def run(arguments: argparse.Namespace) -> int:
    """Simulate one policy on a log, and write the schedule; return the exit status."""
    zone = parse_zone(arguments.zone)
    meaning = parse_meaning(arguments)
    asked = _parse_simulation(arguments)
    need("numpy", "simulate", "numpy")
    from jobfeatures.analysis.schedule.logreading import Pieces, as_file
    from jobfeatures.analysis.schedule.runs import Store
    from jobfeatures.analysis.simulate.arriving import read_arriving
    from jobfeatures.analysis.simulate.swfschedule import describe, record_lines, swf_lines
    from jobfeatures.analysis.simulate.workload import mean_wait_secs, remarks, run_policy

    name, policy = arguments.log, Policy(arguments.policy)
    by_eligible = arguments.arrival == "eligible"
    with as_file(name) as path, Store() as store, DiskSorter() as sort:
        with shown_count(None, f"{name}: reading"):
            pieces = Pieces([(name, path)], arguments.from_kind, zone, meaning, store=store)
            read = read_arriving(pieces, store, sort, by_eligible=by_eligible)
        log = read.log
        workload = read.workload(asked.pool, by_eligible=by_eligible)
        with shown_count(len(workload.position), f"{name}: {policy.value}") as progress:
            outcome = run_policy(log, workload, policy, asked.rules, progress=progress)
        about = describe(name, workload, policy, asked.rules)
        if log.ids is None:
            lines = swf_lines(read.columns, workload, outcome, about, store)
        else:
            lines = record_lines(read.reads, workload, outcome, about, sort)
        with replacing(arguments.output) as aside, writing(aside) as out:
            out.writelines(f"{line}\n" for line in lines)
        waited_secs = mean_wait_secs(workload, outcome)
    for warning in (*log.warnings, *remarks(workload)):
        complain(f"{name}: {warning}")
    if log.unreadable:
        complain(f"{name}: {log.unreadable} records cannot be read and are not simulated")
    for what, count in sorted(log.folded.items()):
        complain(f"{name}: merged: {what} ({count})")
    complain(
        f"{name}: {len(outcome.starts)} jobs, policy {policy.value}, {workload.pool.text}, "
        f"mean wait {waited_secs:.6g} s"
    )
    return NOT_SIMULATED if arguments.strict and log.unreadable else DONE


class _Simulation(NamedTuple):
    """The simulated machine (None: as the log describes it) and the fairshare settings."""

    pool: Pool | None
    rules: Fairshare


def _add_simulation(parser: argparse.ArgumentParser) -> None:
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


def _parse_simulation(arguments: argparse.Namespace) -> _Simulation:
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
        return _Simulation(parse_nodes("--nodes", arguments.nodes), rules)
    if arguments.processors is not None:
        return _Simulation(parse_processors("--processors", arguments.processors), rules)
    return _Simulation(None, rules)


def _whole_secs(key: str, text: str, *, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) >= least):
        raise ConfigurationError(key, f"must be whole seconds, {least} or more, not {shown(text)}")
    return int(text)
