"""What is told of a job: against its ad, the commands' words and the kernel's files."""

from __future__ import annotations

import time

import pytest

from tests.integration.condorpool import PACE, SCHEDDS, daemon, number_of, until

long = pytest.mark.long
MIB, KIB = 2**20, 2**10


def test_labels_limits_and_features_are_those_of_the_job_s_ad_and_of_the_kernel(pool, node):
    # HTCondor 23.9 moves the job into its control group after it has started: what it has forked by then stays outside
    [job] = pool.submit(
        f"executable = /bin/sh\narguments = \"-c 'sleep {3 * PACE}; while :; do :; done & head -c 30000000 /dev/zero >file; sync; wait'\"\n"
        "request_cpus = 2\nrequest_memory = 200\nrequest_disk = 100M\nallowed_job_duration = 3000\nallowed_execute_duration = 2000\n"
        'batch_name = odd ü "name" {x}\naccounting_group = physics.higgs\naccounting_group_user = alice\npriority = 7\n'
    )
    keys = node.wait_until_published(job)
    ad = pool.wait(job, 2)
    info = until(lambda: (found := node.info(job)).get("accounting") == "cgroup" and found)
    assert info == {
        "batch_system": "htcondor", "job_id": job, "user": ad["Owner"], "uid": "6001", "account": ad["AcctGroup"],
        "partition": "", "name": ad["JobBatchName"].replace('"', '\\"'), "array_job_id": "", "array_task_id": "", "het_job_id": "",
        "sluid": "", "slot": ad["RemoteHost"], "schedd": SCHEDDS["alice"], "place": "", "accounting": "cgroup",
    }  # fmt: skip
    assert ad["GlobalJobId"].startswith(f"{SCHEDDS['alice']}#{number_of(job)}#")
    start = ad["JobCurrentStartDate"]
    assert keys == {
        "allocated_cpu": str(ad["CpusProvisioned"]),
        "grace_secs_job": "15",  # MachineMaxVacateTime
        "job_id": number_of(job),
        "jobstart_secs": str(start),
        "wall_limit_secs": "2000",
        "cpu_limit_secs": "4000",
        "max_rss_bytes": str(ad["MemoryProvisioned"] * MIB),
        "scratch_limit_bytes": str(ad["DiskProvisioned"] * KIB),
        **({"max_swap_bytes": keys["max_swap_bytes"]} if "max_swap_bytes" in keys else {}),
    }
    assert node.value("batch_job_allocated_cpus", job) == ad["CpusProvisioned"] == 2
    assert node.value("batch_job_wall_limit_seconds", job) == 2000
    assert node.value("batch_job_start_time_seconds", job) == start
    assert node.value("batch_job_allocated_memory_bytes", job) == ad["MemoryProvisioned"] * MIB
    before = time.time()
    left = node.value("batch_job_remaining_seconds", job, basis="wall_limit")
    assert start + 2000 - time.time() - 2 <= left <= start + 2000 - before + 2

    slot = ad["RemoteHost"]
    until(lambda: (node.value("batch_job_cpu_seconds_total", job, mode="user") or 0) > 3)
    first = pool.cpu_secs_of(slot)
    cpu = sum(value for _, value in node.page()["batch_job_cpu_seconds_total", job])
    assert first - 2.5 <= cpu <= pool.cpu_secs_of(slot) + 0.1
    limit = int(pool.file_of(slot, "memory/memory.limit_in_bytes", "memory.max"))
    assert node.value("batch_job_memory_limit_bytes", job) == limit == ad["MemoryProvisioned"] * MIB
    until(lambda: (node.value("batch_job_io_written_bytes_total", job) or 0) >= 30_000_000)
    until(lambda: pool.processes_of(slot) == 2)  # the shell and its loop: head and sync end
    until(lambda: node.value("batch_job_processes", job) == 2)
    assert node.state(job) == "RUNNING"


def test_both_readers_of_processes_count_those_of_a_job_s_slot(pool, node, tmp_path):
    job = pool.shell(f"sleep {3 * PACE}; sleep 300 & sleep 300 & wait")
    flags = ("--sampling.processes", "procfs", "--no-features.publish", "--sample.interval", "1s")
    with daemon(pool, tmp_path / "log", *flags, address="127.0.0.1:9751") as other:
        for each in (node, other):
            slot = until(lambda each=each: each.info(job).get("slot"))
            until(lambda slot=slot: pool.processes_of(slot) == 3)
            until(lambda each=each: each.value("batch_job_processes", job) == 3)


@pytest.mark.parametrize(
    ("lines", "wall", "memory"),
    [
        ("", None, 64),
        ("+MaxRuntime = 3600", 3600, 64),
        ("+BatchRuntime = 60\n+MaxRuntime = 3600", 60, 64),
        ("allowed_job_duration = 900", 900, 64),
    ],
)
@long
def test_limits_are_those_that_the_job_s_ad_names(pool, node, lines, wall, memory):
    job = pool.shell("sleep 300", lines)
    keys = node.wait_until_published(job)
    ad = pool.wait(job, 2)
    assert keys.get("wall_limit_secs") == (None if wall is None else str(wall))
    assert int(keys["max_rss_bytes"]) == ad["MemoryProvisioned"] * MIB >= memory * MIB
    assert node.value("batch_job_wall_limit_seconds", job) == wall


def test_an_array_s_jobs_are_named_by_it(pool, node):
    jobs = pool.submit("executable = /bin/sleep\narguments = 300", count=3)
    for proc, job in enumerate(jobs):
        info = until(lambda job=job: (found := node.info(job)).get("user") and found)
        assert (info["array_job_id"], info["array_task_id"]) == (job.partition(".")[0], str(proc))
