"""A pilot without Python tells its status."""

import fcntl
import http.server
import json
import os
import threading
import time

import pytest

from jobfeatures.cli import main
from jobfeatures.client import STATUS_KEYS
from jobfeatures.commands import report
from jobfeatures.commands.report import parse_values
from jobfeatures.errors import ConfigurationError
from jobfeatures.status.directory import read_status
from jobfeatures.status.jobstatus import parse_job_status

NOW = 1_800_000_000


@pytest.fixture
def job(tmp_path, monkeypatch):
    """The status directory of a job with eight processors."""
    for name in ("status", "features"):
        (tmp_path / name).mkdir()
    (tmp_path / "features/allocated_cpu").write_text("8\n")
    monkeypatch.setenv("JOBSTATUS", str(tmp_path / "status"))
    monkeypatch.setenv("JOBFEATURES", str(tmp_path / "features"))
    monkeypatch.delenv("MACHINEFEATURES", raising=False)
    return tmp_path / "status"


def content(job):
    return {path.name: path.read_text() for path in job.iterdir()}


def test_all_nine_values_are_written_as_the_draft_spells_them(job):
    before = int(time.time())
    options = [
        "--used-cpu", "5", "--last-job-start", "-60", "--first-exp-job-end", "+3600", "--last-exp-job-end", "+7200",
        "--last-max-job-end", "4000000000", "--add-uncom-time", "500", "--add-final-exp-waste", "1200",
        "--can-postpone-last-job", "false", "--priority-factor=-3",
    ]  # fmt: skip
    assert main(["report", *options]) == 0
    after = int(time.time())
    assert set(content(job)) == set(STATUS_KEYS)
    assert content(job)["can_postpone_last_job"] == "False\n"
    status = parse_job_status(read_status(str(job), owner_uid=os.geteuid()).values, allocated_cpus=8)
    assert (status.used_cpu, status.add_uncom_time, status.add_final_exp_waste) == (5, 500, 1200)
    assert (status.priority_factor, status.last_max_job_end) == (-3, 4_000_000_000)
    assert before - 60 <= status.last_job_start <= after - 60
    assert before + 3600 <= status.first_exp_job_end <= after + 3600


def test_a_return_to_a_payload_that_can_be_postponed_is_warned_of(job, capsys):
    assert main(["report", "--used-cpu", "5", "--can-postpone-last-job", "true"]) == 0
    assert main(["report", "--can-postpone-last-job", "false", "--used-cpu", "6"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["report", "--can-postpone-last-job", "true", "--used-cpu", "5"]) == 0
    said = capsys.readouterr().err
    assert "went back from False to True: other values were updated too, but should not change" in said
    assert "checked for 10 min" in said
    assert main(["report", "--can-postpone-last-job", "true"]) == 0
    assert capsys.readouterr().err == ""
    main(["report", "--can-postpone-last-job", "false"])
    main(["report", "--can-postpone-last-job", "true"])
    assert "other values should not change for a while" in capsys.readouterr().err


# "If the job decides to revert from "False" to "True", it should not update any of the other values for a
# significant amount of time": 3.8.
def test_updates_that_follow_such_a_return_are_warned_of_for_a_while(job, capsys):
    def report_later(secs, *options):
        """The last change of the value, and the directory's, are this long ago."""
        for path in (job / "can_postpone_last_job", job):
            changed_secs = path.stat().st_mtime - secs
            os.utime(path, (changed_secs, changed_secs))
        assert main(["report", *options]) == 0
        return capsys.readouterr().err

    assert main(["report", "--used-cpu", "5", "--can-postpone-last-job", "true"]) == 0
    assert report_later(100, "--used-cpu", "6") == "", "it was so from the beginning"
    assert report_later(100, "--can-postpone-last-job", "false", "--used-cpu", "5") == ""
    assert "from False to True" in report_later(100, "--can-postpone-last-job", "true")
    assert report_later(60, "--can-postpone-last-job", "true") == ""
    assert "went back to True 90 s ago: other values were updated now, but should not change" in report_later(
        30, "--used-cpu", "4"
    )
    assert "120 s ago" in report_later(30, "--used-cpu", "3")
    assert report_later(500, "--used-cpu", "2") == "", "ten minutes are over"
    assert report_later(0, "--can-postpone-last-job", "false", "--used-cpu", "1") == ""


def test_what_is_not_named_stays_and_none_takes_a_value_away(job):
    assert main(["report", "--used-cpu", "5", "--priority-factor", "2", "--add-uncom-time", "7"]) == 0
    assert main(["report", "--priority-factor", "none", "--used-cpu", "6"]) == 0
    assert content(job) == {"used_CPU": "6\n", "add_uncom_time": "7\n"}


@pytest.mark.parametrize("text", ["True", "TRUE", "true"])
def test_spellings_of_true_are_accepted_and_one_is_written(job, text):
    assert main(["report", "--used-cpu", "1", "--can-postpone-last-job", text]) == 0
    assert content(job)["can_postpone_last_job"] == "True\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--used-cpu", "9"], "more than the 8 allocated"),
        (["--used-cpu", "-1"], "used_CPU"),
        (["--used-cpu", "-x"], "--used-cpu"),
        (["--used-cpu", "2.5"], "must be an integer"),
        (["--used-cpu", "+5x"], "must be an integer"),
        (["--used-cpu", "5", "--can-postpone-last-job", "yes"], "must be true or false"),
        (["--used-cpu", "5", "--last-job-start", "1800000000000"], "last_job_start"),
        (["--used-cpu", "5", "--first-exp-job-end", "+9", "--last-exp-job-end", "+8"], "is after"),
        (["--add-uncom-time", "5"], "used_CPU must be given"),
        (["--used-cpu", "none"], "used_CPU must be given"),
        ([], "--used-cpu"),
    ],
)
def test_a_wrong_report_is_refused_in_words_and_nothing_is_written(job, capsys, options, said):
    try:
        status = main(["report", *options])
    except SystemExit as ended:  # argparse
        status = ended.code
    assert status == 2
    assert said in capsys.readouterr().err
    assert content(job) == {}


