"""Who looks once, or asks a daemon, sees jobs whose groups need their batch system's word, too. Constructed."""

import json
import logging
from types import SimpleNamespace

import pytest

from jobfeatures.errors import SourceError
from jobfeatures.records.metrics import NODE_READ_AT
from jobfeatures.records.model import JobKey, JobTable
from jobfeatures.settings.access import Access
from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.cli import main
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.node import sources
from jobfeatures_exporter.startup import doctor
from jobfeatures_exporter.startup.findings import Mark
from jobfeatures_exporter.top import pages
from tests.configured import configured
from tests.exporter.sampling.places.staging import SLURMD, running

GROUP = "/site.slice/site-fast.slice/n1_slurmstepd.scope"


@pytest.fixture(autouse=True)
def _logging_as_before():
    """A command sets up logging for its own process; here that is ours."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def flags(host):
    """Return the flags of a node with a job at a place that is proven and not named."""
    host.process(500, "slurmd", SLURMD)
    host.process(501, "slurmstepd", f"0::{GROUP}/system\n")
    host.job(f"{GROUP}/job_7", 700)
    names = ("memory", "cpu", "io")
    (host.node.proc / "pressure").mkdir()
    for each in names:
        (host.node.proc / f"pressure/{each}").touch()
    return {
        "path.procfs": str(host.node.proc),
        "path.cgroup": str(host.node.cgroup),
        "batch.sources": "slurm",
        "node.name": "n1",
    }


@pytest.fixture
def slurm(monkeypatch):
    """Return what lets Slurm say that these jobs run here; and what it was asked."""
    asked = []

    def says(*ids, failure=None):
        def poll_jobs(seen, claimed):
            asked.append((set(seen), {each.job_id for each in claimed}))
            if failure is not None:
                raise failure
            return JobTable(source="slurm", jobs=running("slurm", *ids), taken_at_secs=1.0, complete=True)

        monkeypatch.setattr(sources, "make_source", lambda *_: SimpleNamespace(poll_jobs=poll_jobs))
        return asked

    return says


def sampled(capsys, flags):
    """Return the jobs with the processes that one document has."""
    words = [f"--{name}={value}" for name, value in flags.items()]
    main(
        [
            "sonar",
            "sample",
            "--cluster",
            "c",
            "--gpu.drivers",
            "none",
            "--no-sonar.exclude-system-jobs",
            *words,
        ]
    )
    jobs = json.loads(capsys.readouterr().out)["data"]["attributes"]["jobs"]
    return {each["job"]: [process.get("pid") for process in each["processes"]] for each in jobs}


def test_a_single_document_asks_the_batch_system_about_jobs_that_need_its_word(capsys, flags, slurm):
    asked = slurm("7")
    assert sampled(capsys, flags)[7] == [700]
    assert asked == [(set(), {"7"})]


def test_without_its_word_they_are_no_jobs(capsys, flags, slurm, caplog):
    for more in ({}, {"failure": SourceError("slurmctld does not answer")}):
        slurm("8", **more)
        assert 7 not in sampled(capsys, flags)


def test_where_places_are_named_no_batch_system_is_asked(capsys, flags, slurm):
    asked = slurm("7")
    assert sampled(capsys, {**flags, "batch.cgroup-parents": "/site.slice"})[7] == [700]
    assert asked == []


PAGE = (
    NODE_READ_AT.sample_name
    + """ 1
batch_job_info{{batch_system="slurm",job_id="7",accounting="{accounting}"}} 1
"""
)


@pytest.mark.parametrize(("accounting", "seen"), [("cgroup", [700]), ("processes", [])])
def test_the_processes_that_top_lists_are_of_the_jobs_that_the_daemon_has_by_their_groups(
    flags, monkeypatch, accounting, seen
):
    monkeypatch.setattr(pages, "is_here", lambda *_, **_more: True)
    made = pages.DaemonPages(
        Access("http://127.0.0.1:9819/metrics"),
        load_config(
            ExporterConfig, flags={name.replace("-", "_"): each for name, each in flags.items()}, file=None
        ),
    )
    monkeypatch.setattr(made, "_text", lambda: PAGE.format(accounting=accounting))
    made.read()
    found = made.processes()
    assert [pid for pid, key in found.keys.items() if key == JobKey("slurm", "7")] == seen
    made.close()


@pytest.mark.parametrize("daemon", ["sbatchd", "cron"])
def test_doctor_says_what_to_set_for_lsf_below_a_parent_that_neither_holds_its_daemon_nor_is_named(
    host, daemon, monkeypatch
):
    """By a note of what looks like jobs' groups, and once LSF says that the job runs here, as wrong."""
    host.process(500, daemon, "0::/system.slice/lsf.service\n")
    host.job("/site/lsf/cluster1/job.12.3456.1700000000", 700)
    (host.node.proc / "700/stat").write_text(
        (host.node.proc / "700/stat").read_text().replace(") S 1 ", ") S 500 ")
    )
    jobs = running("lsf", "12", start_secs=1)
    table = JobTable(source="lsf", jobs=jobs, taken_at_secs=1.0, complete=True)
    monkeypatch.setattr(doctor, "make_source", lambda *_: SimpleNamespace(poll_jobs=lambda *_: table))
    config = configured(
        path_procfs=str(host.node.proc),
        path_cgroup=str(host.node.cgroup),
        batch_sources=("lsf",),
        features_publish=False,
        gpu_drivers=(),
        web_listen_address="127.0.0.1:1",
        node_name="n1",
    )
    found = [each for each in doctor.examine(config) if each.what in {"control groups", "lsf jobs"}]
    said = {(each.what, each.mark): f"{each.words}: {each.remedy}" for each in found}
    why = (
        "/site holds no daemon of the batch system"
        if daemon == "sbatchd"
        else "no daemon of lsf runs on this host"
    )
    note = said["control groups", Mark.NOTE]
    assert (
        f"those below /site/lsf/cluster1 look like those of jobs, but are ignored: {why}: if they are" in note
    )
    assert 'set batch.cgroup_parents = ["/site/lsf/cluster1"]' in note
    wrong = said["lsf jobs", Mark.WRONG]
    assert "job 12 of 1 running here: no control group is found" in wrong
    if daemon == "sbatchd":
        assert f'set batch.cgroup_parents = ["/site/lsf/cluster1"] (below /site/lsf/cluster1: {why})' in wrong
