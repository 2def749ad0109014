"""Shells in jobs, and interactive jobs."""

from __future__ import annotations

import pytest

from tests.integration.condorpool import COMMAND, PATIENCE_SECS, SCHEDDS, number_of, running_on, until

long = pytest.mark.long


SHELL = (
    f'cat $JOBFEATURES/job_id; unset JOBFEATURES MACHINEFEATURES JOBSTATUS; eval "$({COMMAND}/jobfeatures env)"; '
    "cat $JOBFEATURES/job_id; cat $JOBFEATURES/allocated_cpu; touch $JOBSTATUS/progress_pct && echo written; "
    "head -c 300000000 /dev/zero | sha1sum >/dev/null; read is_over; exit"
)


def counts_to(pool, node, job):
    """Check, while a shell is in a job, that its processes and CPU time are the job's and nobody else's."""
    slot = node.info(job)["slot"]
    until(lambda: sum(value for _, value in node.page().get(("batch_job_cpu_seconds_total", job), [])) > 0.15)
    # sshd leaves a zombie, which no control group lists
    until(lambda: 4 <= (node.value("batch_job_processes", job) or 0) == pool.processes_of(slot) + 1)
    assert running_on(node.page()) == {job}


@long
def test_a_shell_by_condor_ssh_to_job_counts_to_the_job_and_may_ask_for_its_features(pool, node):
    job = pool.shell("sleep 300", "request_cpus = 2")
    node.wait_until_published(job)
    until(lambda: node.info(job).get("accounting") == "cgroup")
    with pool.ssh(job, SHELL) as shell:
        counts_to(pool, node, job)
        told = shell.communicate("\n", timeout=PATIENCE_SECS)[0].splitlines()
    assert shell.returncode == 0, told
    assert told[-4:] == [number_of(job), number_of(job), "2", "written"]
    until(lambda: (node.value("batch_job_processes", job) or 9) <= 2)  # its own
    assert node.state(job) == "RUNNING"


@long
def test_an_interactive_job_is_a_job_and_its_shell_may_ask_for_its_features(pool, node):
    with pool.interactive("request_memory = 64\nallowed_job_duration = 900") as shell:
        shell.stdin.write(SHELL + "\n")
        shell.stdin.flush()
        queue = ("condor_q", "-allusers", "-af", "ClusterId", "-constraint", "InteractiveJob")
        job = f"{until(lambda: pool.run(*queue).strip())}.0@{SCHEDDS['alice']}"
        assert node.wait_until_published(job)["wall_limit_secs"] == "900"
        counts_to(pool, node, job)
        told = shell.communicate("\n", timeout=PATIENCE_SECS)[0].splitlines()
    assert told[-4:] == [number_of(job), number_of(job), "1", "written"]
    ad = pool.wait_for_end(job)
    assert (ad["InteractiveJob"], ad["Owner"]) == (True, "alice")
    until(lambda: node.state(job) == "UNKNOWN")
    assert node.info(job)["user"] == "alice"