def test_the_draft_s_name_of_the_allocation_counts_too(job, tmp_path):
    os.rename(tmp_path / "features/allocated_cpu", tmp_path / "features/allocated_CPU")
    assert main(["report", "--used-cpu", "9"]) == 2
    (tmp_path / "features/allocated_CPU").unlink()
    assert main(["report", "--used-cpu", "9"]) == 0


@pytest.mark.parametrize("value", ["", "relative", "/does/not/exist"])
def test_a_job_without_a_status_directory_is_told(job, monkeypatch, capsys, value):
    monkeypatch.setenv("JOBSTATUS", value)
    assert main(["report", "--used-cpu", "1"]) == (1 if value.startswith("/") else 2)
    assert "Traceback" not in capsys.readouterr().err


def test_a_held_lock_is_an_end_and_not_a_wait(job, monkeypatch, capsys):
    monkeypatch.setattr(report, "TIMEOUT_SECS", 0.05)
    (job / "used_CPU").write_text("4\n")
    with open(job / "used_CPU", "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert main(["report", "--used-cpu", "1"]) == 1
    assert "locked by another process" in capsys.readouterr().err
    assert content(job) == {"used_CPU": "4\n"}


def test_options_become_values():
    given = {
        "used_CPU": "3",
        "last_job_start": "now",
        "last_exp_job_end": "+5",
        "can_postpone_last_job": None,
    }
    assert parse_values({**given, "log_level": "info"}, NOW) == {
        "used_CPU": 3,
        "last_job_start": NOW,
        "last_exp_job_end": NOW + 5,
    }
    with pytest.raises(ConfigurationError):
        parse_values({"used_CPU": "now"}, NOW)


@pytest.fixture
def server():
    """A server that keeps what it was sent, and answers as it is told."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.requests.append((self.path, json.loads(body)))
            self.send_response(made.status)
            self.send_header("Content-Length", str(len(made.answer)))
            self.end_headers()
            self.wfile.write(made.answer)

        def do_GET(self):
            self.send_response(200 if self.path.endswith("/token/can_postpone_last_job") else 404)
            self.send_header("Content-Length", str(len(made.can_postpone)))
            self.end_headers()
            self.wfile.write(made.can_postpone)

        def log_message(self, *_):
            pass

    made = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    made.requests, made.status, made.answer, made.can_postpone = [], 204, b"", b""
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def test_a_status_on_a_server_is_sent_there(job, server, monkeypatch):
    monkeypatch.setenv("JOBSTATUS", f"http://127.0.0.1:{server.server_port}/jobstatus/token")
    assert (
        main(["report", "--used-cpu", "5", "--can-postpone-last-job", "true", "--priority-factor", "none"])
        == 0
    )
    assert server.requests == [
        ("/jobstatus/token", {"used_CPU": 5, "can_postpone_last_job": True, "priority_factor": None})
    ]


@pytest.mark.parametrize(("before", "warns"), [(b"False\n", True), (b"True\n", False), (b"", False)])
def test_a_return_is_warned_of_on_a_server_too(job, server, monkeypatch, capsys, before, warns):
    server.can_postpone = before
    monkeypatch.setenv("JOBSTATUS", f"http://127.0.0.1:{server.server_port}/jobstatus/token")
    assert main(["report", "--used-cpu", "5", "--can-postpone-last-job", "true"]) == 0
    assert ("went back from False to True" in capsys.readouterr().err) is warns


@pytest.mark.parametrize(("status", "ended"), [(422, 2), (404, 1), (503, 1), (500, 1)])
def test_a_server_s_refusal_is_told(job, server, monkeypatch, capsys, status, ended):
    server.status, server.answer = status, b"used_CPU: more than the 4 allocated\x1b\n"
    monkeypatch.setenv("JOBSTATUS", f"http://127.0.0.1:{server.server_port}/jobstatus/token")
    assert main(["report", "--used-cpu", "5"]) == ended
    said = capsys.readouterr().err
    assert ("more than the 4 allocated" if status == 422 else str(status)) in said
    assert "\x1b" not in said


def test_a_server_that_is_not_there_is_told(job, monkeypatch, capsys):
    monkeypatch.setenv("JOBSTATUS", "http://127.0.0.1:1/jobstatus/token")
    assert main(["report", "--used-cpu", "5"]) == 1
    assert "nothing was reported" in capsys.readouterr().err
