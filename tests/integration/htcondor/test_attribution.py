"""Which job it is, and whose: uids, two schedds that give the same numbers, slots, and no ghosts."""

from __future__ import annotations

import pytest

from tests.integration.condorpool import (
    FEATURES,
    PACE,
    SCHEDDS,
    UIDS,
    folder_of,
    level,
    number_of,
    running_on,
    until,
    watched,
)

long = pytest.mark.long


def test_short_jobs_of_two_schedds_with_the_same_numbers_have_their_own_users_and_no_ghosts(pool, node):
    script = (  # nothing of ours keeps a job from beginning before a daemon on a busy machine has seen it
        "executable = /bin/sh\n"
        "arguments = \"-c 'test -e $JOBFEATURES/job_id && echo early; until test -e $JOBFEATURES/job_id -a -e $JOBSTATUS; do sleep 0.1; done; "
        "cat $JOBFEATURES/job_id; readlink -f $JOBSTATUS; touch $JOBSTATUS/progress_pct && echo written; sleep 1'\"\n"
    )
    until(lambda: not node.shown())  # other tests' jobs are shown for a while
    level(pool)
    jobs = [job for user in SCHEDDS for job in pool.submit(script, user=user, count=20)]
    users = {
        job: next(user for user, schedd in SCHEDDS.items() if job.partition("@")[2] == schedd) for job in jobs
    }
    numbers = {number_of(job) for job in jobs}
    pages = watched(node, pool.is_done)
    assert len(numbers) == len(jobs) / 2
    seen = {job for page in pages for _, job in page if job}
    assert seen <= set(jobs)  # no slot, no empty control group
    for page in pages:
        for (name, job), series in page.items():
            if name == "batch_job_info":
                [(labels, _)] = series
                assert labels["schedd"] == job.partition("@")[2]
                assert labels["uid"] == str(UIDS[users[job]])
                assert labels["user"] == users[job]
    outputs = {job: pool.output(job) for job in jobs}
    for job, output in outputs.items():
        told = output.removeprefix("early\n").split()
        assert told == [number_of(job), f"{FEATURES}/jobstatus/{folder_of(job)}", "written"], job
    assert any(output.startswith("early\n") for output in outputs.values())
    until(lambda: not node.published())


def test_nobody_else_can_read_a_job_s_lines_or_write_its_status(pool, node):
    one, two = pool.shell("sleep 300"), pool.shell("sleep 300", user="bob")
    for job, user, other in ((one, "alice", "bob"), (two, "bob", "alice")):
        node.wait_until_published(job)
        lines = f"{FEATURES}/exports/{folder_of(job)}"
        until(lambda lines=lines, user=user: pool.run("stat", "-c", "%U %a", lines).strip() == f"{user} 400")
        assert folder_of(job) in pool.run("cat", lines, user=user)
        pool.run("cat", lines, user=other, status=1)
        status = f"{FEATURES}/jobstatus/{folder_of(job)}/progress_pct"
        pool.run("touch", status, user=other, status=1)
        pool.run("touch", status, user=user)


def test_what_a_user_puts_into_a_job_s_environment_decides_nothing_that_root_runs(pool, node):
    pool.run(
        "sh", "-c", "cat >evil.sh; chmod 755 evil.sh", user="alice", stdin="#!/bin/sh\nid -u >>/tmp/evil\n"
    )
    names = ("SETTINGS", "COMMAND", "FEATURES_ROOT")
    evil = " ".join(
        [f"JOBFEATURES_{each}=/home/alice/evil.sh" for each in names]
        + [
            f"{each}=/home/alice/evil.sh"
            for each in ("BASH_ENV", "ENV", "LD_PRELOAD", "PYTHONPATH", "_CONDOR_JOB_AD")
        ]
    )
    job = pool.shell(
        "sleep 5; echo $_CONDOR_JOB_AD", f'environment = "{evil}"\n+GlobalJobId = "schedd2@wn1.lab#1.0#5"'
    )
    node.wait_until_published(job)
    pool.wait_for_end(job)
    assert pool.output(job).strip().startswith("/var/lib/condor/execute/")  # the starter's, not the user's
    ran_as = pool.run("sh", "-c", "cat /tmp/evil 2>/dev/null || true").split()
    assert set(ran_as) <= {str(UIDS["alice"])}


SLOTS = """
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1 = 50%
NUM_SLOTS_TYPE_2 = 1
SLOT_TYPE_2 = 50%
SLOT2_EXECUTE = /var/lib/condor/execute_2
DedicatedScheduler = "DedicatedScheduler@wn1.lab"
STARTD_ATTRS = $(STARTD_ATTRS), DedicatedScheduler
"""


