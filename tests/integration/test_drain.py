"""Drains with a real Slurm: what an operator sets, and what Slurm announces, reaches a running job."""

import contextlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).parent / "jobfeatures"
SEEN_WITHIN_SECS = 2.0

# A job that writes down each change of what it is told, with the time at which it saw it.
WATCH = """
last=
while :; do
  now=$(cat $MACHINEFEATURES/shutdowntime 2>/dev/null)/$(cat $JOBFEATURES/shutdowntime_job 2>/dev/null)
  [ "$now" = "$last" ] || { echo "$(date +%s.%N) $now"; last=$now; }
  sleep 0.1
done
"""


@pytest.fixture
def drain(slurm):
    """Return a function that runs `jobfeatures drain` as an operator would."""

    def run(*arguments, status=0, **flags):
        extra = [word for name, value in flags.items() for word in (f"--{name.replace('_', '.')}", value)]
        done = subprocess.run(
            [COMMAND, "drain", *arguments, "--features.root", str(slurm.features), *extra],
            capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


class WatchingJob:
    def __init__(self, job_id: str, output: Path) -> None:
        self.job_id = job_id
        self.output = output

    def saw(self) -> list[tuple[float, str]]:
        """Return when the job saw what: SHUTDOWNTIME/SHUTDOWNTIME_JOB."""
        lines = self.output.read_text().splitlines() if self.output.exists() else []
        return [(float(line.split(" ")[0]), line.split(" ")[1]) for line in lines if " " in line]


@pytest.fixture
def watching_job(slurm, until):
    """Start a job that watches its features, and wait until it does."""
    output = Path("/home/alice/drain.out")
    output.unlink(missing_ok=True)
    job_id = slurm.submit(WATCH, "--mem=50", "-t", "10", output=output)
    slurm.wait(job_id, "RUNNING")
    job = WatchingJob(job_id, output)
    until(job.saw)
    assert job.saw()[0][1] == "/"
    return job


def seen_at(job, until, wanted, began):
    """Return when, after `began`, the job saw this."""
    return until(lambda: [when for when, what in job.saw() if what == wanted and when >= began - 0.05])[0]


@pytest.mark.parametrize("with_daemon", [True, False], ids=["daemon", "no daemon"])
def test_a_drain_set_moved_and_cancelled_is_seen_by_a_running_job_within_two_seconds(
    slurm, request, watching_job, drain, until, with_daemon
):
    exporter = request.getfixturevalue("slurm_exporter") if with_daemon else None
    first, second, third = (int(time.time()) + secs for secs in (3600, 7200, 1800))
    job = watching_job.job_id
    for arguments, wanted in (
        (("set", "--at", str(first)), f"{first}/"),
        (("set", "--at", str(second)), f"{second}/"),
        (("set", "--job", job, "--at", str(third)), f"{second}/{third}"),
        (("cancel",), f"/{third}"),
        (("set", "--job", job, "--at", str(first)), f"/{first}"),
        (("cancel", "--job", job), "/"),
    ):
        began = time.time()
        drain(*arguments)
        ended = time.time()  # on a loaded machine a program alone may take two seconds to start
        assert seen_at(watching_job, until, wanted, began) - ended < SEEN_WITHIN_SECS
        if exporter is not None:
            machine, _, own = wanted.partition("/")

            def shown(name):
                return [str(int(value)) for value in exporter.series(name).values()]

            until(
                lambda machine=machine: shown("batch_node_shutdown_time_seconds") == [machine] * bool(machine)
            )
            until(lambda own=own: shown("batch_job_shutdown_time_seconds") == [own] * bool(own))
    time.sleep(1.5)  # the daemon's own writing takes nothing back
    assert watching_job.saw()[-1][1] == "/"


def test_a_drain_survives_a_restart_of_the_daemon_and_reaches_jobs_that_start_later(
    slurm, start_exporter, drain, until
):
    flags = ("--batch.sources", "slurm", "--features.root", str(slurm.features), "--node.name", slurm.node)
    exporter = start_exporter(*flags, environ=slurm.environ)
    at = int(time.time()) + 3600
    drain("set", "--at", str(at))
    exporter.process.terminate()
    exporter.process.wait(60)
    output = Path("/home/alice/drained.out")
    output.unlink(missing_ok=True)
    slurm.submit("cat $MACHINEFEATURES/shutdowntime; sleep 20", "--mem=50", output=output)
    until(lambda: output.exists() and output.read_text() == f"{at}\n")
    again = start_exporter(*flags, environ=slurm.environ)
    until(lambda: list(again.series("batch_node_shutdown_time_seconds").values()) == [at])
    assert (slurm.features / "machinefeatures/shutdowntime").read_text() == f"{at}\n"


def test_what_grace_secs_forbids_is_refused_unless_forced(slurm, watching_job, drain, until):
    soon = int(time.time()) + 100
    grace = {"machine_grace-secs": "3600"}
    said = drain("set", "--at", str(soon), status=1, **grace)
    assert "grace_secs promises them 3600 s" in said
    assert drain("show") == "no shutdown is announced\n"
    drain("set", "--at", "+2h", **grace)
    drain("set", "--at", str(soon), status=1, **grace)  # moving it obeys the same
    shown = json.loads(drain("show", "--format", "json"))
    assert shown["shutdowns"][0]["shutdown_secs"] > soon + 3600
    began = time.time()
    drain("set", "--at", str(soon), "--force", **grace)
    ended = time.time()
    assert seen_at(watching_job, until, f"{soon}/", began) - ended < SEEN_WITHIN_SECS


def test_what_slurm_announces_is_told_to_the_job_and_shown(slurm, start_exporter, watching_job, drain, until):
    exporter = start_exporter(
        "--batch.sources", "slurm", "--features.root", str(slurm.features), "--node.name", slurm.node,
        "--batch.interval", "1s", "--batch.refresh", "1s", environ=slurm.environ,
    )  # fmt: skip

    def draining():
        return exporter.series("batch_node_draining", source="slurm").get((("source", "slurm"),))

    until(lambda: draining() == 0)
    begin = int(time.time()) + 3600
    slurm.run(
        "scontrol", "create", "reservation", "ReservationName=main Flags=x tenance", f"starttime=now+{3600}",
        "duration=10", f"nodes={slurm.node}", "users=root", "flags=maint,ignore_jobs",
    )  # fmt: skip
    try:
        # That name imitates a field: the reservation is left out and named, and nothing else suffers.
        until(lambda: "field occurs twice" in exporter.log.read_text())
        slurm.run(
            "scontrol", "create", "reservation", "ReservationName=main tenance", "starttime=now+3600",
            "duration=10", f"nodes={slurm.node}", "users=root", "flags=maint,ignore_jobs",
        )  # fmt: skip
        slurm.run(  # and one that never begins: it is in five minutes whenever it is asked for
            "scontrol", "create", "reservation", "reservationname=floats", "starttime=now+5minutes",
            "duration=10", f"nodes={slurm.node}", "users=root", "flags=maint,ignore_jobs,time_float",
        )  # fmt: skip
        until(lambda: "TIME_FLOAT" in exporter.log.read_text())
        slurm.run(
            "scontrol", "delete", "reservation=floats"
        )  # for which Slurm soon calls the node in maintenance
        until(lambda: re.match(r"\d+/$", watching_job.saw()[-1][1]))
        told = int(watching_job.saw()[-1][1].rstrip("/"))
        assert abs(told - begin) <= 120
        assert list(exporter.series("batch_node_shutdown_time_seconds", source="slurm").values()) == [told]
        remaining = exporter.series(
            "batch_job_remaining_seconds", job_id=watching_job.job_id, basis="shutdown"
        )
        assert 3300 < next(iter(remaining.values())) < 3700
        plan = drain("plan", "--metrics", f"http://{exporter.address}/metrics", "--format", "json")
        [node] = json.loads(plan)["nodes"]
        assert (node["announced_by"], node["announced"]["shutdown_secs"]) == ("slurm", told)
        assert node["choices"][-1] == node["announced"]  # it comes, whoever announces another
        slurm.run(
            "scontrol", "update", f"nodename={slurm.node}", "state=drain", "reason=new\nNodeName=x State=IDLE",
        )  # fmt: skip
        until(lambda: draining() == 1)
        slurm.run("scontrol", "update", f"nodename={slurm.node}", "state=resume")
        until(lambda: draining() == 0)
    finally:
        for name in ("main Flags=x tenance", "main tenance", "floats"):
            subprocess.run(
                ["scontrol", "delete", f"reservation={name}"], env={**slurm.environ, "PATH": "/usr/bin:/bin"}
            )
        if draining():
            slurm.run("scontrol", "update", f"nodename={slurm.node}", "state=resume")
    until(lambda: watching_job.saw()[-1][1] == "/")


@pytest.mark.parametrize("ask", ["scontrol", pytest.param("rest", marks=pytest.mark.long)])
def test_the_grace_of_a_preempted_job_is_told_to_it_and_its_limit_stays(slurm, start_exporter, until, ask):
    output = Path("/home/alice/preempted.out")
    output.unlink(missing_ok=True)
    exporter = start_exporter(
        "--batch.sources", "slurm", "--features.root", str(slurm.features), "--node.name", slurm.node,
        "--batch.interval", "1s", "--batch.refresh", "1s", "--slurm.ask", ask,
        "--slurm.rest-url", f"unix:{slurm.lab}/run/slurmrestd.sock", environ=slurm.environ,
    )  # fmt: skip
    slurm.run("scontrol", "create", "partition=low", f"nodes={slurm.node}", "gracetime=30", "prioritytier=0")
    try:
        job = slurm.submit(f"trap : TERM; {WATCH}", "-p", "low", "-n4", "--mem=50", "-t", "10", output=output)
        watching = WatchingJob(job, output)
        until(watching.saw)
        until(lambda: exporter.series("batch_job_remaining_seconds", job_id=job, basis="wall_limit"))
        began = time.time()
        slurm.submit("sleep 1", "-n4", "--mem=50", "-t", "1", user="bob")
        until(lambda: "PreemptTime=None" not in slurm.run("scontrol", "-o", "show", "job", job))
        told = until(lambda: watching.saw()[-1][1].partition("/")[2])
        assert began + 29 <= int(told) <= time.time() + 31
        shown = exporter.series("batch_job_shutdown_time_seconds", job_id=job, source="slurm")
        assert list(shown.values()) == [int(told)]
        limit = f"{slurm.features}/jobfeatures/slurm-{job}/wall_limit_secs"
        assert Path(limit).read_text() == "600\n"
    finally:
        slurm.cancel_all()
        until(lambda: not slurm.run("squeue", "-h", "-p", "low"))
        slurm.run("scontrol", "delete", "partition=low")


@pytest.fixture
def empty_group():
    """Leave a control group of a job that Slurm does not know, as a node does where removing one fails."""
    tops = [
        top for name in ("cpuacct", "memory") if (top := Path("/sys/fs/cgroup", name, "slurm_lab1")).is_dir()
    ]
    groups = [top / "uid_0/job_990099" for top in tops]
    for group in groups:
        group.mkdir(parents=True)
    yield bool(groups)
    for group in groups:
        group.rmdir()
        with contextlib.suppress(OSError):  # it has others
            group.parent.rmdir()


def test_the_plan_and_the_victims_of_a_running_node(slurm, slurm_exporter, until, empty_group):
    job_id = slurm.submit("sleep 60", "-n2", "--mem=50", "-t", "5")
    slurm.wait(job_id, "RUNNING")
    until(lambda: slurm_exporter.series("batch_job_kill_waste_core_seconds", job_id=job_id))
    until(lambda: slurm_exporter.series("batch_job_remaining_seconds", job_id=job_id))
    if empty_group:
        until(lambda: slurm_exporter.series("batch_node_empty_job_groups") == {(): 1})
    url = f"http://{slurm_exporter.address}/metrics"

    def call(*arguments):
        return subprocess.run(
            [COMMAND, *arguments, "--metrics", url], capture_output=True, text=True, timeout=240
        )

    done = call("drain", "plan", "--format", "json")
    assert done.returncode == 0, done.stderr
    [node] = json.loads(done.stdout)["nodes"]
    assert [choice["killed"] for choice in node["choices"]] == [[f"slurm {job_id}"], []]
    assert 200 < node["choices"][1]["after_secs"] <= 300
    done = call("victims", "--cores", "2", "--format", "json")
    assert done.returncode == 0, done.stderr
    [node] = json.loads(done.stdout)["nodes"]
    [victim] = node["jobs"]
    assert (victim["job_id"], victim["user"], victim["cores"], victim["needed"]) == (job_id, "alice", 2, True)
