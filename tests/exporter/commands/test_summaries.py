"""The command that writes summaries: from what a server knows to what sacctmgr is told."""

from __future__ import annotations

import json
import signal
import sys
import time

import pytest

from jobfeatures_exporter.cli import main
from jobfeatures_exporter.jobreport.jobstats import NONE, decode_summary
from jobfeatures_exporter.jobreport.summaries import SummaryWriter
from tests.exporter.jobreport.server import NOW
from tests.exporter.jobreport.test_report import END, START
from tests.exporter.jobreport.test_report_command import StandIn

SACCT = """#!{python}
import json, sys
delimiter = next(each[12:] for each in sys.argv if each.startswith("--delimiter="))
for job in json.load(open({jobs!r})):
    print(delimiter.join(map(str, job)))
"""
SACCTMGR = """#!{python}
import json, sys
job_id, comment = sys.argv[5][6:], sys.argv[7][13:]
if job_id == "66":
    sys.exit("no such job")
jobs = json.load(open({jobs!r}))
for job in jobs:
    if str(job[0]) == job_id:
        job[8] = comment
json.dump(jobs, open({jobs!r}, "w"))
"""

pytestmark = pytest.mark.program  # sacct and sacctmgr are programs


@pytest.fixture
def server():
    made = StandIn()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes summaries of some jobs, and returns their comments by id."""
    monkeypatch.setattr(time, "time", lambda: NOW)
    path = tmp_path / "jobs.json"
    for name, text in (("sacct", SACCT), ("sacctmgr", SACCTMGR)):
        (tmp_path / name).write_text(text.format(python=sys.executable, jobs=str(path)))
        (tmp_path / name).chmod(0o755)

    def run(url, *jobs, status=0):
        path.write_text(json.dumps(jobs))
        programs = [f"--{name}={tmp_path / name}" for name in ("sacct", "sacctmgr")]
        assert main(["summaries", "--prometheus", url, "--per-second", "1000", *programs]) == status
        return {str(job[0]): job[8] for job in json.loads(path.read_text())}

    return run


def job(job_id, comment="", end=END):
    return (
        job_id,
        "alice",
        "physics",
        "batch",
        "COMPLETED",
        int(START),
        int(end),
        int(end - START),
        comment,
        2,
    )


def test_what_the_server_knows_of_a_job_is_written(server, write):
    summary = decode_summary(write(server.url, job(12))["12"])
    assert summary.elapsed_secs == END - START
    assert [node.cpu_secs > 0 for node in summary.nodes] == [True, True]
    assert {node.allocated_cpus for node in summary.nodes} == {8}


def test_unknown_jobs_are_marked_and_others_left(server, write):
    found = write(server.url, job(99), job(98, "billed"), job(97, end=NOW - 60))
    assert found == {"99": NONE, "98": "billed", "97": ""}


def test_one_that_cannot_be_written_is_named_and_the_others_are_written(server, write, capsys):
    assert write(server.url, job(66), job(99), status=1) == {"66": "", "99": NONE}
    out, err = capsys.readouterr()
    assert out == "1 summaries written\n"
    assert "1 summaries could not be written; the first: job 66" in err


def test_without_a_server_nothing_is_written(write):
    assert write("http://127.0.0.1:1", job(12), status=1) == {"12": ""}


def test_a_signal_ends_the_rounds(server, monkeypatch, handlers):
    rounds = []
    monkeypatch.setattr(
        SummaryWriter, "round", lambda _self: rounds.append(1) or signal.raise_signal(signal.SIGTERM)
    )
    assert main(["summaries", "--prometheus", server.url, "--interval", "1h"]) == 0
    assert len(rounds) == 1


@pytest.mark.parametrize("rate", ["0", "-1", "many", "nan", "inf"])
def test_a_rate_that_is_none_is_refused(rate, capsys):
    assert main(["summaries", "--prometheus", "http://127.0.0.1:1", "--per-second", rate]) == 2
    assert "--per-second" in capsys.readouterr().err
