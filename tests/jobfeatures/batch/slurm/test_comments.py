"""Comments of ended jobs, as ``sacct`` prints and ``sacctmgr`` sets them."""

from __future__ import annotations

import pytest

from jobfeatures.batch.slurm import comments
from jobfeatures.batch.slurm.comments import FIELDS, JobComments
from jobfeatures.errors import SourceError

JOB = {
    "JobIDRaw": "13",
    "User": "alice",
    "Account": "physics",
    "Partition": "batch",
    "State": "CANCELLED by 6001",
    "Start": "1795395775",
    "End": "1795395785",
    "ElapsedRaw": "10",
    "AdminComment": "",
    "NNodes": "1",
}


@pytest.fixture
def programs(monkeypatch):
    """Return the logged calls; sacct answers with `jobs`."""

    class Programs:
        jobs, calls, end = [JOB], [], "\n"

        def __call__(self, argv, **bounds):
            self.calls.append(argv)
            separator = next((each[12:] for each in argv if each.startswith("--delimiter=")), "|")
            lines = [separator.join(job[field] for field in FIELDS) for job in self.jobs]
            return "".join(line + self.end for line in lines)

    made = Programs()
    made.calls = []
    monkeypatch.setattr(comments, "ask_command", made)
    return made


def test_a_job_is_read_with_its_comment(programs):
    programs.jobs = [{**JOB, "AdminComment": "a|b\nsecond line"}]
    [found] = JobComments().find("12_3")
    assert (found.job_id, found.state, found.elapsed_secs) == ("13", "CANCELLED", 10)
    assert found.comment == "a|b\nsecond line"


def test_jobs_that_did_not_begin_or_end_are_left_out(programs):
    programs.jobs = [{**JOB, "Start": "Unknown"}, {**JOB, "End": "Unknown"}, {**JOB, "JobIDRaw": "14"}]
    assert [each.job_id for each in JobComments().ended_since(1795395000.0)] == ["14"]
    assert JobComments().ended_since(1795395786.0) == []
    assert not any("-s" in argv for argv in programs.calls)  # it would show runs before a requeue


def test_a_malformed_job_is_left_out_and_reported(programs, caplog):
    programs.jobs = [{**JOB, "JobIDRaw": "13; rm"}, {**JOB, "JobIDRaw": "14"}]
    assert [each.job_id for each in JobComments().find("12_3")] == ["14"]
    [line] = caplog.messages
    assert line.startswith("1 unreadable jobs of sacct are left out, the first: ")
    assert "not a job id: '13; rm'" in line


def test_no_jobs_are_an_answer_and_a_cut_one_is_none(programs):
    programs.jobs = []
    assert JobComments().find("12") == []
    programs.jobs, programs.end = [JOB], ""
    with pytest.raises(SourceError, match="cut off"):
        JobComments().find("12")


def test_a_comment_is_one_argument_of_one_job(programs):
    JobComments(sacctmgr="/opt/sacctmgr").write("13", "JS1:x y'\"")
    assert programs.calls == [
        ["/opt/sacctmgr", "-i", "modify", "job", "where", "jobid=13", "set", "admincomment=JS1:x y'\""]
    ]


@pytest.mark.parametrize("job", ["", "12_3", "12 set", "-1", "0"])
def test_what_is_no_id_is_not_written(programs, job):
    with pytest.raises(SourceError, match="not a job id"):
        JobComments().write(job, "x")
    assert programs.calls == []
