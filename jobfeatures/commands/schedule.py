"""`jobfeatures schedule`: computes from job logs how good a schedule was for the users."""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, Final

from jobfeatures.analysis.schedule.eet import Mode
from jobfeatures.analysis.schedule.gallery import Gallery
from jobfeatures.analysis.schedule.shares import (
    CPU,
    FIELDS,
    RESOURCES,
    ShareRules,
    parse_amounts,
    parse_filters,
    parse_shares_of,
    parse_words,
)
from jobfeatures.analysis.simulate.policies import ALL, Fairshare, Policy, parse_policies
from jobfeatures.commands.common import number_flag
from jobfeatures.commands.logarguments import (
    add_kind,
    add_meaning,
    add_strict,
    parse_meaning,
    parse_zone,
)
from jobfeatures.errors import ConfigurationError, JobfeaturesError
from jobfeatures.formats.swf.fields import Meaning
from jobfeatures.settings.usage import complain, need
from jobfeatures.system.progress import shown_count

if TYPE_CHECKING:
    from jobfeatures.analysis.schedule.jobarrays import ScheduleLog
    from jobfeatures.analysis.schedule.result import Options
    from jobfeatures.analysis.schedule.runs import Store

DONE, NOT_EVALUATED = 0, 1
JOINS: Final = ("preceding", "array", "workflow")
UNREADABLE_JOB: Final = "unreadable"  # the reason for skipped records that could not be read

COUNT = number_flag(int, "a whole number from 1 to 1000000", 1, 1_000_000)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `jobfeatures schedule` to its parser."""
    parser.description = (
        "Show how good the schedules of logs were: waits, responses, slowdowns, and jobs later than a fair "
        "share promises. "
        "Exit status: 0 all logs were evaluated, 1 one has no job that counts, or no expected "
        "ends, 2 one could not be read, or wrong usage."
    )
    add = parser.add_argument
    add("logs", nargs="+", metavar="LOG", help="a log, may be compressed; -: standard input")
    add(
        "--share",
        metavar="N",
        help="share of each user, N or cpu=N,memory=SIZE,gpu=N (default: total / users)",
    )
    add(
        "--share-of",
        action="append",
        default=[],
        metavar="USER=N",
        help=(
            "share of a user or of a group's users (group:NAME=N); several resources: "
            "NAME=cpu:N,memory:SIZE; may be repeated"
        ),
    )
    add(
        "--total",
        metavar="N",
        help=(
            "size of the machine, N or cpu=N,memory=SIZE,gpu=N (default: as the log says, else the most in"
            " use)"
        ),
    )
    add(
        "--resource",
        default=CPU,
        metavar="LIST",
        help=f"some of {', '.join(RESOURCES)}; the latest expected end counts (default: {CPU})",
    )
    add(
        "--mode", choices=[mode.value for mode in Mode], default=Mode.LITERAL.value, help="(default: literal)"
    )
    add(
        "--arrival",
        choices=("submit", "eligible", "ready"),
        default="submit",
        help=(
            "when a job arrives: submitted, eligible, or ready (the job that it follows has ended) "
            "(default: submit)"
        ),
    )
    add(
        "--join",
        metavar="LIST",
        help=f"one expected end for a user's jobs that belong together, by some of {', '.join(JOINS)}",
    )
    add(
        "--filter",
        action="append",
        default=[],
        metavar="FIELD=NAME",
        help=f"only these jobs, with expected ends by the whole log: {', '.join(FIELDS)}; "
        "FIELD!=NAME excludes; NAME,NAME matches either",
    )
    add(
        "--by",
        default="user",
        metavar="LIST",
        help=f"show figures separately by some of {', '.join(FIELDS)}, or none (default: user)",
    )
    add("--format", choices=("text", "json", "csv"), default="text", help="(default: text)")
    add(
        "--heatmap",
        type=COUNT,
        metavar="SECS",
        help="late jobs by user and time, in cells of so many seconds (JSON or CSV)",
    )
    add(
        "--report",
        metavar="PATH",
        help="also write pictures and tables as one HTML file; in a directory: the pictures, as PNG and SVG",
    )
    add(
        "--simulate",
        metavar="LIST",
        help=f"add what other schedulers would have made of each log on its machine: {ALL}, or some of "
        f"{', '.join(policy.value for policy in Policy)}",
    )
    add("--one-log", action="store_true", help="the LOGs are parts of one log, in order")
    add("--dask", metavar="ADDRESS", help="with --one-log: scheduler of a Dask cluster")
    add_kind(parser)
    add_strict(parser)
    add_meaning(parser)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate the schedules of logs, and print the figures; return the exit status."""
    resources = parse_words("--resource", arguments.resource, RESOURCES)
    fields = () if arguments.by == "none" else parse_words("--by", arguments.by, FIELDS)
    rules = _rules(arguments, resources)
    filters = parse_filters(arguments.filter)
    zone, meaning = parse_zone(arguments.zone), parse_meaning(arguments)
    policies = _policies(arguments)
    if arguments.heatmap is not None and (arguments.format == "text" or arguments.one_log):
        raise ConfigurationError("--heatmap", "needs --format json or csv, and not --one-log")
    if arguments.join and arguments.one_log:
        raise ConfigurationError("--join", "cannot be combined with --one-log")
    options = _options(arguments, resources, rules, filters)
    if arguments.one_log and arguments.format != "json":
        raise ConfigurationError("--one-log", "needs --format json")
    if arguments.one_log and arguments.report is not None:
        raise ConfigurationError("--one-log", "cannot be combined with --report")
    if arguments.dask is not None:
        if not arguments.one_log:
            raise ConfigurationError("--dask", "needs --one-log")
        return _evaluate_on_dask(arguments, options, fields, zone, meaning)
    gallery = Gallery(arguments.report)
    from jobfeatures.analysis.schedule.runs import Store

    status = DONE
    documents = []
    reported: set[str] = set()
    files = [arguments.logs] if arguments.one_log else [[name] for name in arguments.logs]
    with Store() as store:
        for names in files:
            logs = _logs(names, arguments, policies, zone, meaning)
            while True:
                try:
                    log = next(logs, None)
                    if log is None:
                        break
                    document = _evaluate(*log, options, fields, gallery, store, arguments)
                    documents.append(document)
                    _warn(document["log"] if arguments.one_log else names[0], document, reported)
                    if arguments.strict and document["skipped"][UNREADABLE_JOB]:
                        status = status or NOT_EVALUATED
                except JobfeaturesError as error:  # ConfigurationError was raised before any log was read
                    complain(error)
                    status = max(status, error.exit_status)
        if documents:
            _print(documents, arguments)
            gallery.write()
    return status


