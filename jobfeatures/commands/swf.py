"""`jobfeatures swf`."""

from __future__ import annotations

import argparse
import json
from collections import Counter

from jobfeatures.formats.swf.check import ERROR, WARNING, Fault, check_log
from jobfeatures.logfiles import LogFileError, bounded_lines, reading
from jobfeatures.progress import shown_progress
from jobfeatures.quantities import counted
from jobfeatures.usage import complain

SHOWN_ALIKE = 10
DONE, ERRORS, UNREADABLE = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="report errors and warnings by line",
        description="Report what is wrong with logs, line by line. Exit status: 0 no errors, 1 errors, "
        "2 a log could not be read.",
    )
    check.add_argument("files", nargs="+", metavar="FILE", help="a log, may be compressed; -: standard input")
    check.add_argument(
        "--all",
        action="store_true",
        help=f"show every fault (default: {SHOWN_ALIKE} of a kind and their number)",
    )
    check.add_argument(
        "--format", choices=("text", "json"), default="text", help="(default: text; json: one per line)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Check logs."""
    status = DONE
    for name in arguments.files:
        try:
            found = _check(name, show_all=arguments.all, as_json=arguments.format == "json")
        except LogFileError as error:
            complain(error)
            status = UNREADABLE
            continue
        if found and status == DONE:
            status = ERRORS
    return status


def _check(name: str, *, show_all: bool, as_json: bool) -> int:
    """Print the faults of a log; return the number of errors."""
    seen: Counter[tuple[str, str]] = Counter()
    few: list[str] = []  # printed at the end, so that they do not break up the progress bar
    with reading(name) as stream:
        lines = bounded_lines(stream)
        seen_lines = lines if as_json or show_all else shown_progress(lines, stream, name)
        for fault in check_log(seen_lines, source=name):
            seen[fault.level, fault.rule] += 1
            if as_json:
                print(json.dumps({"file": name, **fault._asdict()}))
            elif show_all:
                print(_line(name, fault))
            elif seen[fault.level, fault.rule] <= SHOWN_ALIKE:
                few.append(_line(name, fault))
    for line in few:
        print(line)
    levels: Counter[str] = Counter()
    for (level, rule), count in seen.items():
        levels[level] += count
        if not as_json and not show_all and count > SHOWN_ALIKE:
            print(f"{name}: {level}: {rule}: {count - SHOWN_ALIKE} more")
    if not as_json:
        print(f"{name}: {counted(levels[ERROR], 'error')}, {counted(levels[WARNING], 'warning')}")
    return levels[ERROR]


def _line(name: str, fault: Fault) -> str:
    place = f"{name}:{fault.line}" if fault.line else name
    return f"{place}: {fault.level}: {fault.rule}: {fault.message}"
