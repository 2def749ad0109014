"""Slurm's MailProg: figures where there are any, and a mail whatever goes wrong."""

from __future__ import annotations

import email
import email.policy
import io
import json
import socket
import sys

import pytest

from jobfeatures_exporter.cli import main
from jobfeatures_exporter.commands.mail import job_that_ended
from tests.exporter.jobreport.test_report_command import StandIn

ENDED = "Slurm Job_id=12 Name=fit.sh Ended, Run time 00:01:40, COMPLETED, ExitCode 0"
TAKES = """#!{python}
import json, sys
open({path!r}, "a").write(json.dumps([sys.argv[1:], sys.stdin.buffer.read().decode()]) + "\\n")
sys.exit({status})
"""

pytestmark = pytest.mark.program  # the mailers are programs


@pytest.fixture
def server():
    made = StandIn()
    yield made
    made.server.shutdown()
    made.server.server_close()


class Mailers:
    """The site's mailer and sendmail, each of which writes down what it gets."""

    def __init__(self, folder):
        self.folder = folder
        self.make("mail")
        self.make("sendmail")

    def make(self, name, status=0):
        path = self.folder / name
        path.write_text(
            TAKES.format(python=sys.executable, path=str(self.folder / f"{name}.got"), status=status)
        )
        path.chmod(0o755)

    def got(self, name):
        path = self.folder / f"{name}.got"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def mailers(tmp_path):
    return Mailers(tmp_path)


@pytest.fixture
def send(mailers, monkeypatch):
    def run(url, subject=ENDED, *options, body=b"", address="alice"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
        commands = [f"--{name}={mailers.folder / name}" for name in ("mail", "sendmail")]
        commands[0] = commands[0].replace("--mail=", "--mailer=")
        return main(["mail", "--prometheus", url, *commands, *options, "-s", subject, address])

    return run


@pytest.mark.parametrize(
    ("subject", "job"),
    [
        (ENDED, "12"),
        ("Slurm Job_id=12 Name=x Failed, Run time 1-00:01:40, OUT_OF_MEMORY", "12"),
        ("Slurm Array Task Job_id=9_1 (10) Name=x Ended, Run time 00:00:02, COMPLETED, ExitCode 0", "9_1"),
        ("Slurm Job_id=12 Name=x Began, Queued time 00:00:01", None),
        ("Slurm Job_id=12 Name=x Reached 80% of time limit, Run time 00:00:01", None),
        ("x Slurm Job_id=12 Name=x Ended, Run time 00:01:40, COMPLETED, ExitCode 0", None),
        ("Slurm Job_id=1 Name=Job_id=2 Ended, Run time 00:01:40, COMPLETED, ExitCode 0", "1"),
        ("", None),
    ],
)
def test_the_job_is_the_one_before_the_name_that_users_choose(subject, job):
    assert job_that_ended(subject) == job


def test_the_mail_on_an_end_has_the_report(server, send, mailers):
    assert send(server.url, ENDED, "--from", "slurm@example.org", body=b"from Slurm\n") == 0
    [[argv, text]] = mailers.got("sendmail")
    assert argv == ["-i", "--", "alice"]
    message = email.message_from_string(text, policy=email.policy.default)
    assert (message["To"], message["From"], message["Subject"]) == ("alice", "slurm@example.org", ENDED)
    assert message["Auto-Submitted"] == "auto-generated"
    content = message.get_content()
    assert content.startswith("from Slurm\n\nJob")
    assert "Hints" in content
    assert mailers.got("mail") == []


def test_other_mails_are_the_sites_own(server, send, mailers):
    subject = "Slurm Job_id=12 Name=x Began, Queued time 00:00:01"
    assert send(server.url, subject, body=b"as it was") == 0
    assert mailers.got("mail") == [[["-s", subject, "alice"], "as it was"]]
    assert server.requests == []


@pytest.mark.parametrize("trouble", ["no server", "no job", "no sendmail", "bad sendmail", "wrong address"])
def test_whatever_goes_wrong_the_bare_mail_is_sent(trouble, server, send, mailers, capfd):
    subject = ENDED.replace("=12", "=99") if trouble == "no job" else ENDED
    if trouble == "no sendmail":
        (mailers.folder / "sendmail").unlink()
    elif trouble == "bad sendmail":
        mailers.make("sendmail", status=75)
    address = "a\nBcc: all" if trouble == "wrong address" else "alice"
    url = "http://127.0.0.1:1" if trouble == "no server" else server.url
    assert send(url, subject, body=b"bare", address=address) == 0
    assert mailers.got("mail") == [[["-s", subject, address], "bare"]]
    assert "the mail is sent without figures" in capfd.readouterr().err


def test_a_name_with_newlines_makes_no_header(server, send, mailers):
    subject = "Slurm Job_id=12 Name=x\nBcc: all@example.org\r\n\r\nhello Ended, Run time 00:01:40, FAILED"
    assert send(server.url, subject) == 0
    [[_, text]] = mailers.got("sendmail")
    message = email.message_from_string(text, policy=email.policy.default)
    assert message["Bcc"] is None
    assert "Bcc: all@example.org" in message["Subject"]


def test_where_the_sites_mailer_fails_that_is_told(server, send, mailers, capfd):
    mailers.make("mail", status=1)
    assert send(server.url, "another subject") == 1
    (mailers.folder / "mail").unlink()
    assert send(server.url, "another subject") == 1
    assert "No such file" in capfd.readouterr().err


def test_the_time_for_an_answer_counts(send, mailers, capsys):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert send(f"http://127.0.0.1:{silent.getsockname()[1]}", ENDED, "--prometheus.timeout", "0.1s") == 0
    assert "no answer after 0.1 s" in capsys.readouterr().err
    assert len(mailers.got("mail")) == 1
