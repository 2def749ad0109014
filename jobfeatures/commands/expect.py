"""`jobfeatures expect`: says when a job should end if its user got a fair share, and why it is late."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime, tzinfo

from jobfeatures.analysis.schedule.eet import Mode
from jobfeatures.analysis.schedule.eligibility import LATEST_SECS
from jobfeatures.analysis.schedule.live.expectation import compute_expectation
from jobfeatures.analysis.schedule.live.expecttext import format_expectation, make_document
from jobfeatures.analysis.schedule.live.userhistory import (
    NoSuchJobError,
    choose_jobs,
    make_rules,
    reported_by_log,
)
from jobfeatures.analysis.schedule.live.userjobs import EARLY, Found, UserJobs
from jobfeatures.analysis.schedule.shares import CPU, ShareRules, make_shares
from jobfeatures.batch import CLUSTER_SYSTEMS
from jobfeatures.batch.source import ClusterSource
from jobfeatures.commands.common import add_batch, read_config
from jobfeatures.commands.logarguments import add_kind, opened_jobs, parse_zone
from jobfeatures.config import Config
from jobfeatures.errors import ConfigurationError, shown
from jobfeatures.joblogs.loggedjob import Notes, Number, several_clusters
from jobfeatures.settings.flags import add_flags, parse_duration_flag
from jobfeatures.system.clock import Clock, SystemClock
from jobfeatures.system.exitstatus import DONE, TOO_LITTLE_KNOWN

ASK_SECS = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `jobfeatures expect` to its parser."""
    parser.description = (
        "Say when a job is expected to end by its user's share of the machine, whether it is late, and why. "
        "Exit status: 0 answered, 1 no answer for this job or from the batch system, 2 a log could not be "
        "read, or wrong usage, 3 answered, but earlier jobs may be missing."
    )
    add = parser.add_argument
    add("job", metavar="JOB", help="a job's id; ARRAY_TASK and JOB+COMPONENT too; an array: its last task")
    add_batch(parser, CLUSTER_SYSTEMS, ", to query (default: by the commands found)")
    add("--share", metavar="N", help="CPUs that each user can expect at any time (default: schedule.share)")
    add(
        "--share-of",
        metavar="USER=N",
        help="users with other shares: ann=16,bob=2.5 (default: schedule.share_of)",
    )
    add(
        "--mode", choices=[mode.value for mode in Mode], default=Mode.LITERAL.value, help="(default: literal)"
    )
    add(
        "--history",
        metavar="DURATION",
        help="how far back earlier jobs count, by their ends (default: schedule.history)",
    )
    add("--format", choices=("text", "json"), default="text", help="(default: text)")
    add("--log", metavar="FILE", help="read a log instead, may be compressed; -: standard input")
    add(
        "--at",
        metavar="TIME",
        help="with --log: as known then, 2026-11-20T14:02 or seconds (default: the log's end)",
    )
    add_kind(parser)
    add_flags(parser, Config)


def run(arguments: argparse.Namespace) -> int:
    """Print when the job is expected to end; return the exit status."""
    config = read_config(arguments)
    zone = parse_zone(arguments.zone)
    rules = make_rules(
        config.schedule.share if arguments.share is None else arguments.share,
        config.schedule.share_of if arguments.share_of is None else arguments.share_of,
    )
    history_secs = config.schedule.history_secs
    if arguments.history is not None:
        history_secs = parse_duration_flag("--history", arguments.history)
    if arguments.log is not None and arguments.batch is not None:
        raise ConfigurationError("--batch", "cannot be combined with --log")
    if arguments.log is None and (arguments.at is not None or arguments.from_kind is not None):
        raise ConfigurationError("--at, --from", "need --log")
    if arguments.log is not None:
        found = _of_log(arguments, rules, zone)
    else:
        clock = SystemClock()
        source = make_source(arguments.batch, config, clock)
        found = UserJobs(source, clock, rules, history_secs).ask(arguments.job)
    asked, shares, now_secs, notes = found
    if asked.unplaced:
        notes += (
            f"when {asked.unplaced} other jobs of its user were submitted, or what they ask for: {EARLY}",
        )
    is_partial = bool(asked.unplaced) or any(EARLY in note for note in notes)
    expectation = compute_expectation(
        asked, shares, now_secs, mode=Mode(arguments.mode), is_partial=is_partial
    )
    if arguments.format == "json":
        print(json.dumps(make_document(expectation, notes)))
    else:
        text = format_expectation(expectation, notes, zone)
        sys.stdout.write(text.encode("utf-8", "replace").decode("utf-8"))
    return TOO_LITTLE_KNOWN if is_partial else DONE


def _of_log(arguments: argparse.Namespace, rules: ShareRules, zone: tzinfo | None) -> Found:
    """Find a job in a log. Raises LogFileError, ParseError, KindError, NoSuchJobError, ConfigurationError."""
    at_secs = None if arguments.at is None else parse_time("--at", arguments.at, zone)
    notes = Notes()
    with opened_jobs(arguments.log, arguments.from_kind, zone, notes) as found:
        jobs = list(found)
    if names := several_clusters(jobs):  # each has its own job ids and shares
        raise ConfigurationError("--log", f"holds jobs of several clusters ({names}): give those of one only")
    if at_secs is None:
        times = (secs for job in jobs for secs in (job.submit_secs, job.start_secs, job.end_secs))
        at_secs = max((secs for secs in times if secs is not None and secs <= LATEST_SECS), default=0)
    reported = [each for job in jobs if (each := reported_by_log(job, at_secs)) is not None]
    try:
        asked = choose_jobs(reported, arguments.job)
    except NoSuchJobError as error:
        late = f", as known at {arguments.at}" if arguments.at is not None else ""
        raise NoSuchJobError(f"{arguments.log}{late}: {error}") from None
    user = asked.reported.facts.user
    if CPU not in rules.default and user not in rules.users:
        raise ConfigurationError(
            "--share", f"or --share-of for user {shown(user or '?')} is needed with --log"
        )
    unknown = [f"{notes.rejected} records of the log could not be read"] * bool(notes.rejected)
    unknown += [each.reason for each in notes.faults("")]
    shares = make_shares(CPU, rules, total=0, total_from="none", all_users=0, groups_of={})
    return asked, shares, at_secs, tuple(unknown)


def parse_time(key: str, text: str, zone: tzinfo | None) -> Number:
    """Return epoch seconds of a time such as ``2026-11-20T14:02:30+01:00``, or of a number of seconds.

    Without an offset it is in `zone` (None: this machine's). Raises ConfigurationError about the setting
    `key`.
    """
    if text.isascii() and text.isdigit() and len(text) <= 19:
        return int(text)
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo is not None else found.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ConfigurationError(
            key, f"must be epoch seconds or a time such as 2026-11-20T14:02:30+01:00, not {shown(text)}"
        ) from None


def make_source(named: str | None, config: Config, clock: Clock) -> ClusterSource:
    """Return a source of jobs of the batch system `named`, or (None) of the only one here.

    Raises ConfigurationError if none or several are here.
    """
    able = {name: each for name, each in CLUSTER_SYSTEMS.items() if named in (None, name)}
    here = [name for name, each in able.items() if named == name or each.is_here(config.batch.of(name))]
    if len(here) != 1:
        found = (
            f"several systems are here: {', '.join(here)}" if here else f"here is none of {', '.join(able)}"
        )
        raise ConfigurationError("--batch", f"must be given: {found}")
    return able[here[0]].make_cluster_source(config.batch.of(here[0]), clock, ASK_SECS)
