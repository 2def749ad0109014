"""The pool's source, with stand-ins for commands."""

from __future__ import annotations

import json

import pytest

from jobfeatures.analysis.schedule.live.facts import from_record, why_not
from jobfeatures.batch.htcondor.clustersource import make_cluster_source
from jobfeatures.config import Config
from jobfeatures.errors import CommandError, SourceError
from jobfeatures.records.model import JobState
from tests.jobfeatures.batch.htcondor.standins import FIXTURES, show


@pytest.fixture
def pool(clock, command):
    def make(queue=None, status=None, history=None, timeout_secs=60.0, **more):
        command("condor_q", queue or show("queue.json"))
        command("condor_history", history or show("history.json"))
        condor_status = command("condor_status", status or show("status.json"))
        config = Config(htcondor_condor_status=condor_status, **more)
        return make_cluster_source(config, clock, timeout_secs)

    return make


def test_only_attributes_that_are_read_are_requested(pool, tmp_path):
    made = pool(htcondor_wall_limit_attributes="MaxRuntime, Walltime")
    assert len(made.poll_queue().jobs) == 5
    assert len(made.poll_cluster().nodes) == 4
    asked = (tmp_path / "calls").read_text()
    assert "['-global', '-allusers', '-json', '-attributes', 'ClusterId,ProcId," in asked
    assert "MaxRuntime,Walltime'" in asked
    assert "['-json', '-attributes', 'Name,Machine," in asked


def test_accounting_joins_queue_and_history(pool, tmp_path):
    history = (FIXTURES / "history.json").read_text()
    named = history.replace(
        '"ClusterId": 4711,', '"ClusterId": 4711, "GlobalJobId": "submit.example.org#4711.3#1",'
    )
    accounting = pool(history=f"print({named!r})").poll_accounting(1000.9)
    records = {record.key.job_id: record for record in accounting.records}
    there = ("4711.3", "4712.0", "4713.0", "4714.0", "4715.0")
    assert set(records) == {*(f"{each}@submit.example.org" for each in there), "4716.0", "4717.0"}
    records = {name.partition("@")[0]: record for name, record in records.items()}
    assert (records["4711.3"].state, records["4711.3"].end_secs) == (
        JobState.COMPLETED,
        1795249600,
    )  # by its history
    assert (records["4712.0"].state, records["4715.0"].state) == (
        JobState.PENDING,
        JobState.RUNNING,
    )
    assert "'-completedsince', '999', '-limit'" in (tmp_path / "calls").read_text()
    ended = [each for each in map(from_record, records.values()) if each.end_secs is not None]
    assert {each.job_id.partition("@")[0]: why_not(each) for each in ended} == {
        **dict.fromkeys(("4711.3", "4714.0", "4717.0")),
        "4716.0": "never_started",
    }


@pytest.mark.parametrize(
    ("queued", "ended", "expected"),
    [
        ("ab", "", {"1.0@a": "a", "1.0@b": "b"}),
        ("b", "a", {"1.0@b": "b", "1.0@a": "a, ended"}),  # the history is the local schedd's
        ("ab", "a", {"1.0@a": "a, ended", "1.0@b": "b"}),
        ("a", "a", {"1.0@a": "a, ended"}),
    ],
)
def test_jobs_of_two_schedds_with_one_number_have_records_of_their_own(pool, queued, ended, expected):
    def ads(schedds, status, suffix=""):
        return [
            {"ClusterId": 1, "ProcId": 0, "JobStatus": status, "Owner": f"{schedd}{suffix}"}
            | {"GlobalJobId": f"{schedd}#1.0#5"}
            for schedd in schedds
        ]

    queue, history = (f"print({json.dumps(each)!r})" for each in (ads(queued, 1), ads(ended, 4, ", ended")))
    records = pool(queue=queue, history=history).poll_accounting(0.0).records
    assert {each.job_id: each.user for each in records} == expected
    assert len(records) == len(expected)


@pytest.mark.parametrize(
    "body",
    [
        "sys.exit('no such collector')", "print('[{'); sys.exit(0)", "print('Error: Collector: Fehler')",
        "import time; time.sleep(60)", "while True: print('x' * 10**6)",
    ],
)  # fmt: skip
def test_a_command_that_fails_or_hangs_or_prints_half_is_an_error(pool, body, monkeypatch):
    monkeypatch.setattr("jobfeatures.batch.programs.MAX_ANSWER_BYTES", 2**21)
    made = pool(body, body, body, timeout_secs=0.3 if "sleep" in body else 60.0)
    for ask in (made.poll_queue, made.poll_cluster, lambda: made.poll_accounting(0.0)):
        with pytest.raises(SourceError):
            ask()


def test_a_missing_command_is_an_error(clock):
    source = make_cluster_source(Config(htcondor_condor_status="/nonexistent/condor_status"), clock, 60.0)
    with pytest.raises(CommandError) as caught:
        source.poll_queue()
    assert caught.value.kind == "missing"


def test_a_banner_in_front_does_no_harm(pool):
    banner = "print('WARNING: the {collector} is old')\n"
    assert len(pool(queue=banner + show("queue.json")).poll_queue().jobs) == 5


def test_an_empty_pool_is_no_answer(pool):
    with pytest.raises(SourceError, match="no machines"):
        pool(status="print('[]')").poll_cluster()
