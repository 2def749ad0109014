"""Which batch systems a node asks, and what becomes of one that was not found at the start."""

from types import SimpleNamespace

import pytest

from jobfeatures import batch
from jobfeatures.batch.slurm import site as slurm
from jobfeatures.batch.slurm import source as slurm_source
from jobfeatures.batch.source import PolledSource
from jobfeatures.errors import ConfigurationError
from jobfeatures.settings.resolve import load_config
from jobfeatures.system.rounds import Rounds
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.model.snapshot import FigureSource, JobSample, Snapshot
from jobfeatures_exporter.node.knowledge import Knowledge
from jobfeatures_exporter.node.nodeboard import NodeBoard
from jobfeatures_exporter.node.sources import NodeSources
from tests.running import until


@pytest.fixture
def make_sources(tmp_path, clock, monkeypatch):
    """Return a function that makes the sources of a machine without any batch system; they are stopped."""
    monkeypatch.delenv("SLURM_CONF", raising=False)
    monkeypatch.delenv("LSF_ENVDIR", raising=False)
    monkeypatch.setattr(slurm, "CONFIGURATIONS", (str(tmp_path / "slurm.conf"),))
    for name in batch.SYSTEMS.keys() - {"slurm"}:
        monkeypatch.setattr(batch.SYSTEMS[name], "is_here", lambda _config: False)
    made = []

    def make(*seen, **settings) -> tuple[NodeSources, NodeBoard]:
        flags = {
            "slurm.scontrol": str(tmp_path / "scontrol"),
            "features.publish": "false",
            **{name.replace("__", "."): value for name, value in settings.items()},
        }
        config = load_config(ExporterConfig, file=None, environ={}, flags=flags)
        board = NodeBoard(config, clock)
        knowledge, statuses = Knowledge(board), SimpleNamespace(refresh=lambda: None)
        if seen:
            board.samples.put(Snapshot(taken_at_secs=1.0, duration_secs=0.0, node=None, jobs=living(seen)))
        made.append(NodeSources(board, knowledge, statuses, None, Rounds("rounds")))
        made[-1].start()
        return made[-1], board

    yield make
    for each in made:
        each.stop()


def living(keys):
    return {key: JobSample(key=key, accounting=FigureSource.CGROUP, processes=1) for key in keys}


def names(board):
    return [each.name for each in board.sources]


def test_jobs_of_a_system_that_was_not_found_make_it_a_source_that_fails_and_says_why(make_sources):
    sources, board = make_sources(batch__sources="auto")
    assert names(board) == []
    sources.refresh({"slurm", "unknown-system"})
    sources.refresh({"slurm"})
    assert names(board) == ["slurm"]
    status = until(lambda: board.sources[0].last_error and board.sources[0])
    assert "scontrol: No such file or directory" in status.last_error


def test_a_source_that_jobs_make_while_settings_are_read_again_is_one_afterwards(make_sources):
    sources, board = make_sources(batch__sources="auto")
    replace = sources.prepare(board.config)
    sources.refresh({"slurm"})
    replace()
    sources.refresh({"slurm"})
    assert names(board) == ["slurm"]


def test_an_empty_group_of_a_system_that_is_not_here_is_told_once_and_is_no_source(make_sources, caplog):
    sources, board = make_sources(batch__sources="auto")
    for _ in range(3):
        sources.refresh((), {"torque", "unknown-system"})
    assert (names(board), sources.have_been_asked) == ([], True)
    # A source of the test before may still say that it failed.
    [told] = [each for each in caplog.records if each.name == "jobfeatures_exporter.node.sources"]
    assert (told.source, "is ignored" in told.message) == ("torque", True)
    sources.refresh({"slurm"}, {"torque"})
    sources.refresh((), {"slurm"})
    assert names(board) == ["slurm"]


def test_a_node_is_ready_once_each_source_has_answered_or_its_failure_is_told(make_sources, tmp_path):
    answer = tmp_path / "answer"
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\nwhile [ ! -e {answer} ]; do sleep 0.05; done\necho down >&2\nexit 1\n")
    scontrol.chmod(0o755)
    (tmp_path / "jobfeatures").mkdir()
    sources, _ = make_sources(batch__sources="slurm", node__name="n1")
    assert not sources.have_been_asked
    assert sources.problems() == ["slurm has not answered yet"]
    answer.touch()
    until(lambda: sources.have_been_asked)
    assert "down" in sources.problems()[0]


def test_sources_that_are_named_stay_these(make_sources):
    sources, board = make_sources(batch__sources="htcondor")
    sources.refresh({"slurm"})
    assert names(board) == ["htcondor"]


def test_a_configuration_of_slurm_without_its_command_is_a_failure_that_is_told(make_sources, tmp_path):
    (tmp_path / "slurm.conf").touch()
    _, board = make_sources(batch__sources="auto", node__name="n1")
    assert names(board) == ["slurm"]
    status = until(lambda: board.sources[0].last_error and board.sources[0])
    assert status.table is None
    assert "scontrol: No such file or directory" in status.last_error
    assert status.failing_since_secs is not None


def test_a_cloud_s_metadata_is_asked_where_a_site_says_so_alone(make_sources):
    assert names(make_sources(batch__sources="")[1]) == []
    _, board = make_sources(batch__sources="", machine__metadata_url="http://169.254.0.1:1/meta-data")
    assert names(board) == ["cloud"]
    assert until(lambda: board.sources[0].last_error)
    with pytest.raises(ConfigurationError, match=r"machine\.metadata_url"):
        make_sources(batch__sources="", machine__metadata_url="http://metadata.example.org")


def test_a_source_is_told_what_the_node_shows(make_sources, make_job, make_table, monkeypatch):
    asked = []

    class StandIn(PolledSource):
        name, is_local = "slurm", True

        def poll_jobs(self, seen, claimed=()):
            asked.append((set(seen), set(claimed)))
            return make_table()

    monkeypatch.setattr(slurm_source, "make_source", lambda _config, _clock, _node_name: StandIn())
    make_sources(make_job().key, batch__sources="slurm")
    assert until(lambda: asked and asked[0]) == ({make_job().key}, set())