def _options(
    arguments: argparse.Namespace,
    resources: tuple[str, ...],
    rules: ShareRules,
    filters: dict[tuple[str, bool], set[str]],
) -> Options:
    """Return the options of the evaluation. Raises ConfigurationError without numpy."""
    need("numpy", "schedule", "numpy")
    from jobfeatures.analysis.schedule.bags import Join
    from jobfeatures.analysis.schedule.choosing import Arrival, Filter
    from jobfeatures.analysis.schedule.result import Options

    return Options(
        resources=resources,
        rules=rules,
        mode=Mode(arguments.mode),
        arrival=Arrival(arguments.arrival),
        filters=tuple(
            Filter(field, frozenset(values), is_not) for (field, is_not), values in filters.items()
        ),
        join=tuple(map(Join, parse_words("--join", arguments.join, JOINS))) if arguments.join else (),
    )


def _policies(arguments: argparse.Namespace) -> tuple[Policy, ...]:
    """Return the policies to apply to each log. Raises ConfigurationError."""
    if arguments.simulate is None:
        return ()
    if arguments.one_log:
        raise ConfigurationError("--simulate", "cannot be combined with --one-log")
    return parse_policies("--simulate", arguments.simulate)


def _logs(
    names: list[str],
    arguments: argparse.Namespace,
    policies: tuple[Policy, ...],
    zone: tzinfo | None,
    meaning: Meaning,
) -> Iterator[tuple[str, Iterator[ScheduleLog]]]:
    """Yield a log's name and pieces, then those of its simulation by each policy."""
    from jobfeatures.analysis.schedule.logreading import Pieces, as_file
    from jobfeatures.analysis.schedule.runs import Store

    with ExitStack() as stack:
        files = [(each, stack.enter_context(as_file(each))) for each in names]
        store = stack.enter_context(Store())
        pieces = Pieces(files, arguments.from_kind, zone, meaning, store=store)
        yield pieces.name, pieces.logs()
        if not policies:
            return
        from jobfeatures.analysis.simulate.arriving import read_arriving
        from jobfeatures.analysis.simulate.simulated import make_logs
        from jobfeatures.analysis.simulate.workload import run_policy
        from jobfeatures.joblogs.disksort import DiskSorter

        by_eligible = arguments.arrival == "eligible"
        read = read_arriving(pieces, store, stack.enter_context(DiskSorter()), by_eligible=by_eligible)
        workload = read.workload(None, by_eligible=by_eligible)
        for policy in policies:
            with shown_count(len(workload.position), f"{pieces.name}: {policy.value}") as progress:
                outcome = run_policy(read.log, workload, policy, Fairshare(), progress=progress)
            shown_as = policy.value if len(arguments.logs) == 1 else f"{pieces.name}: {policy.value}"
            yield shown_as, make_logs(read.log, read.logs(), workload, outcome, shown_as)


