"""The page of a job as a daemon serves it: what is looked up for it, and what must not be on it."""

import os

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.ended import EndedJob
from jobfeatures_exporter.model.snapshot import FigureSource, JobSample, ProcessSample, Snapshot
from jobfeatures_exporter.node.nodeboard import NodeBoard
from jobfeatures_exporter.node.nodepages import NodePages, read_features
from jobfeatures_exporter.privacy.hiding import Privacy
from jobfeatures_exporter.scrape.pagetext import PageMaker
from jobfeatures_exporter.state.history import History
from jobfeatures_exporter.web.asked import AskedPage
from tests.configured import configured
from tests.running import HandClock

KEY = JobKey("slurm", "12")
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def pages_of(tmp_path, make_job):
    """Return a function that makes the pages of a node with one job, of process 4242."""
    folder = tmp_path / "proc" / "4242"
    folder.mkdir(parents=True)
    (folder / "cmdline").write_bytes(f"python3\0--password\0hunter2\0{HOSTILE}\0".encode())
    (folder / "stat").write_bytes(b"4242 (python3) S 1 " + b"0 " * 17 + b"777 0 0\n")

    def make(privacy=None, history=None, **settings):
        privacy = privacy or Privacy()
        process = ProcessSample(4242, 1, 1, 1, 777, f"py{HOSTILE}"[:15], "R", 100, 0, 0, 0, 1, 2**20, 2**21)
        look = Snapshot(
            taken_at_secs=1000.0,
            duration_secs=0.0,
            node=None,
            jobs={KEY: JobSample(key=KEY, accounting=FigureSource.PROCESSES, processes=1)},
            processes={4242: process},
            keys={4242: KEY},
        )
        job = make_job("12", user="geheimrat", name=HOSTILE, account="hidden")
        config = configured(
            path_procfs=str(tmp_path / "proc"),
            features_root=str(tmp_path / "features"),
            node_name="n1",
            batch_sources=(),
            scrape_deadline_secs=0.0,
            **settings,
        )
        board = NodeBoard(config, HandClock(1001.0))
        board.samples.put(look)
        board.jobs = {KEY: job}
        return NodePages(board, privacy, PageMaker((), (), 0), history or History())

    return make


def test_a_job_is_found_by_its_id_and_its_system(pages_of):
    pages = pages_of()
    assert "<h1>Job 12</h1>" in pages.html(AskedPage(job_id="12"))
    assert pages.html(AskedPage(job_id="12", system="slurm")) is not None
    assert pages.html(AskedPage(job_id="12", system="oar")) is None
    assert pages.html(AskedPage(job_id="13")) is None


@pytest.mark.parametrize("privacy", [None, Privacy("withhold", b"0123456789abcdef")])
def test_a_job_that_has_gone_has_its_page_for_as_long_as_it_is_remembered(pages_of, make_job, privacy):
    pages = pages_of(privacy, history := History(), web_grafana_url="https://g.example/d?var-job={job}")
    gone = JobKey("slurm", "13")
    sample = JobSample(key=gone, accounting=FigureSource.PROCESSES)
    ended = EndedJob(sample, make_job("13", user="geheimrat", name=HOSTILE), 900.0)
    look = Snapshot(taken_at_secs=990.0, read_at_secs=990.0, duration_secs=0.0, node=None, jobs={})
    history.update(look, {}, {gone: ended})
    text = pages.html(AskedPage(job_id="13"))
    assert "<h1>Job 13</h1>" in text
    assert "1\u202fmin 41\u202fs ago" in text
    assert ("geheimrat" in text) is (privacy is None)
    assert "<img" not in text
    assert 'href="https://g.example/d?var-job=13"' in text
    assert pages.html(AskedPage(job_id="13", system="oar")) is None


def test_arguments_are_not_shown_unless_a_setting_says_so(pages_of):
    assert "hunter2" not in pages_of().html(AskedPage(job_id="12"))
    shown = pages_of(web_job_arguments=True).html(AskedPage(job_id="12"))
    assert "python3 --password hunter2" in shown
    assert "<img" not in shown


def test_arguments_of_a_process_that_is_another_by_now_are_not_shown(pages_of, tmp_path):
    (tmp_path / "proc" / "4242" / "stat").write_bytes(b"4242 (python3) S 1 " + b"0 " * 17 + b"778 0 0\n")
    assert "hunter2" not in pages_of(web_job_arguments=True).html(AskedPage(job_id="12"))


@pytest.mark.parametrize("mode", ["withhold", "hash"])
def test_where_names_are_hidden_neither_users_nor_commands_are_on_the_page(pages_of, mode):
    text = pages_of(Privacy(mode, b"0123456789abcdef"), web_job_arguments=True).html(AskedPage(job_id="12"))
    assert "4242" in text
    assert not [each for each in ("geheimrat", "hidden", "img", "hunter2") if each in text]


def test_hostile_names_are_text(pages_of):
    text = pages_of().html(AskedPage(job_id="12"))
    assert "<img" not in text
    assert "&lt;img src=x onerror=" in text


def test_a_link_to_grafana_is_there_where_a_site_states_one(pages_of):
    assert "Grafana" not in pages_of().html(AskedPage(job_id="12"))
    text = pages_of(web_grafana_url="https://g.example/d?var-job={job}&n={node}").html(AskedPage(job_id="12"))
    assert 'href="https://g.example/d?var-job=12&amp;n=n1"' in text


def test_features_are_what_the_job_reads_and_no_link_is_followed(tmp_path):
    folder = tmp_path / "jobfeatures" / KEY.directory_name
    folder.mkdir(parents=True)
    (folder / "allocated_cpu").write_text("4\n")
    (tmp_path / "secret").write_text("hunter2")
    os.symlink(tmp_path / "secret", folder / "wall_limit_secs")
    assert read_features(str(tmp_path), KEY) == {"JOBFEATURES": [("allocated_cpu", "4")]}
    assert read_features(str(tmp_path / "none"), KEY) == {}
