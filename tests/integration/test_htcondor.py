"""A real HTCondor 23.9 with two schedds: every kind of job, against its own words and the kernel's files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.integration.condorpool import (
    ADDRESS,
    COMMAND,
    FEATURES,
    PACE,
    PATIENCE_SECS,
    SCHEDDS,
    UIDS,
    Pool,
    daemon,
    folder_of,
    watched,
)
from tests.running import started
from tests.running import until as wait_until

LABS = Path(__file__).parents[1] / "labs/htcondor"
long = pytest.mark.long
MIB, KIB = 2**20, 2**10


@pytest.fixture(scope="module")
def pool():
    """Start HTCondor once; stop it at the end unless it was running before."""
    if os.geteuid() != 0:
        pytest.skip("a private HTCondor needs root: its nodes start jobs as other users")
    up = subprocess.run([LABS / "up.sh"], capture_output=True, text=True, timeout=900)
    assert up.returncode == 0, up.stdout + up.stderr
    yield Pool(Path(up.stdout.split()[-1]))
    if "already up" not in up.stdout:
        subprocess.run([LABS / "down.sh"], capture_output=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def node(pool, tmp_path_factory):
    """Return our daemon on its node."""
    log = tmp_path_factory.mktemp("daemon") / "log"
    flags = (
        "--jobs.retain",
        f"{20 * PACE}s",
        "--sample.interval",
        "1s",
        "--batch.interval",
        "5s",
        "--batch.refresh",
        "5s",
    )
    with daemon(pool, log, *flags, "--web.own-socket", "/run/jobfeatures-own.sock") as found:
        yield found


@pytest.fixture(autouse=True)
def empty(request, pool):
    """Leave no job to the next test."""
    yield
    pool.clear()


def until(condition):
    return wait_until(condition, PATIENCE_SECS)


def level(pool):
    """Let both schedds give the same number next."""

    def last(user):
        return int(pool.submit("executable = /bin/true\nhold = True", user=user)[0].partition(".")[0])

    numbers = {user: last(user) for user in SCHEDDS}
    for user in SCHEDDS:
        while numbers[user] < max(numbers.values()):
            numbers[user] = last(user)
    pool.clear()


def number_of(job):
    return job.partition("@")[0]


def running_on(page):
    states = ((job, series) for (name, job), series in page.items() if name == "batch_job_state")
    return {job for job, [(labels, _)] in states if labels["state"] == "RUNNING"}


# --- uids, ghosts, two schedds ------------------------------------------------------------


def test_short_jobs_of_two_schedds_with_the_same_numbers_have_their_own_users_and_no_ghosts(pool, node):
    script = (
        "executable = /bin/sh\n"
        "arguments = \"-c 'cat $JOBFEATURES/job_id; echo $JOBSTATUS; touch $JOBSTATUS/progress_pct && echo written; sleep 1'\"\n"
    )
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
    for job in jobs:
        told = pool.output(job).split()
        assert told == [number_of(job), f"{FEATURES}/jobstatus/{folder_of(job)}", "written"], job
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


# --- what is told of a job ------------------------------------------------------------------


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
        "sluid": "", "slot": ad["RemoteHost"], "schedd": SCHEDDS["alice"], "accounting": "cgroup",
    }  # fmt: skip
    assert ad["GlobalJobId"].startswith(f"{SCHEDDS['alice']}#{number_of(job)}#")
    start = ad["JobCurrentStartDate"]
    assert keys == {
        "allocated_cpu": str(ad["CpusProvisioned"]),
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


# --- how jobs end -----------------------------------------------------------------------------


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
def test_a_suspended_job_runs_for_the_node_and_goes_on(pool, node):
    job = pool.shell("sleep 3; while :; do :; done")
    node.wait_until_published(job)
    pool.wait(job, 2)
    pool.act("condor_suspend", job)
    pool.wait(job, 7)
    assert node.state(job) == "RUNNING"  # its files do not say
    used = sum(value for _, value in node.page()["batch_job_cpu_seconds_total", job])
    time.sleep(3)
    again = sum(value for _, value in node.page()["batch_job_cpu_seconds_total", job])
    assert again - used < 0.5
    pool.act("condor_continue", job)
    pool.wait(job, 2)
    until(lambda: sum(value for _, value in node.page()["batch_job_cpu_seconds_total", job]) > again + 1)


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


@long
def test_a_draining_node_says_until_when_its_jobs_may_run(pool, node):
    job = pool.shell(
        f"while sleep 1; do cat $MACHINEFEATURES/shutdowntime && {COMMAND}/jobfeatures remaining --explain; done",
        "max_job_retirement_time = 120",
    )
    node.wait_until_published(job)
    pool.wait(job, 2)
    scratch = pool.scratch_of(job)
    plan = (f"{COMMAND}/jobfeatures", "drain", "plan", "--metrics", f"http://{node.address}/metrics")
    assert f"htcondor {job}" in pool.run(*plan)
    pool.run("condor_drain", "-graceful", "wn1.lab")
    try:
        until(lambda: node.value("batch_node_draining", source="htcondor") == 1)
        [slot] = json.loads(
            pool.run("condor_status", "-direct", "wn1.lab", "-json", "-constraint", "PartitionableSlot")
        )
        told = until(lambda: node.value("batch_node_shutdown_time_seconds", source="htcondor"))
        assert abs(told - slot["ExpectedMachineGracefulDrainingCompletion"]) <= 5
        assert told > time.time() + 30
        drains = json.loads(pool.run(f"{COMMAND}/jobfeatures", "drain", "show", "--format", "json"))
        assert [(each["scope"], each["source"]) for each in drains["shutdowns"]] == [("node", "htcondor")]
        assert abs(drains["shutdowns"][0]["shutdown_secs"] - told) <= 5
        seen = until(lambda: pool.run("cat", f"{scratch}/_condor_stdout").splitlines())
        assert abs(int(seen[0]) - told) <= 5  # by the job itself
        until(lambda: "\nshutdown " in pool.run("cat", f"{scratch}/_condor_stdout"))
        assert f"htcondor {job}" in pool.run(*plan)
    finally:
        pool.run("condor_drain", "-cancel", "wn1.lab")
    until(lambda: node.value("batch_node_draining", source="htcondor") == 0)
    assert node.value("batch_node_shutdown_time_seconds", source="htcondor") is None


@long
def test_a_drained_node_has_no_job_once_their_retirement_is_over(pool, node):
    """Each job has its own retirement: the node's time is the last one."""
    soon, late = (
        pool.shell("sleep 300", f"max_job_retirement_time = {secs}") for secs in (5 * PACE, 25 * PACE)
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
        # the time has MachineMaxVacateTime, 15 s, in it, which a job that ends at once does not need
        assert told - 20 <= node.value("batch_job_end_time_seconds", late) <= told + 5
        until(lambda: not node.published())
        assert node.value("batch_node_draining", source="htcondor") == 1
    finally:
        pool.run("condor_drain", "-cancel", "wn1.lab")


# --- shells -----------------------------------------------------------------------------------


SHELL = (
    f'echo "[$JOBFEATURES$MACHINEFEATURES$JOBSTATUS]"; eval "$({COMMAND}/jobfeatures env)"; '
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
    assert told[-4:] == ["[]", number_of(job), "2", "written"]  # it has none of the variables by itself
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
    assert told[-4:] == ["[]", number_of(job), "1", "written"]
    ad = pool.wait_for_end(job)
    assert (ad["InteractiveJob"], ad["Owner"]) == (True, "alice")
    until(lambda: node.state(job) == "UNKNOWN")
    assert node.info(job)["user"] == "alice"


# --- reports ----------------------------------------------------------------------------------


@pytest.fixture
def server(pool, tmp_path):
    """Run Prometheus in the lab's network; return its address there."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed (Debian: prometheus)")
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "batch_nodes", "static_configs": [{"targets": [ADDRESS]}]}],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    net = ("nsenter", "-t", (pool.lab / "init.pid").read_text().strip(), "-n")
    flags = (f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data")
    with (
        (tmp_path / "log").open("wb") as log,
        started([*net, program, *flags, "--web.listen-address=127.0.0.1:9752"], stdout=log, stderr=log),
    ):
        yield "http://127.0.0.1:9752"


def report(pool, server, job, *, status=0):
    command = (f"{COMMAND}/jobfeatures-exporter", "report", job, "--prometheus", server, "--format", "json")
    told = pool.run(*command, user="alice", status=status)
    return json.loads(told)["jobs"] if not status else told


@long
def test_a_report_has_the_values_of_the_history(pool, node, server):
    level(pool)
    busy = "sleep 3; head -c 800000000 /dev/zero | sha1sum; sleep 5"
    job = pool.shell(busy, "request_cpus = 2\nrequest_memory = 200\nallowed_job_duration = 3000")
    other = pool.shell("sleep 300", user="bob")
    assert number_of(job) == number_of(other)
    until(lambda: node.info(job).get("accounting") == "cgroup")
    time.sleep(3)  # that it is scraped
    [running] = report(pool, server, job)
    assert (running["is_running"], running["state"], running["user"]) == (True, "RUNNING", "alice")
    ad = pool.wait_for_end(job)
    until(lambda: node.value("batch_job_end_time_seconds", job))
    time.sleep(3)
    [ended] = report(pool, server, job)
    assert (ended["state"], ended["is_running"]) == (None, False)  # its schedd alone knows
    assert ended["start_secs"] == ad["JobCurrentStartDate"]
    assert abs(ended["end_secs"] - ad["CompletionDate"]) <= 3
    assert (ended["cpus"]["allocated"], ended["wall_limit_secs"]) == (2, 3000)
    assert ended["memory"]["allocated_bytes"] == ad["MemoryProvisioned"] * MIB
    assert abs(ended["cpus"]["used_secs"] - ad["RemoteUserCpu"] - ad["RemoteSysCpu"]) <= 1.0
    report(pool, server, number_of(job), status=2)  # alice's or bob's?
    [of_bob] = report(pool, server, other)
    assert of_bob["user"] == "bob"
    alone = pool.shell("sleep 300")
    until(lambda: node.info(alone).get("accounting") == "cgroup")
    time.sleep(3)
    assert [each["job_id"] for each in report(pool, server, number_of(alone))] == [alone]


# --- the pool ---------------------------------------------------------------------------------


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


def test_a_history_becomes_swf_sss_and_sonar_with_the_values_of_its_ads(pool, tmp_path):
    ok = pool.shell("sleep 2; exit 0")
    failed = pool.shell("sleep 1; exit 3", "request_cpus = 2")
    ads = {job: pool.wait_for_end(job) for job in (ok, failed)}
    file = pool.run("condor_config_val", "HISTORY").strip()
    for kind in ("swf", "sss", "sonar", "records"):
        pool.run("sh", "-c", f"{COMMAND}/jobfeatures convert --to {kind} {file} /tmp/jobs.{kind} 2>/tmp/said")
    swf = [line.split() for line in pool.run("cat", "/tmp/jobs.swf").splitlines() if line[:1] != ";"]
    told = pool.run("condor_history", "-file", file, "-af", "ClusterId").split()
    assert len(swf) == len(told)
    records = {
        each["job_id"]: each for each in map(json.loads, pool.run("cat", "/tmp/jobs.records").splitlines())
    }
    for job, ad in ads.items():
        record = records[job]
        assert record["state"] == ("COMPLETED" if job == ok else "FAILED")
        assert (record["start_secs"], record["end_secs"]) == (ad["JobCurrentStartDate"], ad["CompletionDate"])
        assert (record["user"], record["total_cpus"]) == (ad["Owner"], ad["CpusProvisioned"])
        assert record.get("exit_status") == ad["ExitCode"]
    document = pool.run("cat", "/tmp/jobs.sss")
    assert all(job in document for job in ads)
