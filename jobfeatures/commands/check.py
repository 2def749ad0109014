"""`jobfeatures check`: checks directories of features, job logs and documents for faults."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from collections.abc import Iterable, Mapping

from jobfeatures.check.fetching import CannotCheckError, read_listing
from jobfeatures.check.filekinds import DONE, ERRORS, FILE_KINDS, SHOWN_ALIKE, UNREADABLE, Flags, check_file
from jobfeatures.check.listing import VARIABLES, Case, DirectoryKind, Listing, LocationVerdict, Severity
from jobfeatures.check.rules import judge
from jobfeatures.commands.common import TimeIsUpError, number_flag, time_limit
from jobfeatures.errors import ConfigurationError, shown, shown_name
from jobfeatures.features.keys import MjfProfile
from jobfeatures.formats.sonar.fields import PROFILES
from jobfeatures.records.quantities import counted
from jobfeatures.settings.usage import add_switch

DEFAULT_TIMEOUT_SECS = 30.0
_MARKS = {Severity.ERROR: "error  ", Severity.WARNING: "warning", Severity.INFORMATION: "info   "}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `jobfeatures check` to its parser."""
    parser.description = (
        "Check feature directories of any provider, SWF logs, and documents of SSS and of Sonar. "
        "Exit status: 0 no errors, 1 errors, 2 something could not be read."
    )
    parser.add_argument(
        "locations",
        nargs="*",
        metavar="DIR-URL-or-FILE",
        help="what to check; -: standard input (default: $MACHINEFEATURES, $JOBFEATURES, $JOBSTATUS)",
    )
    parser.add_argument(
        "--as",
        dest="kind",
        choices=(*(kind.value for kind in DirectoryKind), *FILE_KINDS),
        help="their kind (default: by keys, names and first lines)",
    )
    parser.add_argument(
        "--profile",
        choices=(*(profile.value for profile in MjfProfile), *PROFILES),
        help="specification of features (default: by the names), or Sonar's fields (default: any)",
    )
    parser.add_argument("--strict", action="store_true", help="Sonar: report also what readers tolerate")
    add_switch(parser, "--lenient", "SSS: read typographic quotes as straight ones")
    add_switch(parser, "--all", f"SWF: show every fault (default: {SHOWN_ALIKE} of a kind and their number)")
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="(default: text; json: one document for directories, one object a line for files)",
    )
    parser.add_argument(
        "--timeout",
        type=number_flag(float, "seconds above 0", 1e-3, 1e6),
        default=DEFAULT_TIMEOUT_SECS,
        metavar="SECONDS",
        help=f"overall timeout for directories (default: {DEFAULT_TIMEOUT_SECS:g})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Check directories or files; exit status 0 without errors, 1 with errors, 2 if one could not be read."""
    kind, profile = arguments.kind, arguments.profile
    if profile is not None and kind is not None and (profile in PROFILES) != (kind == "sonar"):
        raise ConfigurationError("--profile", f"{profile} is not a profile of {kind}")
    files = [each for each in arguments.locations if _is_file(each, kind)]
    flags = Flags(
        profile if profile in PROFILES else None,
        arguments.strict,
        arguments.lenient,
        arguments.all,
        arguments.format == "json",
    )
    status = max((check_file(each, kind, flags) for each in files), default=DONE)
    directories = [each for each in arguments.locations if each not in files]
    if files and not directories:
        return status
    wanted = _wanted(directories, DirectoryKind(kind) if kind else None, os.environ)
    verdicts = check(wanted, arguments.timeout, None if profile in {None, *PROFILES} else MjfProfile(profile))
    print(format_json(verdicts) if arguments.format == "json" else format_text(verdicts))
    if any(verdict.problem for verdict in verdicts):
        return UNREADABLE
    return max(status, ERRORS if any(verdict.count(Severity.ERROR) for verdict in verdicts) else DONE)


def _is_file(location: str, kind: str | None) -> bool:
    if kind is not None:
        return kind in FILE_KINDS
    return location == "-" or (
        "://" not in location and os.path.exists(location) and not os.path.isdir(location)
    )


def _wanted(
    locations: Iterable[str], kind: DirectoryKind | None, environ: Mapping[str, str]
) -> list[tuple[str, DirectoryKind | None]]:
    """Return what to check; relative paths on the command line are relative to the working directory."""
    given = list(locations)
    if given:
        return [(each if "://" in each else os.path.join(os.getcwd(), each), kind) for each in given]
    found = [(environ[name], each) for name, each in VARIABLES.items() if environ.get(name)]
    wanted: list[tuple[str, DirectoryKind | None]] = [each for each in found if kind in {None, each[1]}]
    if not wanted:
        names = ", ".join(f"${name}" for name in VARIABLES)
        raise ConfigurationError("DIR-URL-or-FILE", f"must be given, because none of {names} is set")
    return wanted


def check(
    wanted: Iterable[tuple[str, DirectoryKind | None]], timeout_secs: float, profile: MjfProfile | None = None
) -> list[LocationVerdict]:
    """Read and check the `wanted` locations of features, each a path or URL with its kind.

    A kind of None is to be found out. Locations not read within `timeout_secs` get a verdict with their
    problem. `profile` is the version of the specification to check against.
    """
    listings: list[Listing] = []
    verdicts: list[LocationVerdict] = []
    with time_limit(timeout_secs):
        for location, kind in wanted:
            try:
                listings.append(read_listing(location, kind, profile))
            except CannotCheckError as error:
                verdicts.append(LocationVerdict(location, kind, problem=str(error)))
            except TimeIsUpError:
                verdicts.append(
                    LocationVerdict(location, kind, problem=f"not finished after {timeout_secs:g} s")
                )
    now, judged = time.time(), list[LocationVerdict]()
    for each in listings:
        machine, job = (_other(each, listings, kind) for kind in (DirectoryKind.MACHINE, DirectoryKind.JOB))
        judged.append(LocationVerdict(each.location, each.kind, judge(Case(each, now, machine, job))))
    return judged + verdicts


def _other(listing: Listing, listings: list[Listing], kind: DirectoryKind) -> Listing | None:
    """Return the directory of another kind that belongs to this one: with the same name, or the only one."""
    others = [each for each in listings if each.kind is kind and each is not listing]
    name = os.path.basename(listing.location.rstrip("/"))
    same = [each for each in others if os.path.basename(each.location.rstrip("/")) == name]
    if len(same) == 1:
        return same[0]
    return others[0] if len(others) == 1 else None


def format_text(verdicts: Iterable[LocationVerdict]) -> str:
    """Return the verdicts as text for people; foreign text is escaped."""
    lines: list[str] = []
    for verdict in verdicts:
        what = f" ({verdict.kind.value})" if verdict.kind is not None else ""
        lines.append(f"{shown_name(verdict.location)}{what}")
        if verdict.problem:
            lines.append(f"  cannot be read: {_plain(verdict.problem)}")
            continue
        for finding in verdict.findings:
            key = f"{_plain(finding.key)}: " if finding.key else ""
            source = f"[{finding.rule}; {finding.source}]"
            lines.append(f"  {_MARKS[finding.severity]} {key}{finding.text} {source}")
        nouns = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFORMATION: "note"}
        counts = (counted(verdict.count(severity), noun) for severity, noun in nouns.items())
        lines.append(f"  {', '.join(counts)}")
    return "\n".join(lines)


def _plain(text: str) -> str:
    return text if text.isascii() and text.isprintable() and len(text) <= 200 else shown(text)


def format_json(verdicts: Iterable[LocationVerdict]) -> str:
    """Return the verdicts as JSON for programs; docs/check.md describes it."""
    verdicts = list(verdicts)
    document = {
        "locations": [
            {
                "location": verdict.location,
                "kind": verdict.kind.value if verdict.kind is not None else None,
                "problem": verdict.problem or None,
                "findings": [dataclasses.asdict(finding) for finding in verdict.findings],
            }
            for verdict in verdicts
        ],
        **{
            name: sum(verdict.count(severity) for verdict in verdicts)
            for name, severity in (
                ("errors", Severity.ERROR),
                ("warnings", Severity.WARNING),
                ("information", Severity.INFORMATION),
            )
        },
        "unreadable": sum(bool(verdict.problem) for verdict in verdicts),
    }
    return json.dumps(document, indent=2)
