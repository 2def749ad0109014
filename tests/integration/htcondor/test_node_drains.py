"""What jobs are told of a node that drains or shuts down.

After a drain that is cancelled, HTCondor 23.9 grants no retirement to a job that another displaces: test_ends.py
has to run before, as it does by its name.
"""

from __future__ import annotations

import json
import re
import time

import pytest

from tests.integration.condorpool import COMMAND, PACE, until

long = pytest.mark.long


def ends_told(node, *jobs):
    """Return when jobs have to have left, by their own files."""
    return [int(node.features(job).get("shutdowntime_job", 0)) for job in jobs]


def test_a_draining_node_says_until_when_each_of_its_jobs_may_run(pool, node):
    script = f"while sleep 1; do cat $JOBFEATURES/shutdowntime_job && {COMMAND}/jobfeatures remaining --explain; done"
    jobs = [pool.shell(script, f"max_job_retirement_time = {secs}") for secs in (90, 300)]
    began = []
    for job in jobs:
        node.wait_until_published(job)
        began.append(pool.wait(job, 2)["JobCurrentStartDate"])
        assert node.features(job)["grace_secs_job"] == "15"  # MachineMaxVacateTime
    scratch = pool.scratch_of(jobs[0])
    plan = (f"{COMMAND}/jobfeatures", "drain", "plan", "--metrics", f"http://{node.address}/metrics")
    pool.run("condor_drain", "-graceful", "wn1.lab")
    try:
        soon, late = until(lambda: all(found := ends_told(node, *jobs)) and found)
        assert abs(soon - began[0] - 90) <= 5
        assert abs(late - began[1] - 300) <= 5
        assert node.value("batch_node_draining", source="htcondor") == 1
        until(
            lambda: abs((node.value("batch_node_shutdown_time_seconds", source="htcondor") or 0) - late) <= 5
        )
        for job, told in zip(jobs, (soon, late), strict=True):
            assert abs(node.value("batch_job_shutdown_time_seconds", job, source="htcondor") - told) <= 5
        drains = json.loads(pool.run(f"{COMMAND}/jobfeatures", "drain", "show", "--format", "json"))
        assert [(each["scope"], each["source"]) for each in drains["shutdowns"]] == [("node", "htcondor")]
        assert abs(drains["shutdowns"][0]["shutdown_secs"] - late) <= 5
        until(lambda: "\nshutdown " in pool.run("cat", f"{scratch}/_condor_stdout"))  # by the job itself
        assert f"htcondor {jobs[0]}" in pool.run(*plan)
    finally:
        pool.run("condor_drain", "-cancel", "wn1.lab")
    until(lambda: node.value("batch_node_draining", source="htcondor") == 0)
    assert node.value("batch_node_shutdown_time_seconds", source="htcondor") is None
    until(lambda: ends_told(node, *jobs) == [0, 0])


@pytest.mark.parametrize("way", ["-graceful", pytest.param("-quick", marks=long)])
def test_the_time_until_a_vacating_job_is_killed_stands_still(pool, node, way):
    """Without retirement, as by HTCondor's own settings, a drain vacates at once: its startd always says "in 15 s"."""
    lines = "max_job_retirement_time = 0" if way == "-graceful" else ""
    job = pool.shell("trap : TERM; echo ready; while :; do sleep 1; done", lines)
    output = f"{pool.scratch_of(job)}/_condor_stdout"
    until(lambda: "ready" in pool.run("sh", "-c", f"cat {output} || true"))
    node.wait_until_published(job)
    pool.run("condor_drain", way, "wn1.lab")
    began = time.time()
    try:
        told = until(lambda: ends_told(node, job)[0])
        seen = {told}
        until(lambda: node.state(job) != "RUNNING" or seen.update(filter(None, ends_told(node, job))))
        assert abs(node.value("batch_job_end_time_seconds", job) - told) <= 5 * PACE
        assert max(seen) - min(seen) <= 1
        assert abs(told - began - 15) <= 5 * PACE
        assert node.value("batch_node_shutdown_time_seconds", source="htcondor") in (told, None)
    finally:
        pool.run("condor_drain", "-cancel", "wn1.lab")


@long
@pytest.mark.parametrize(
    ("way", "retirement_secs", "notice_secs"),
    [("-graceful", 150, 120), ("-graceful", 0, 60), ("-quick", 600, 60)],
)
def test_a_payload_is_told_before_a_drain_ends_it(pool, node, way, retirement_secs, notice_secs):
    """By `run`, in time; at once where less is left, as it is without retirement: MachineMaxVacateTime, 15 s."""
    payload = "trap : TERM\ntrap 'echo told' USR1\necho ready\nwhile :; do sleep 0.2; done\n"
    pool.run(
        "sh",
        "-c",
        "cat >/home/alice/payload.sh && chmod 755 /home/alice/payload.sh",
        stdin=f"#!/bin/bash\n{payload}",
    )
    command = f"exec {COMMAND}/jobfeatures run --signal USR1@{notice_secs} -- /home/alice/payload.sh 2>&1"
    job = pool.shell(command, f"max_job_retirement_time = {retirement_secs}")
    output = f"{pool.scratch_of(job)}/_condor_stdout"
    said = [""]

    def has_said(word: str) -> bool:
        found = pool.run("sh", "-c", f"cat {output} 2>/dev/null || true")
        said[0] = found or said[0]  # its folder goes with the job
        return word in said[0]

    until(lambda: has_said("ready"))
    node.wait_until_published(job)
    pool.run("condor_drain", way, "wn1.lab")
    try:
        until(lambda: has_said("told"))
        assert said[0].count("told") == 1
        left = re.search(r"(\d+) s are left by shutdown: SIGUSR1 is sent", said[0])
        assert left is not None, said[0]
        assert int(left[1]) <= notice_secs
    finally:
        pool.run("condor_drain", "-cancel", "wn1.lab")


@long
def test_a_node_that_shuts_down_peacefully_drains_without_a_time(pool, node):
    job = pool.shell("sleep 300")
    node.wait_until_published(job)
    pool.wait(job, 2)
    pool.run("condor_off", "-startd", "-peaceful")
    try:
        until(lambda: node.value("batch_node_draining", source="htcondor") == 1)
        assert node.value("batch_node_shutdown_time_seconds", source="htcondor") is None
        assert ends_told(node, job) == [0]
    finally:
        pool.clear()
        until(lambda: not pool.startd())
        pool.run("condor_on", "-startd")
        until(pool.startd)


@long
def test_a_drained_node_has_no_job_once_their_retirement_is_over(pool, node):
    """Each job has its own retirement: the node's time is the last one."""
    soon, late = (
        pool.shell("sleep 300", f"max_job_retirement_time = {secs}") for secs in (5 * PACE, 45 * PACE)
    )
    for job in (soon, late):
        node.wait_until_published(job)
        pool.wait(job, 2)
    pool.run("condor_drain", "-graceful", "wn1.lab")
    try:
        told = until(lambda: node.value("batch_node_shutdown_time_seconds", source="htcondor"))
        until(lambda: node.state(soon) == "UNKNOWN")
        assert node.state(late) == "RUNNING"
        until(lambda: node.state(late) == "UNKNOWN")
        # the last job gives up MachineMaxVacateTime, 15 s, of its retirement to end in, which this one does not need
        assert told - 20 <= node.value("batch_job_end_time_seconds", late) <= told + 5
        until(lambda: not node.published())
        assert node.value("batch_node_draining", source="htcondor") == 1
    finally:
        pool.run("condor_drain", "-cancel", "wn1.lab")