@pytest.fixture
def slots(pool):
    """Give the machine a second slot with an EXECUTE of its own, and to the first one parallel jobs."""
    path = "/etc/condor/config.d/91-slots"

    def names(wanted):
        told = pool.run("sh", "-c", "condor_status -af Name 2>/dev/null || true")
        return ("slot2@" in told) == wanted and "slot1@" in told

    pool.run("install", "-d", "-o", "condor", "-g", "condor", "-m", "755", "/var/lib/condor/execute_2")
    pool.run("tee", path, stdin=SLOTS)
    pool.run("condor_restart", "-fast")
    until(lambda: names(wanted=True))
    yield
    pool.clear()
    pool.run("rm", path)
    pool.run("condor_restart", "-fast")
    until(lambda: names(wanted=False))


@long
@pytest.mark.usefixtures("slots")
def test_a_slot_with_an_execute_of_its_own_and_the_slots_of_a_parallel_job_have_no_ghosts(pool, node):
    burn = "executable = /bin/sh\narguments = \"-c 'head -c 300000000 /dev/zero | sha1sum; sleep 300'\"\n"
    [other] = pool.submit(f"{burn}requirements = SlotTypeID == 2")
    pool.wait(other, 2)
    [parallel] = pool.submit(f'universe = parallel\nmachine_count = 2\n{burn}+Big = "{"x" * 1_100_000}"')
    until(lambda: running_on(node.page()) == {parallel, other})
    until(lambda: node.value("batch_job_allocated_cpus", parallel) == 2)
    assert node.info(other)["slot"] == "slot2@wn1.lab"
    assert {node.info(job)["user"] for job in (parallel, other)} == {"alice"}
    until(lambda: all(node.info(job)["accounting"] == "cgroup" for job in (parallel, other)))

    def counted():
        shown = sum(value for _, value in node.page()["batch_job_cpu_seconds_total", parallel])
        return 0.2 < shown < sum(pool.cpu_secs_of(f"slot1_{number}@wn1.lab") for number in (1, 2)) + 0.2

    until(counted)
    assert (node.features(parallel)["allocated_cpu"], node.features(other)["job_id"]) == (
        "2",
        number_of(other),
    )
    assert node.shown() == {parallel, other}
    pool.clear()
    until(lambda: not node.published())


SITE = """
BASE_CGROUP = site/batch
DAEMON_LIST = MASTER COLLECTOR NEGOTIATOR SCHEDD SCHEDD2 STARTD STARTD2
STARTD2 = $(STARTD)
STARTD2_ARGS = -local-name startd2
startd2.STARTD_NAME = second
startd2.STARTD_LOG = $(LOG)/Startd2Log
startd2.STARTD_ADDRESS_FILE = $(LOG)/.startd2_address
startd2.STARTD_CLAIM_ID_FILE = $(LOG)/.startd2_claim_id
startd2.STARTD_DAEMON_AD_FILE = $(LOG)/.startd2_classad
startd2.EXECUTE = /var/lib/condor/execute_2
"""


@pytest.fixture
def site(pool):
    """Give the pool another BASE_CGROUP and the machine a second startd."""
    path = "/etc/condor/config.d/92-site"

    def startds(count):
        told = pool.run("sh", "-c", "condor_status -startd -af Name 2>/dev/null || true").split()
        return len(told) == count

    pool.run("install", "-d", "-o", "condor", "-g", "condor", "-m", "755", "/var/lib/condor/execute_2")
    pool.run("tee", path, stdin=SITE)
    pool.run("condor_restart", "-fast")
    until(lambda: startds(2))
    pool.base = "site/batch"
    yield
    pool.clear()
    pool.base = "htcondor"
    pool.run("rm", path)
    pool.run("condor_restart", "-fast")
    until(lambda: startds(1))


@long
@pytest.mark.usefixtures("site")
def test_jobs_of_two_startds_below_another_base_cgroup_have_the_kernel_s_figures(pool, node):
    burn = (
        f"executable = /bin/sh\narguments = \"-c 'sleep {3 * PACE}; head -c 300000000 /dev/zero | sha1sum; sleep 900'\"\n"
        "requirements = "
    )
    [first] = pool.submit(f'{burn}!regexp("second", Name)')
    [second] = pool.submit(f'{burn}regexp("second", Name)')
    slots = {job: pool.wait(job, 2)["RemoteHost"] for job in (first, second)}
    assert "second" in slots[second]
    until(lambda: running_on(node.page()) == {first, second})
    for job, slot in slots.items():
        until(lambda job=job: node.info(job).get("accounting") == "cgroup")
        assert node.info(job)["slot"] == slot
        until(lambda job=job: sum(each for _, each in node.page()["batch_job_cpu_seconds_total", job]) > 0.2)
        before = pool.cpu_secs_of(slot)
        shown = sum(each for _, each in node.page()["batch_job_cpu_seconds_total", job])
        assert before - 2.5 <= shown <= pool.cpu_secs_of(slot) + 0.1
        until(
            lambda job=job, slot=slot: node.value("batch_job_processes", job) == pool.processes_of(slot) > 0
        )
        assert node.features(job)["job_id"] == number_of(job)
    assert node.shown() == {first, second}
    pool.clear()
    until(lambda: not node.published())
