"""What the controller role and its source tell of the pool: the figures of condor_q, condor_status, condor_history."""

from __future__ import annotations

import json

import pytest

from jobfeatures.batch.htcondor.clustersource import CondorPool
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.cluster.sums import compute_queue_sums
from tests.configured import settings_for
from tests.integration.condorpool import PATIENCE_SECS, SCHEDDS, daemon, until


def test_the_controller_role_has_the_figures_of_condor_q_and_condor_status(pool, tmp_path):
    running = [
        *pool.submit("executable = /bin/sleep\narguments = 300\nrequest_cpus = 2"),
        *pool.submit("executable = /bin/sleep\narguments = 300", user="bob", count=2),
    ]
    for job in running:
        pool.wait(job, 2)
    idle = pool.submit("executable = /bin/sleep\narguments = 300\nrequest_cpus = 64", count=3)
    held = pool.submit("executable = /bin/sleep\narguments = 300\nhold = True", user="bob")
    flags = ("--role", "controller", "--batch.sources", "htcondor", "--controller.interval", "2s")
    with daemon(pool, tmp_path / "log", *flags, address="127.0.0.1:9751") as role:

        def jobs(state):
            page = role.page()
            return sum(
                value for labels, value in page.get(("batch_queue_jobs", ""), []) if labels["state"] == state
            )

        def counted():
            ads = json.loads(
                pool.run("condor_q", "-global", "-allusers", "-json", "-attributes", "JobStatus").replace(
                    "]\n[", ","
                )
            )
            return {status: sum(ad["JobStatus"] == status for ad in ads) for status in (1, 2, 5)}

        until(lambda: (jobs("RUNNING"), jobs("PENDING")) == (3, 4))
        assert counted() == {1: len(idle), 2: len(running), 5: len(held)}

        def allocated():
            cpus = {labels["kind"]: value for labels, value in role.page()["batch_cluster_cpus", ""]}
            slots = json.loads(
                pool.run("condor_status", "-json", "-attributes", "Cpus,State,PartitionableSlot")
            )
            used = [
                each for each in slots if each["State"] == "Claimed" and not each.get("PartitionableSlot")
            ]
            return cpus["allocated"], sum(each["Cpus"] for each in used)

        until(lambda: allocated() == (4, 4))  # the STARTD tells the collector every ten seconds


@pytest.fixture
def make_source(pool, tmp_path):
    """Return a function that makes the controller role's source, with the pool's own commands."""
    for name in ("condor_q", "condor_status", "condor_history"):
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\nexec "{pool.lab}/in" {name} "$@"\n')
        script.chmod(0o755)
    config = settings_for("htcondor", htcondor_condor_status=str(tmp_path / "condor_status"))
    return lambda: CondorPool(config, SystemClock(), PATIENCE_SECS)


def test_the_jobs_of_a_schedd_that_hangs_stay_and_it_is_named(pool, make_source):
    source = make_source()
    jobs = {pool.submit("executable = /bin/true\nhold = True", user=user)[0] for user in SCHEDDS}

    def answer():
        table = source.poll_queue()
        return table if {key.job_id for key in table.jobs} == jobs else None

    first = until(answer)  # -global passes over a schedd as long as the collector believes that it has no job
    assert (first.complete, first.rejected) == (True, ())
    pool.run("pkill", "-STOP", "-f", "local-name schedd2")
    try:
        silent = source.poll_queue()
    finally:
        pool.run("pkill", "-CONT", "-f", "local-name schedd2")
    assert (silent.jobs, silent.complete) == (first.jobs, False)
    [said] = silent.rejected
    assert "schedd 'schedd2@wn1.lab' does not answer" in said.reason
    again = source.poll_queue()
    assert (again.jobs, again.complete, again.rejected) == (first.jobs, True, ())


def test_ended_jobs_below_one_that_stayed_in_the_queue_are_seen(pool, make_source):
    source = make_source()
    stayed = pool.submit("executable = /bin/true\nleave_in_queue = True")[0]
    pool.wait(stayed, 4)
    ended = pool.submit("executable = /bin/true", count=3)
    ads = [pool.wait_for_end(job) for job in ended]
    since_secs = min(ad["CompletionDate"] for ad in ads) - 0.5
    source.poll_accounting(since_secs)
    more = pool.submit("executable = /bin/true", count=2)
    for job in more:
        pool.wait_for_end(job)
    number = stayed.partition("@")[0]
    pool.run("condor_qedit", "-name", "wn1.lab", number, "LeaveJobInQueue", "False")
    pool.wait_for_end(stayed)
    for each in (source, make_source()):
        found = {record.job_id for record in each.poll_accounting(since_secs).records}
        assert {*ended, *more} <= found


def test_a_job_that_the_schedd_runs_has_no_cpu_of_the_pool(pool, make_source):
    line = "executable = /bin/sleep\narguments = 300\nuniverse = {}"
    for universe in ("local", "scheduler", "vanilla"):
        pool.wait(pool.submit(line.format(universe))[0], 2)
    sums = compute_queue_sums(make_source().poll_queue())
    assert sums.jobs == {("", "RUNNING"): 3}
    assert sums.cpus == sums.nodes == {("", "RUNNING"): 1}
