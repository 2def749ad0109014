"""Reports of jobs that Prometheus has forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobfeatures.batch.slurm.comments import JobComments
from jobfeatures.errors import SourceError
from jobfeatures_exporter.cli import main
from jobfeatures_exporter.jobreport.accounting import NOTE, ask_accounting
from jobfeatures_exporter.jobreport.figures import DOUBTFUL_CPU_TIME
from jobfeatures_exporter.jobreport.jobstats import NONE, encode_summary
from tests.exporter.jobreport.test_report_command import StandIn
from tests.exporter.jobreport.test_summaries import JOB, REPORT

KEPT = replace(JOB, comment=encode_summary(REPORT, 600))


@pytest.fixture
def kept(monkeypatch):
    """Return the jobs that accounting has, by what they are asked for."""
    jobs = {"99": [KEPT]}

    def find(_, job):
        if job not in jobs:
            raise SourceError("sacct: no answer")
        return jobs[job]

    monkeypatch.setattr(JobComments, "find", find)
    return jobs


def test_a_summary_makes_a_report_that_says_where_it_is_from(kept):
    [report] = ask_accounting("99").reports
    assert (report.state, report.elapsed_secs, report.cpu_secs, report.info["user"]) == (
        "COMPLETED",
        600,
        5.0,
        "alice",
    )
    assert report.notes == (NOTE,)


def test_a_summary_with_more_cpu_time_than_its_cpus_have_says_so(kept):
    nodes = tuple(replace(each, allocated_cpus=2, cpu_secs=2 * 600.0 * 46) for each in REPORT.nodes)
    kept["99"] = [replace(JOB, comment=encode_summary(replace(REPORT, nodes=nodes), 600))]
    [report] = ask_accounting("99").reports
    assert report.notes == (NOTE, DOUBTFUL_CPU_TIME)


def test_without_figures_there_is_no_report(kept):
    kept["99"] = [replace(JOB, comment=text) for text in ("", NONE, "billed to project 7")]
    assert ask_accounting("99") is None
    assert ask_accounting("98") is None


@pytest.mark.parametrize("job", ["", "-a", "12;id", "12[3]", "x"])
def test_what_is_no_id_of_slurm_is_not_asked(kept, job):
    kept[job] = [KEPT]
    assert ask_accounting(job) is None


def test_report_shows_what_accounting_kept_where_the_server_knows_nothing(kept, capsys):
    server = StandIn()
    try:
        assert main(["report", "99", "--prometheus", server.url]) == 0
        assert NOTE in capsys.readouterr().out
        assert main(["report", "98", "--prometheus", server.url]) == 1
        assert "no job '98'" in capsys.readouterr().err
    finally:
        server.server.shutdown()
        server.server.server_close()