def _evaluate(
    name: str,
    logs: Iterator[ScheduleLog],
    options: Options,
    fields: tuple[str, ...],
    gallery: Gallery,
    drawn: Store,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """Return a log's results as a document; the data for its pictures goes into the store `drawn`."""
    from jobfeatures.analysis.schedule.document import make_document
    from jobfeatures.analysis.schedule.heatcells import Cells
    from jobfeatures.analysis.schedule.runs import Store
    from jobfeatures.analysis.schedule.spooled import spool
    from jobfeatures.analysis.schedule.whole import Whole

    with Store() as store:
        with shown_count(None, f"{name}: reading"):
            whole = Whole(spool(name, logs, options, store), fields)
        cells = Cells(whole, arguments.heatmap) if arguments.heatmap is not None else None
        sketch = gallery.sketch(whole, drawn)
        with shown_count(whole.job_count * len(options.resources), f"{name}: expected ends") as tick:
            for chunk, first_user in whole.evaluate_chunks(tick):
                for each in (cells, sketch):
                    if each is not None:
                        each.add(chunk, first_user)
                del chunk  # otherwise two would be in memory at once
        document = make_document(whole, fields)
        if sketch is not None:
            gallery.add(sketch.view(document))
    return document if cells is None else document | {"heatmap": cells.heatmap()}


def _warn(name: str, document: dict[str, Any], reported: set[str]) -> None:
    """Print a file's warnings, each only once: several schedules of it may have the same."""
    for message in map(f"{name}: {{}}".format, _messages(document)):
        if message not in reported:
            reported.add(message)
            complain(message)


def _messages(document: dict[str, Any]) -> Iterator[str]:
    yield from (f"warning: {warning}" for warning in document["warnings"])
    if count := document["skipped"][UNREADABLE_JOB]:
        yield f"records that could not be read: {count}"
    yield from (f"merged: {name} ({count})" for name, count in sorted(document["folded"].items()))


def _evaluate_on_dask(
    arguments: argparse.Namespace,
    options: Options,
    fields: tuple[str, ...],
    zone: tzinfo | None,
    meaning: Meaning,
) -> int:
    """Evaluate the files of one log on a Dask cluster, and print the results as JSON."""
    from jobfeatures.analysis.schedule.logreading import read_log
    from jobfeatures.analysis.schedule.partitions import connected, evaluate_partitions

    how = {"kind": arguments.from_kind, "zone": zone, "meaning": meaning}
    with connected(arguments.dask) as runner:
        read = functools.partial(read_log, **how)
        document = evaluate_partitions(arguments.logs, options, fields, read, runner=runner)
    for message in _messages(document):
        complain(f"{document['log']}: {message}")
    print(json.dumps(document))
    return NOT_EVALUATED if arguments.strict and document["skipped"][UNREADABLE_JOB] else DONE


def _print(documents: list[dict[str, Any]], arguments: argparse.Namespace) -> None:
    from jobfeatures.analysis.schedule.document import compare
    from jobfeatures.analysis.schedule.heatcells import format_heatmaps
    from jobfeatures.analysis.schedule.tables import format_comparison, format_csv, format_text

    comparison = compare(documents) if len(documents) > 1 else None
    if arguments.format == "json":
        if arguments.one_log or (len(arguments.logs) == 1 and arguments.simulate is None):
            print(json.dumps(documents[0]))
            return
        reported: dict[str, Any] = {"logs": documents}
        if comparison is not None:
            reported["comparison"] = comparison
        print(json.dumps(reported))
        return
    if arguments.format == "csv":
        text = format_heatmaps(documents) if arguments.heatmap is not None else format_csv(documents)
    else:
        text = format_text(documents) + "\n"
        if comparison is not None:
            text += "\n" + format_comparison(comparison) + "\n"
    sys.stdout.write(text.encode("utf-8", "replace").decode("utf-8"))


def _rules(arguments: argparse.Namespace, resources: tuple[str, ...]) -> ShareRules:
    users, groups = parse_shares_of("--share-of", arguments.share_of, resources)
    return ShareRules(
        default=parse_amounts("--share", arguments.share, resources) if arguments.share is not None else {},
        users=users,
        groups=groups,
        totals=parse_amounts("--total", arguments.total, resources) if arguments.total is not None else {},
    )
