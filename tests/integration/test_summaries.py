"""Summaries in the accounting of a real Slurm.

Slurm 22.05's sacctmgr writes comments in lower case, which spoils them. Where that is so, a stand-in for a newer one
sets the comment in the database of the real slurmdbd; all else is Slurm's.
"""

import time
from dataclasses import replace

import pytest

from jobfeatures.batch.slurm.comments import JobComments
from jobfeatures_exporter.jobreport.jobstats import decode_summary, encode_summary
from jobfeatures_exporter.jobreport.summaries import NOTE, CommentsSpoiltError, SummaryWriter, ask_accounting
from jobfeatures_exporter.view.use import JobUse, NodeUse, Place

from ..running import until

pytestmark = pytest.mark.usefixtures("without_hooks")
JOBS = 100
REPORT = JobUse(
    batch_system="slurm",
    job_id="1",
    nodes=tuple(
        NodeUse(
            place=Place(name), cpu_secs=1.5, allocated_cpus=1.0, memory_peak=2.0**20, allocated_memory=2.0**30
        )
        for name in ("lab1", "lab2")
    ),
)
# As a newer one does, for the latest run of a job.
KEEPING_CASE = """#!/bin/bash
[[ "$*" =~ jobid=([0-9]+)\\ set\\ admincomment=([A-Za-z0-9:+/=\\ ]*)$ ]] || exit 1
exec mariadb --no-defaults -S "{lab}/run/mysqld.sock" slurm_acct_db -e "update jobfeatureslab_job_table \
set admin_comment='${{BASH_REMATCH[2]}}' where id_job=${{BASH_REMATCH[1]}} order by time_submit desc limit 1"
"""


@pytest.fixture
def comments(slurm, monkeypatch, tmp_path):
    for name, value in slurm.environ.items():
        monkeypatch.setenv(name, value)
    script = tmp_path / "sacctmgr"
    script.write_text(KEEPING_CASE.format(lab=slurm.lab))
    script.chmod(0o755)
    return JobComments(sacctmgr=str(script))


def writer(comments, since_secs, **changes):
    settings = {"delay_secs": 0, "window_secs": time.time() - since_secs, "per_second": 1000, **changes}
    return SummaryWriter(comments=comments, ask=lambda job: replace(REPORT, job_id=job.job_id), **settings)


def numbers_of(slurm, array, count):
    """Return the ids that accounting gives the tasks of an array, once it has them all."""

    def found():
        rows = slurm.run("sacct", "-X", "-n", "-P", "-j", array, "-o", "JobID,JobIDRaw").splitlines()
        numbers = dict(row.split("|") for row in rows)
        names = [f"{array}_{at}" for at in range(1, count + 1)]
        return [numbers[each] for each in names] if numbers.keys() >= set(names) else None

    return until(found, 240)


def ended(comments, since_secs, *job_ids):
    """Return the jobs once accounting has the end of each of these."""

    def found():
        jobs = {each.job_id: each for each in comments.ended_since(since_secs)}
        return [jobs[each] for each in job_ids] if jobs.keys() >= set(job_ids) else None

    return until(found, 240)


def test_a_hundred_ends_at_once_get_a_summary_each_and_one_only(slurm, comments):
    since_secs = time.time() - 1
    array = slurm.submit("exit 0", f"--array=1-{JOBS}")
    job_ids = numbers_of(slurm, array, JOBS)
    jobs = ended(comments, since_secs, *job_ids)
    assert {each.comment for each in jobs} == {""}
    written = writer(comments, since_secs).round()
    assert written >= JOBS
    after = ended(comments, since_secs, *job_ids)
    assert [each.comment for each in after] == [encode_summary(REPORT, each.elapsed_secs) for each in after]
    assert writer(comments, since_secs).round() == 0
    told = ask_accounting(f"{array}_7")
    assert [(each.info["user"], each.memory_peak, each.notes) for each in told.reports] == [
        ("alice", 2.0**21, (NOTE,))
    ]
    assert len(ask_accounting(array).reports) == JOBS


def test_what_the_site_wrote_stays(slurm, comments):
    since_secs = time.time() - 1
    job = slurm.submit("exit 0")
    ended(comments, since_secs, job)
    comments.write(job, "billed to project 7")
    writer(comments, since_secs).round()
    assert ended(comments, since_secs, job)[0].comment == "billed to project 7"
    assert ask_accounting(job) is None


def test_after_a_requeue_the_summary_is_that_of_the_last_run(slurm, comments):
    since_secs = time.time() - 1
    job = slurm.submit('[ "$SLURM_RESTART_COUNT" = 1 ] && exec sleep 5; exec sleep 600', "--requeue")
    slurm.wait(job, "RUNNING")
    slurm.run("scontrol", "requeue", job)
    # A summary of the run before, as a writer leaves it that was on its way.
    until(lambda: [each for each in comments.find(job) if each.end_secs is None], 240)
    comments.write(job, encode_summary(REPORT, 600))
    [found] = ended(comments, since_secs, job)
    assert found.comment in ("", encode_summary(REPORT, 600))  # slurmdbd may write the end over it
    writer(comments, since_secs).round()
    [found] = ended(comments, since_secs, job)
    rows = slurm.run(
        "sacct", "-a", "-D", "-X", "-P", "-n", "-j", job, "-o", "State,Submit,Start,End,AdminComment"
    )
    assert found.comment.startswith("JS1:H4sI"), rows
    assert decode_summary(found.comment).elapsed_secs == found.elapsed_secs < 600


def test_this_sacctmgr_keeps_the_case_or_its_comment_is_taken_back(slurm, comments):
    since_secs = time.time() - 1
    job = slurm.submit("exit 0")
    ended(comments, since_secs, job)
    own = JobComments()
    made = writer(own, since_secs)
    try:
        made.round()
    except CommentsSpoiltError:
        touched = [each.comment for each in own.ended_since(since_secs)]
        assert not [each for each in touched if each.startswith("js1:")]
    else:
        [found] = ended(comments, since_secs, job)
        assert found.comment == encode_summary(REPORT, found.elapsed_secs)


def test_users_may_not_write_and_operators_may(slurm, comments):
    since_secs = time.time() - 1
    job = slurm.submit("exit 0")
    ended(comments, since_secs, job)
    command = ("sacctmgr", "-i", "modify", "job", "where", f"jobid={job}", "set", "admincomment=x")
    with pytest.raises(AssertionError, match="privilege"):
        slurm.run(*command, user="bob")
    slurm.run("sacctmgr", "-i", "modify", "user", "bob", "set", "adminlevel=operator")
    try:
        slurm.run(*command, user="bob")
    finally:
        slurm.run("sacctmgr", "-i", "modify", "user", "bob", "set", "adminlevel=none")
    assert [each.comment for each in comments.find(job)] == ["x"]
