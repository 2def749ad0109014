"""The controller's source, on stand-ins for qstat and qhost and on accounting files."""

from pathlib import Path

import pytest

from jobfeatures.analysis.schedule.live.facts import from_record, why_not
from jobfeatures.batch.gridengine import clustersource
from jobfeatures.batch.gridengine.clustersource import GridEngineCluster
from jobfeatures.batch.gridengine.queue import QUEUE_QUESTION
from jobfeatures.errors import SourceError
from jobfeatures.records.model import JobKey, JobState
from jobfeatures.system.clock import SystemClock
from tests.configured import settings_for

FIXTURES = Path(__file__).parents[3] / "fixtures/gridengine"


@pytest.fixture
def commands(tmp_path):
    """Return a folder with a qstat and a qhost that answer from captured files."""
    for name, answer in (("qstat", "qstat.xml"), ("qhost", "qhost-q.xml")):
        program = tmp_path / name
        program.write_text(
            f'#!/bin/bash\nprintf "%s\\n" "$@" >{tmp_path}/asked\n[ -e {tmp_path}/fault ] && . {tmp_path}/fault\n'
            f"cat {FIXTURES}/{answer}\n"
        )
        program.chmod(0o755)
    return tmp_path


@pytest.fixture
def make(commands, monkeypatch):
    monkeypatch.delenv("SGE_ROOT", raising=False)

    def make(accounting_file: str | None = str(FIXTURES / "accounting"), timeout_secs: float = 60):
        config = settings_for(
            "gridengine", gridengine_qstat=str(commands / "qstat"), gridengine_accounting_file=accounting_file
        )
        return GridEngineCluster(config, SystemClock(), timeout_secs)

    return make


def test_the_queue_with_the_ends_that_accounting_tells(make, commands):
    jobs = make().poll_queue().jobs
    assert (commands / "asked").read_text().splitlines() == list(QUEUE_QUESTION)
    assert jobs[JobKey("gridengine", "10")].state is JobState.RUNNING
    ended = jobs[JobKey("gridengine", "1")]
    assert (ended.state, ended.end_secs, ended.nodes) == (JobState.FAILED, 1795267823, ("vm",))
    assert jobs[JobKey("gridengine", "8")].state is JobState.COMPLETED


@pytest.mark.parametrize("accounting", [None, "/nonexistent/accounting"])
def test_without_accounting_a_job_has_just_ended(make, accounting):
    ended = make(accounting).poll_queue().jobs[JobKey("gridengine", "1")]
    assert (ended.state, ended.end_secs) == (JobState.COMPLETED, None)
    with pytest.raises(SourceError):
        make(accounting).poll_accounting(0)


def test_qstat_is_asked_in_a_zone_whose_clocks_repeat_no_hour(make, commands):
    (commands / "fault").write_text(f'echo "$TZ" >{commands}/zone\n')
    jobs = make().poll_queue().jobs
    assert (commands / "zone").read_text() == "UTC0\n"
    assert jobs[JobKey("gridengine", "10")].start_secs == 1795268001


def test_hosts_and_queues(make):
    cluster = make().poll_cluster()
    assert [node.name for node in cluster.nodes] == ["vm"]
    assert [partition.name for partition in cluster.partitions] == ["all.q"]


def test_records_since_a_time_come_in_their_order(make):
    ids = [each.key.job_id for each in make().poll_accounting(1795267950).records]
    assert ids == ["7", "9", "8", "11.4", "10"]
    assert len(make().poll_accounting(0).records) == 9  # but for the one that did not start


@pytest.mark.parametrize("block_bytes", [7, 100, 10**6])
def test_the_file_is_read_from_its_end(tmp_path, make, monkeypatch, block_bytes):
    monkeypatch.setattr(clustersource, "BLOCK_BYTES", block_bytes)
    path = tmp_path / "accounting"
    text = (FIXTURES / "accounting").read_text()
    path.write_text(text + "broken\n" + text.splitlines()[-1][:50])  # the last line is being written
    found = make(str(path)).poll_accounting(0)
    assert len(found.records) == 9
    assert [each.text for each in found.rejected] == ["broken"]
    path.write_text("")
    assert make(str(path)).poll_accounting(0).records == ()


def test_a_search_ends_at_what_is_too_old(tmp_path, make):
    path = tmp_path / "accounting"
    text = (FIXTURES / "accounting").read_text()
    path.write_text("broken\n" + text)
    assert make(str(path)).poll_accounting(1795268001 + 3700).rejected == ()


def test_what_stands_in_a_file_that_was_moved_away_is_read_too(tmp_path, make):
    path = tmp_path / "accounting"
    lines = (FIXTURES / "accounting").read_text().splitlines(keepends=True)
    path.with_suffix(".1").write_text("broken\n" + "".join(lines[:3]))
    path.with_suffix(".0").write_text("".join(lines[3:-2]))
    path.write_text("".join(lines[-2:]))
    whole = make().poll_accounting(0).records
    found = make(str(path)).poll_accounting(0)
    assert found.records == whole
    assert [each.text for each in found.rejected] == ["broken"]
    path.unlink()  # the master makes it again with the next job that ends
    assert make(str(path)).poll_accounting(0).records == whole[:-2]
    path.with_suffix(".0").unlink()
    path.with_suffix(".1").unlink()
    with pytest.raises(SourceError, match="No such file"):
        make(str(path)).poll_accounting(0)


@pytest.mark.parametrize(
    "fault",
    [
        "echo 'error: unable to send message to qmaster' >&2; exit 1",
        "exit 0",
        "echo '<?xml version=\"1.0\"?><job_info><queue_info>'; exit 0",
        "echo Willkommen; exit 0",
        "exec sleep 60",
    ],
)
def test_commands_that_do_not_answer(make, commands, fault):
    (commands / "fault").write_text(fault)
    source = make(timeout_secs=0.3 if "sleep" in fault else 60)
    for ask in (source.poll_queue, source.poll_cluster):
        with pytest.raises(SourceError):
            ask()


def test_an_answer_without_hosts_is_none(make, commands):
    (commands / "fault").write_text("echo '<?xml version=\"1.0\"?><qhost></qhost>'; exit 0")
    with pytest.raises(SourceError, match="no host"):
        make().poll_cluster()


def test_the_accounting_file_is_that_of_the_cell(commands, monkeypatch):
    common = commands / "default/common"
    common.mkdir(parents=True)
    (common / "accounting").write_text((FIXTURES / "accounting").read_text())
    monkeypatch.delenv("SGE_ROOT", raising=False)
    monkeypatch.delenv("SGE_CELL", raising=False)
    config = settings_for("gridengine", gridengine_qstat=str(commands / "qstat"))
    with pytest.raises(SourceError, match="accounting_file or SGE_ROOT"):
        GridEngineCluster(config, SystemClock(), 5).poll_accounting(0)
    monkeypatch.setenv("SGE_ROOT", str(commands))
    source = GridEngineCluster(config, SystemClock(), 5)
    assert len(source.poll_accounting(0).records) == 9
    assert source.poll_cluster().nodes
    (common / "accounting.jsonl").write_text("")
    assert GridEngineCluster(config, SystemClock(), 5).poll_accounting(0).records == ()


def test_its_records_say_what_a_live_schedule_needs(make):
    facts = [from_record(each) for each in make().poll_accounting(0).records]
    assert [each.job_id for each in facts if why_not(each) is None] == [each.job_id for each in facts]
    assert {(each.array_id, each.task) for each in facts if each.array_id} == {
        ("2", 1),
        ("2", 2),
        ("2", 3),
        ("11", 4),
    }
