"""How jobs end, are held, are suspended, and run again."""

from __future__ import annotations

import time

import pytest

from tests.integration.condorpool import PACE, folder_of, number_of, running_on, until, watched

long = pytest.mark.long


def ends(pool, node, job, end):
    """Let a job end; return its labels before, and check what is told afterwards."""
    node.wait_until_published(job)
    before = until(lambda: (found := node.info(job)).get("accounting") == "cgroup" and found)
    end()
    until(lambda: node.state(job) == "UNKNOWN")
    pages = watched(node, lambda: True)
    for page in pages:
        assert [labels for labels, _ in page.get(("batch_job_info", job), [])] in ([before], [])
        if ("batch_job_cpu_seconds_total", job) in page:
            assert ("batch_job_info", job) in page
            assert ("batch_job_state", job) in page
    until(lambda: folder_of(job) not in node.published())
    return before


def test_a_removed_job_has_ended_here_and_its_schedd_alone_knows_how(pool, node):
    job = pool.shell("sleep 300")
    ends(pool, node, job, lambda: pool.act("condor_rm", job))
    assert pool.wait_for_end(job)["JobStatus"] == 3
    until(lambda: job not in node.shown())  # jobs.retain is over


def test_a_held_job_is_not_here_and_comes_back_under_its_id(pool, node):
    job = pool.shell("sleep 300")
    ends(pool, node, job, lambda: pool.act("condor_hold", job))
    assert pool.wait(job, 5)["HoldReasonCode"] == 1
    pool.act("condor_release", job)
    until(lambda: node.state(job) == "RUNNING" and node.info(job).get("user"))
    assert node.wait_until_published(job)["job_id"] == number_of(job)
    assert node.value("batch_job_restarts", job) == 1


def test_a_job_that_needs_more_memory_is_killed_and_that_is_counted_once(pool, node):
    code = "import time; x=[bytearray(1000000) for i in range(10)]; time.sleep(6); x+=[bytearray(20000000) for i in range(40)]; time.sleep(60)"
    [job] = pool.submit(
        f"executable = /usr/bin/python3\narguments = \"-c '{code}'\"\nrequest_memory = 64\nmax_retries = 0"
    )
    kills = []
    ends(
        pool,
        node,
        job,
        lambda: until(lambda: kills.append(node.value("batch_job_oom_kills_total", job)) or kills[-1]),
    )
    assert pool.wait(job, 5)["HoldReasonCode"] == 34  # out of resources
    # HTCondor sets memory.oom.group on v2: the kernel kills the victim once more with its group, and counts that
    assert kills[-1] == (2 if pool.has_v2 else 1)


@long
@pytest.mark.parametrize("limit", ["allowed_job_duration", "allowed_execute_duration"])
def test_a_job_beyond_its_limit_is_held(pool, node, limit):
    job = pool.shell("sleep 300", f"{limit} = 15")
    ends(pool, node, job, lambda: pool.wait(job, 5))
    assert pool.queued(job)["HoldReasonCode"] in {46, 47}


@long
def test_a_suspended_job_is_shown_as_such_and_goes_on(pool, node):
    job = pool.shell("sleep 3; while :; do :; done")
    node.wait_until_published(job)
    pool.wait(job, 2)
    pool.act("condor_suspend", job)
    pool.wait(job, 7)
    until(lambda: node.state(job) == "SUSPENDED")  # its files do not say, its control group does
    used = sum(value for _, value in node.page()["batch_job_cpu_seconds_total", job])
    time.sleep(3)
    again = sum(value for _, value in node.page()["batch_job_cpu_seconds_total", job])
    assert again - used < 0.5
    pool.act("condor_continue", job)
    pool.wait(job, 2)
    until(lambda: sum(value for _, value in node.page()["batch_job_cpu_seconds_total", job]) > again + 1)
    until(lambda: node.state(job) == "RUNNING")


@long
def test_a_vacated_job_starts_again_as_another_run(pool, node):
    job = pool.shell("sleep 300")
    ends(
        pool,
        node,
        job,
        lambda: (
            pool.wait(job, 2),
            pool.act("condor_vacate_job", job, "-fast"),
            pool.act("condor_hold", job),
        ),
    )
    pool.act("condor_release", job)
    until(lambda: node.state(job) == "RUNNING")
    until(lambda: pool.wait(job, 2)["NumJobStarts"] == 2)


@long
@pytest.mark.parametrize("retirement_secs", [0, 30])
def test_a_job_that_the_machine_prefers_takes_the_place_of_another(pool, node, retirement_secs):
    low = pool.submit(
        "executable = /bin/sleep\narguments = 600\nrequest_cpus = 8\n"
        f"max_job_retirement_time = {retirement_secs}"
    )[0]
    node.wait_until_published(low)
    start = pool.wait(low, 2)["JobCurrentStartDate"]
    until(lambda: running_on(node.page()) == {low})
    vip = pool.submit("executable = /bin/sleep\narguments = 600\nrequest_cpus = 8\n+Vip = True", user="bob")[
        0
    ]
    pages = watched(node, lambda: node.features(vip))
    assert set().union(*map(running_on, pages)) <= {low, vip}
    ad = pool.wait(low, 1)
    assert ad["NumJobStarts"] == 1
    assert retirement_secs <= ad["EnteredCurrentStatus"] - start <= retirement_secs + 15 * PACE
    until(lambda: folder_of(low) not in node.published())
    assert node.state(vip) == "RUNNING"
    assert node.state(low) in {"UNKNOWN", ""}
    assert node.info(vip)["user"] == "bob"
