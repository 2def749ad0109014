"""Which jobs get a summary, how fast, whose comments stay as they are, and the reports made of summaries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobfeatures.batch.slurm.comments import CommentedJob, JobComments
from jobfeatures.errors import SourceError
from jobfeatures_exporter.cli import main
from jobfeatures_exporter.jobreport.jobstats import NONE, SHORT, encode_summary
from jobfeatures_exporter.jobreport.summaries import (
    NOTE,
    CommentsSpoiltError,
    SummaryWriter,
    ask_accounting,
    needs_summary,
)
from jobfeatures_exporter.view.use import DOUBTFUL_CPU_TIME, JobUse, NodeUse, Place
from tests.exporter.jobreport.test_report_command import StandIn

NOW = 1_800_000_000.0
JOB = CommentedJob(
    job_id="12",
    user="alice",
    account="physics",
    partition="batch",
    state="COMPLETED",
    start_secs=int(NOW) - 1000,
    end_secs=int(NOW) - 400,
    elapsed_secs=600,
    comment="",
)
REPORT = JobUse(
    batch_system="slurm", job_id="12", nodes=(NodeUse(place=Place("n1"), cpu_secs=5.0, allocated_cpus=1.0),)
)


class Accounting:
    """Accounting whose comments are a dictionary."""

    def __init__(self, *jobs, change=lambda text: text, refuses=()):
        self.jobs = {each.job_id: each for each in jobs}
        self.change, self.refuses, self.writes = change, refuses, []

    def ended_since(self, since_secs):
        return [each for each in self.jobs.values() if each.end_secs >= since_secs]

    def find(self, job):
        return [self.jobs[job]]

    def write(self, job_id, comment):
        if job_id in self.refuses:
            raise SourceError("sacctmgr: no")
        self.writes.append(job_id)
        self.jobs[job_id] = replace(self.jobs[job_id], comment=self.change(comment))


def writer(accounting, *, ask=lambda _: REPORT, pauses=None, **changes):
    settings = {"delay_secs": 180, "window_secs": 86_400, "per_second": 5, **changes}
    pause = (lambda _: None) if pauses is None else pauses.append
    return SummaryWriter(comments=accounting, ask=ask, pause=pause, now=lambda: NOW, **settings)


@pytest.mark.parametrize(
    ("comment", "needed"),
    [
        ("", True),
        ("billed to project 7", False),
        ("js1:lower", False),
        (SHORT, False),
        (NONE, False),
        ("JS1:not readable", False),
        (encode_summary(REPORT, 600), False),
        (encode_summary(REPORT, 599), False),  # clocks and rounding
        (encode_summary(REPORT, 17), True),  # of the run before a requeue
    ],
)
def test_only_an_empty_comment_or_one_of_another_run_is_written(comment, needed):
    assert needs_summary(replace(JOB, comment=comment)) is needed


def test_a_job_is_written_once_whatever_the_number_of_rounds():
    accounting = Accounting(JOB)
    assert [writer(accounting).round(), writer(accounting).round()] == [1, 0]
    assert accounting.writes == ["12"]
    assert accounting.jobs["12"].comment == encode_summary(REPORT, 600)


def test_a_job_waits_until_its_last_values_are_scraped():
    fresh = replace(JOB, end_secs=int(NOW) - 179)
    assert writer(Accounting(fresh)).round() == 0
    assert writer(Accounting(replace(fresh, end_secs=int(NOW) - 180))).round() == 1


def test_the_oldest_come_first_and_no_faster_than_allowed():
    pauses = []
    jobs = [replace(JOB, job_id=str(at), end_secs=JOB.end_secs - at) for at in range(1, 101)]
    accounting = Accounting(*jobs)
    assert writer(accounting, pauses=pauses).round() == 100
    assert accounting.writes == [str(at) for at in range(100, 0, -1)]
    assert pauses == [0.2] * 100


def test_one_that_cannot_be_written_keeps_no_other_from_it_and_is_tried_again():
    accounting = Accounting(JOB, replace(JOB, job_id="13"), refuses={"12"})
    writing = writer(accounting)
    assert writing.round() == 1
    assert accounting.writes == ["13"]
    assert writing.failure == "1 summaries could not be written; the first: job 12: sacctmgr: no"
    accounting.refuses = ()
    assert writing.round() == 1
    assert accounting.writes == ["13", "12"]
    assert writing.failure == ""


def test_where_nothing_can_be_written_a_round_ends_early():
    jobs = [replace(JOB, job_id=str(at)) for at in range(1, 101)]
    with pytest.raises(SourceError, match="no"):
        writer(Accounting(*jobs, refuses={each.job_id for each in jobs})).round()


def test_without_an_answer_of_the_server_nothing_is_written():
    def ask(_):
        raise SourceError("http://prometheus: connection refused")

    accounting = Accounting(JOB)
    with pytest.raises(SourceError, match="refused"):
        writer(accounting, ask=ask).round()
    assert accounting.writes == []


def test_a_job_that_nobody_saw_is_told_so_and_not_asked_about_again():
    accounting = Accounting(JOB)
    assert writer(accounting, ask=lambda _: None).round() == 1
    assert accounting.jobs["12"].comment == NONE
    assert writer(accounting, ask=lambda _: None).round() == 0


def test_where_comments_lose_their_case_the_first_is_taken_back_and_no_other_written():
    accounting = Accounting(JOB, replace(JOB, job_id="13"), change=str.lower)
    with pytest.raises(CommentsSpoiltError, match="lower case"):
        writer(accounting).round()
    assert accounting.writes == ["12", "12"]
    assert {each.comment for each in accounting.jobs.values()} == {""}


def test_a_round_ends_where_the_writer_is_told_to():
    jobs = [replace(JOB, job_id=str(at)) for at in range(1, 5)]
    made = writer(Accounting(*jobs))
    made.pause = lambda _: True
    assert made.round() == 1


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


def test_what_accounting_leaves_out_of_the_elapsed_time_was_suspended(kept):
    nodes = tuple(replace(each, cpu_secs=600.0) for each in REPORT.nodes)
    comment = encode_summary(replace(REPORT, nodes=nodes), 600)
    kept["99"] = [replace(JOB, comment=comment, start_secs=JOB.end_secs - 6000)]
    [report] = ask_accounting("99").reports
    assert (report.elapsed_secs, report.suspended_secs) == (6000, 5400)
    assert (report.cpus_used, report.cpu_share, report.idle_cpu_secs) == (1.0, 1.0, 0)


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
        assert "no samples of job '98'" in capsys.readouterr().err
    finally:
        server.server.shutdown()
        server.server.server_close()
