"""Reports of jobs from one page of this node's daemon."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.cli import main
from jobfeatures_exporter.families.exposition import render
from jobfeatures_exporter.jobreport.fromnode import NOTE, report_page
from jobfeatures_exporter.jobreport.selecting import JobWithoutSamplesError
from jobfeatures_exporter.scrape.collectors import COLLECTORS, collect
from jobfeatures_exporter.web.ownsocket import OwnSocket, serving_own


@pytest.fixture
def page(context):
    return render(collect(context, COLLECTORS), openmetrics=False).decode()


def test_a_running_job_has_its_figures_of_now(page, context):
    [report] = report_page(page, "12", node="n1", now_secs=context.now_secs).reports
    assert (report.is_running, report.cpu_secs, report.info["user"]) == (True, 1240.75, "alice")
    assert report.allocated_cpus == context.jobs[JobKey("slurm", "12")].allocated_cpus
    assert report.elapsed_secs == context.now_secs - report.start_secs
    assert [node.place.name for node in report.nodes] == ["n1"]
    assert NOTE in report.notes


def test_an_array_is_found_by_its_own_id(page, context):
    assert [
        each.job_id for each in report_page(page, "10", node="n1", now_secs=context.now_secs).reports
    ] == ["12"]


def test_a_job_that_is_not_there_is_told(page, context):
    with pytest.raises(JobWithoutSamplesError, match="this node"):
        report_page(page, "4711", node="n1", now_secs=context.now_secs)


def test_the_command_asks_the_socket_about_the_own_job_and_gets_no_other(context, sockets, capsys):
    me = os.getuid()
    jobs = {key: replace(job, uid=me + (key.job_id != "12")) for key, job in context.jobs.items()}
    ended = {key: replace(each, job=replace(each.job, uid=me + 1)) for key, each in context.ended.items()}
    known = replace(context, jobs=jobs, ended=ended)
    path = str(sockets / "own")

    async def run(*words):
        async with serving_own(path, OwnSocket(lambda: known, lambda *_: None)):
            return await asyncio.to_thread(main, ["report", *words, "--socket", path])

    assert asyncio.run(run("12")) == 0
    assert "alice" in capsys.readouterr().out
    assert asyncio.run(run("8", "--sacct", "/bin/false")) == 1
    assert asyncio.run(run("--by", "user")) == 2
