"""`jobfeatures simulate`: the schedule that another scheduler would have made of a log."""

from __future__ import annotations

import argparse

from jobfeatures.analysis.simulate.policies import Policy
from jobfeatures.commands.logarguments import (
    add_kind,
    add_meaning,
    add_simulation,
    add_strict,
    parse_meaning,
    parse_simulation,
    parse_zone,
)
from jobfeatures.joblogs.logfiles import replacing, writing
from jobfeatures.joblogs.spill import DiskSorter
from jobfeatures.settings.usage import complain, need
from jobfeatures.system.progress import shown_count

DONE, NOT_SIMULATED = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.description = (
        "Simulate how a scheduler would have run the jobs of a log, and write the schedule in the Standard "
        "Workload Format. Exit status: 0 written, 1 no job can be simulated, 2 the log could not be read or "
        "the schedule written, or wrong usage."
    )
    parser.add_argument("log", metavar="LOG", help="a log, may be compressed; -: standard input")
    parser.add_argument(
        "--policy", required=True, choices=[policy.value for policy in Policy], help="the scheduler"
    )
    add_simulation(parser)
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
    """Simulate one policy on a log."""
    zone = parse_zone(arguments.zone)
    asked = parse_simulation(arguments)
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
            meaning = parse_meaning(arguments)
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
        complain(f"{name}: not simulated: {log.unreadable} × unreadable")
    for what, count in sorted(log.folded.items()):
        complain(f"{name}: folded: {what} ({count})")
    complain(
        f"{name}: {len(outcome.starts)} jobs, policy {policy.value}, {workload.pool.text}, "
        f"mean wait {waited_secs:.6g} s"
    )
    return NOT_SIMULATED if arguments.strict and log.unreadable else DONE
