"""`jobfeatures-exporter summaries`: writes a summary of each ended job into Slurm's accounting."""

from __future__ import annotations

import argparse
import contextlib
import logging
import time

from jobfeatures.errors import ConfigurationError, JobfeaturesError, SourceError, shown
from jobfeatures.settings.access import access_of, add_access_flags
from jobfeatures.settings.flags import parse_duration_flag
from jobfeatures.settings.usage import add_option
from jobfeatures.system.logs import configure_logging
from jobfeatures_exporter.commands.common import pause_until_signal

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `summaries` to its parser."""
    add_option(parser, "--prometheus", "URL", "the server that scrapes the nodes", required=True)
    add_access_flags(parser, "--prometheus")
    add_option(
        parser, "--interval", "DURATION", "repeat at this interval until a signal (default: one round)"
    )
    add_option(parser, "--delay", "DURATION", "time to wait after a job's end", default="3m")
    add_option(parser, "--window", "DURATION", "jobs that ended within this time", default="1d")
    add_option(parser, "--per-second", "COUNT", "maximum number of summaries per second", default="5")
    parser.add_argument("--cluster", metavar="NAME", help="the cluster's name in Prometheus")
    add_option(parser, "--sacct", "COMMAND", "reads comments", default="sacct")
    add_option(parser, "--sacctmgr", "COMMAND", "writes comments", default="sacctmgr")


def run(arguments: argparse.Namespace) -> int:
    """Write the summaries that ended jobs lack in Slurm, once or periodically; return the exit status."""
    from jobfeatures.batch.slurm.comments import CommentedJob, JobComments
    from jobfeatures_exporter.jobreport.asking import ReportQuestion, ask_all
    from jobfeatures_exporter.jobreport.prometheus import Prometheus
    from jobfeatures_exporter.jobreport.selecting import JobWithoutSamplesError
    from jobfeatures_exporter.jobreport.summaries import CommentsSpoiltError, SummaryWriter
    from jobfeatures_exporter.view.use import JobUse

    access = access_of(arguments, "--prometheus", arguments.prometheus)
    delay_secs = parse_duration_flag("--delay", arguments.delay)
    interval_secs = None
    if arguments.interval is not None:
        interval_secs = parse_duration_flag("--interval", arguments.interval)
    configure_logging("info", "logfmt")
    server = Prometheus(access)

    def ask(job: CommentedJob) -> JobUse | None:
        question = ReportQuestion(
            job=job.job_id,
            at_secs=float((job.end_secs or job.start_secs) + delay_secs),
            since_secs=float(job.elapsed_secs + delay_secs + 600),
            batch_system="slurm",
            cluster=arguments.cluster,
            where=access.url,
        )
        try:
            found = ask_all(server.query, question).reports
        except JobWithoutSamplesError:
            return None
        return next((each for each in found if each.job_id == job.job_id), None)

    pause = time.sleep if interval_secs is None else pause_until_signal()
    writer = SummaryWriter(
        comments=JobComments(sacct=arguments.sacct, sacctmgr=arguments.sacctmgr),
        ask=ask,
        delay_secs=delay_secs,
        window_secs=parse_duration_flag("--window", arguments.window),
        per_second=_rate(arguments.per_second),
        pause=pause,
        now=time.time,
    )
    if interval_secs is None:
        print(f"{writer.round()} summaries written")
        if writer.failure:
            raise SourceError(writer.failure)
        return 0
    logged = ""
    while True:
        try:
            written = writer.round()
            if written:
                log.info("summaries written", extra={"count": written})
            if writer.failure:
                raise SourceError(writer.failure)
            logged = ""
        except CommentsSpoiltError:
            raise
        except JobfeaturesError as error:
            if str(error) != logged:  # once, not in each round
                log.error("%s", error)
            logged = str(error)
        if pause(interval_secs):
            return 0


def _rate(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (rate := float(text)) <= 1000:
            return rate
    raise ConfigurationError("--per-second", f"must be a number above 0, at most 1000, not {shown(text)}")
