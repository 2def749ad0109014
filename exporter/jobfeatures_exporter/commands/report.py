"""`jobfeatures-exporter report`: prints what jobs asked for, used and wasted."""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import sys
import time

from jobfeatures.errors import ConfigurationError, shown
from jobfeatures.settings.access import access_of, add_access_flags
from jobfeatures.settings.flags import parse_duration_flag
from jobfeatures.settings.usage import add_option, complain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `report` to its parser."""
    parser.epilog = "What a pilot reports of itself to the site: jobfeatures report."
    parser.add_argument(
        "job",
        metavar="JOB",
        nargs="?",
        help="id of a job, of an array, or of a task of one (12_3, 12[3], 12.3)",
    )
    parser.add_argument(
        "--by", choices=("user", "account"), help="sums over the jobs that ended within --since"
    )
    add_option(
        parser, "--prometheus", "URL", "the server that scrapes the nodes", default="http://127.0.0.1:9090"
    )
    add_access_flags(parser, "--prometheus")
    add_option(parser, "--batch-system", "NAME", "batch system of the job, if several have the id")
    parser.add_argument("--cluster", metavar="NAME", help="cluster of the job, if several have the id")
    add_option(parser, "--cluster-label", "LABEL", "label of the cluster", default="cluster")
    add_option(parser, "--since", "DURATION", "how far back to search", default="7d")
    add_option(parser, "--at", "SECONDS", "report at this time, for an earlier run of the id (default: now)")
    add_option(parser, "--socket", "PATH", "this node's web.own_socket, for your own job that runs here")
    add_option(parser, "--sacct", "COMMAND", "reads summaries of jobs unknown to the server", default="sacct")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="(default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Print the report on a job, or sums by user or account. Exit status 1: no such job, or no answer."""
    if (arguments.job is None) is (arguments.by is None):
        raise ConfigurationError("JOB", "name a job, or use --by for sums over many jobs")
    access = access_of(arguments, "--prometheus", arguments.prometheus)
    from jobfeatures.system.output import has_colours
    from jobfeatures.system.progress import shown_count
    from jobfeatures_exporter.jobreport.asjson import make_document
    from jobfeatures_exporter.jobreport.asking import ReportQuestion, ask_all
    from jobfeatures_exporter.jobreport.prometheus import Prometheus
    from jobfeatures_exporter.jobreport.selecting import AmbiguousJobError, JobWithoutSamplesError
    from jobfeatures_exporter.jobreport.text import format_reports

    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", arguments.cluster_label):
        raise ConfigurationError(
            "--cluster-label", f"must be a label's name, not {shown(arguments.cluster_label)}"
        )
    question = ReportQuestion(
        job=arguments.job or "",
        at_secs=_time(arguments.at),
        since_secs=parse_duration_flag("--since", arguments.since),
        batch_system=arguments.batch_system,
        cluster=arguments.cluster,
        cluster_label=arguments.cluster_label,
        where=access.url,
    )
    server = Prometheus(access)
    if arguments.socket is not None and arguments.by is not None:
        raise ConfigurationError(
            "--socket", "reports on single jobs only, so it cannot be combined with --by"
        )
    if arguments.by is not None:
        from jobfeatures_exporter.jobreport.totals import ask_totals, format_totals, make_totals_document

        with shown_count(None, f"asking {access.url}"):
            totals = ask_totals(server.query, question, arguments.by)
        if not totals.totals:
            nothing = (
                f"no job ended in the last {arguments.since} on {access.url}: --since reaches further back"
            )
            complain(nothing, "jobfeatures-exporter")
        if arguments.format == "json":
            print(json.dumps(make_totals_document(totals), indent=2))
        else:
            print(format_totals(totals), end="")
        return 0
    try:
        if arguments.socket is not None:
            from jobfeatures_exporter.jobreport.fromnode import ask_node

            reported = ask_node(
                arguments.socket, question.job, node=socket.gethostname(), now_secs=question.at_secs
            )
        else:
            with shown_count(None, f"asking {access.url}"):
                reported = ask_all(server.query, question)
    except JobWithoutSamplesError:
        from jobfeatures_exporter.jobreport.summaries import ask_accounting

        if (kept := ask_accounting(arguments.job, arguments.sacct)) is None:
            raise
        reported = kept
    except AmbiguousJobError as error:
        complain(error, "jobfeatures-exporter")
        return 2
    if arguments.format == "json":
        print(json.dumps(make_document(reported.reports, notes=reported.notes), indent=2))
    else:
        is_terminal = has_colours(sys.stdout, os.environ)
        print(format_reports(reported.reports, notes=reported.notes, is_terminal=is_terminal), end="")
    return 0


def _time(text: str | None) -> float:
    if text is None:
        return time.time()
    if not re.fullmatch(r"[0-9]{1,11}(\.[0-9]{1,3})?", text):
        raise ConfigurationError("--at", f"must be seconds since the epoch, not {shown(text)}")
    return float(text)
