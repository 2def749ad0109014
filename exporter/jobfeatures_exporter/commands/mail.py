"""`jobfeatures-exporter mail`: a MailProg for Slurm that adds the job's usage to the mail at its end.

If anything goes wrong, the site's own mailer sends Slurm's mail unchanged.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time

from jobfeatures.errors import JobfeaturesError, shown
from jobfeatures.settings.access import access_of, add_access_flags
from jobfeatures.settings.usage import complain
from jobfeatures.system.command import run_command

# "Slurm Job_id=12 Name=fit.sh Ended, Run time 00:01:40, COMPLETED, ExitCode 0"; of an array "Slurm Array
# Summary Job_id=12_* (12) Name=…". Users choose the names: the id is what precedes them.
_ENDED = re.compile(r"Slurm (?:Array (?:Summary|Task) )?Job_id=([1-9][0-9]{0,9}(?:_[0-9]{1,10})?)")
_END = re.compile(r" (?:Ended|Failed), Run time [^,]*, ([A-Z_]+)(?:, ExitCode [0-9:]+)?\Z")
_ADDRESS = re.compile(r"[A-Za-z0-9_.+/=-][A-Za-z0-9_.+@/=-]{0,253}\Z")
MAX_SUBJECT = 900  # characters: a line of a mail holds at most 998
MAX_BODY = 10_000  # bytes; Slurm's own is empty
MAX_TEXT = 40_000  # characters of a report
MAILER_SECS = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `mail` to its parser; Slurm passes -s and ADDRESS."""
    parser.add_argument(
        "-s", dest="subject", metavar="SUBJECT", default="", help="the subject, given by Slurm"
    )
    parser.add_argument("address", metavar="ADDRESS", help="who gets the mail, given by Slurm")
    parser.add_argument(
        "--prometheus", metavar="URL", required=True, help="the server that scrapes the nodes"
    )
    add_access_flags(parser, "--prometheus")
    parser.add_argument(
        "--mailer",
        metavar="COMMAND",
        default="/usr/bin/mail",
        help="the site's MailProg, for other mails and on failures (default: %(default)s)",
    )
    parser.add_argument(
        "--sendmail",
        metavar="COMMAND",
        default="/usr/sbin/sendmail",
        help="command that sends the mail with figures (default: %(default)s)",
    )
    parser.add_argument("--from", dest="sender", metavar="ADDRESS", help="the sender (default: sendmail's)")
    parser.set_defaults(**{"prometheus.timeout": "20s"})


def run(arguments: argparse.Namespace) -> int:
    """Send Slurm's mail, with the report on the job added if there is one; return the exit status."""
    body = sys.stdin.buffer.read(MAX_BODY)
    try:
        text = _figures(arguments)
        if text:
            _send(arguments, body, text)
            return 0
    except Exception as error:  # noqa: BLE001  # any fault costs the figures, not the mail
        complain(f"the mail is sent without figures: {error}", "jobfeatures-exporter")
    try:
        _hand_over([arguments.mailer, "-s", arguments.subject, arguments.address], body)
    except JobfeaturesError as error:
        complain(error, "jobfeatures-exporter")
        return 1
    return 0


def _hand_over(argv: list[str], content: bytes) -> None:
    """Run a mailer in Slurm's environment. Raises JobfeaturesError if it fails."""
    output = run_command(argv, stdin=content, timeout_secs=MAILER_SECS, kept=tuple(os.environ))
    if output.status != 0:
        raise JobfeaturesError(f"{argv[0]}: exited with status {output.status}")


def job_that_ended(subject: str) -> str | None:
    """Return the id of the job whose end Slurm reports in a mail's subject; None for other subjects."""
    found = _ENDED.match(subject)
    return found[1] if found and _END.search(subject) else None


def _figures(arguments: argparse.Namespace) -> str:
    """Return the report on the job, empty if the mail is not about a job's end."""
    job = job_that_ended(arguments.subject)
    if job is None:
        return ""
    from jobfeatures_exporter.jobreport.asking import ReportQuestion, ask_all
    from jobfeatures_exporter.jobreport.prometheus import Prometheus
    from jobfeatures_exporter.jobreport.text import format_reports

    access = access_of(arguments, "--prometheus", arguments.prometheus)
    question = ReportQuestion(
        job=job, at_secs=time.time(), since_secs=30 * 86_400.0, batch_system="slurm", where=access.url
    )
    reported = ask_all(Prometheus(access).query, question)
    return format_reports(reported.reports, notes=reported.notes, is_terminal=False)[:MAX_TEXT]


def _send(arguments: argparse.Namespace, body: bytes, text: str) -> None:
    """Hand the mail to sendmail. Raises ValueError and JobfeaturesError."""
    from email.message import EmailMessage
    from email.policy import default
    from email.utils import formatdate

    if not _ADDRESS.match(arguments.address):
        raise ValueError(f"not a mail address: {shown(arguments.address)}")
    message = EmailMessage(default.clone(max_line_length=998))  # keeps the subject on one line
    message["To"] = arguments.address
    if arguments.sender:
        message["From"] = arguments.sender
    # Names of jobs may contain anything; a header must be one line.
    message["Subject"] = re.sub(r"[\x00-\x1f\x7f]+", " ", arguments.subject)[:MAX_SUBJECT]
    message["Date"] = formatdate()
    message["Auto-Submitted"] = "auto-generated"
    before = body.decode("utf-8", "replace").strip()
    message.set_content(f"{before}\n\n{text}" if before else text)
    _hand_over([arguments.sendmail, "-i", "--", arguments.address], bytes(message))
