"""Nodes that ask the controller role, against what the real Slurm tells them itself."""

import re
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from jobfeatures.batch.controller import ControllerSettings
from jobfeatures.batch.controller.protocol import make_token
from jobfeatures.batch.controller.source import ControllerClient, ControllerSource
from jobfeatures.batch.slurm.answers import Scontrol
from jobfeatures.batch.slurm.basics import is_plain_id
from jobfeatures.batch.slurm.source import SlurmSource
from jobfeatures.errors import SourceError
from jobfeatures.records.model import JobState
from jobfeatures.system.clock import SystemClock

from ..exporter.web.conftest import Authority

SECRET = "0123456789abcdef" * 4
# Of a job's name: what imitates another record, and what only has a newline.
NAMES = (
    'we ird | "n" ü',
    "x\nJobId=1 JobName=y UserId=root(0) JobState=RUNNING NodeList=lab1",
    "a\nb",
)
MISSING = {"planned_secs", "total_nodes", "total_gpus", "reason", "eligible_secs", "priority", "reservation"}


@pytest.fixture
def controller_role(slurm, start_exporter, tmp_path):
    """Start the controller role with TLS, and return what asks it as a node."""
    authority = Authority(tmp_path)
    certificate, key = authority.make("server")
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "web.yml").write_text(f"tls_server_config:\n  cert_file: {certificate}\n  key_file: {key}\n")
    exporter = start_exporter(
        "--role", "controller", "--batch.sources", "slurm", "--controller.interval", "2s",
        "--controller.listen", "127.0.0.1:0", "--controller.secret-file", str(tmp_path / "secret"),
        "--web.config.file", str(tmp_path / "web.yml"), "--web.config-for", "nodes",
        environ=slurm.environ, ready=lambda log: "answering nodes" in log,
    )  # fmt: skip
    address = re.search(r'"answering nodes" address=(\S+)', exporter.log.read_text())[1]

    def make(node):
        token = tmp_path / f"{node}.token"
        token.write_text(make_token(SECRET.encode(), node))
        token.chmod(0o600)
        config = ControllerSettings(
            url=f"https://{address}", token_file=str(token), ca_file=str(authority.path)
        )
        return ControllerClient(config, SystemClock(), node, 10.0)

    make.exporter = exporter
    return make


@pytest.fixture
def scontrol(slurm, monkeypatch):
    """Return a function that runs scontrol as root; our own commands find this Slurm too."""
    for name, value in slurm.environ.items():
        monkeypatch.setenv(name, value)
    return lambda *words: slurm.run("scontrol", *words)


def reported_since(client, until, since_secs, *job_ids):
    """Return an answer whose question is newer, and that knows these jobs; a node may ask twice a second."""

    def told():
        try:
            found = client.ask()
        except SourceError as error:
            assert "no answer of the batch system yet" in str(error)  # noqa: PT017  # it has just started
            return None
        return found.taken_at_secs > since_secs and {*job_ids} <= comparable(found).keys() and found

    return until(told, 60, 0.7)


def comparable(table):
    """Return what both ways tell; what only squeue reports about a job is left out, and the answer's own times."""
    unknown = dict.fromkeys(MISSING)
    return {key.job_id: replace(job, **unknown) for key, job in table.jobs.items()}


def test_a_node_is_told_what_it_would_be_told_itself(slurm, controller_role, scontrol, until):
    second = f"{slurm.node[:-1]}2"
    done = slurm.submit("true", "-n1", "--mem=10")
    slurm.wait(done, "COMPLETED")

    def submit(*options):
        words = ("sbatch", "--parsable", "-D", "/home/bob", "-o", "/dev/null", *options)
        slurm.submitted.append(slurm.run(*words, user="bob", stdin="#!/bin/sh\nsleep 300\n").strip())
        return slurm.submitted[-1]

    wide = submit("-N2", "-n2", "--mem=30", "--time=5", "--gres=gpu:2")
    array = submit("--array=1-2", "--mem-per-cpu=20", "--time=4", "-p", "long", "-w", second)
    named = [slurm.submit("sleep 300", "-n1", "--mem=40", "-J", name) for name in NAMES]
    for each in (wide, array, *named):
        slurm.wait(each, "RUNNING")
    held = slurm.submit("sleep 5", "-H")
    scontrol("suspend", named[0])
    scontrol("update", f"JobId={named[2]}", "TimeLimit=9")
    scontrol("update", f"NodeName={second}", "State=DRAIN", "Reason=State=IDLE of no importance")
    start = int(time.time()) + 3600
    scontrol(
        "create", "reservation", "reservationname=maint Nodes=x", f"starttime={time.strftime('%FT%T', time.localtime(start))}",
        "duration=60", "flags=maint,ignore_jobs", f"nodes={slurm.node}", "users=root",
    )  # fmt: skip
    try:
        for node in (slurm.node, second):
            asked = controller_role(node)
            told = reported_since(asked, until, time.time())
            itself = SlurmSource(SystemClock(), Scontrol(node_name=node).ask, node_name=node, refresh_secs=1)
            own = itself.poll_jobs(told.jobs.keys())
            assert comparable(told) == comparable(own)
            assert told.node == own.node
            assert told.complete
            assert wide in comparable(told)
            assert held not in comparable(told)
        jobs = comparable(told)
        assert (jobs[wide].allocated_cpus, jobs[wide].gpus, jobs[wide].allocated_gpus) == (1, ("0", "1"), 2)
        assert told.node.draining
        first = reported_since(controller_role(slurm.node), until, 0.0)
        assert comparable(first)[named[0]].state is JobState.SUSPENDED
        assert comparable(first)[done].state is JobState.COMPLETED
        assert first.node.shutdowns == (start,)
        assert comparable(first)[named[2]].limits.wall_secs == 540
    finally:
        scontrol("resume", named[0])
        scontrol("delete", "reservationname=maint Nodes=x")
        scontrol("update", f"NodeName={second}", "State=RESUME")


def test_while_slurm_is_down_the_controller_role_says_so_and_then_goes_on(slurm, controller_role, until):
    job = slurm.submit("sleep 120", "-n1", "--mem=30")
    slurm.wait(job, "RUNNING")
    client = controller_role(slurm.node)
    reported_since(client, until, 0.0, job)
    pid = int((slurm.lab / "run/slurmctld.pid").read_text())
    subprocess.run(["kill", "-STOP", str(pid)], check=True)
    try:
        # The commands wait for slurmctld for a minute and more: what is told has the age that it has.
        time.sleep(6)
        told = client.ask()
        assert time.time() - told.taken_at_secs > 5
        assert job in comparable(told)
    finally:
        subprocess.run(["kill", "-CONT", str(pid)], check=True)
    reported_since(client, until, time.time(), job)


def test_a_node_goes_on_without_the_controller_role(slurm, controller_role, scontrol, until, monkeypatch):
    known = slurm.submit("sleep 120", "-n1", "--mem=30")
    slurm.wait(known, "RUNNING")
    client = controller_role(slurm.node)
    monkeypatch.setattr("jobfeatures.batch.controller.source.make_client", lambda *_, **__: client)
    source = ControllerSource(
        ControllerSettings(fallback_secs=2.0), SystemClock(), slurm.node, "slurm", timeout_secs=10.0, is_plain=is_plain_id,
        ask_one=Scontrol(node_name=slurm.node).ask_about_job,
    )  # fmt: skip
    reported_since(client, until, 0.0, known)
    time.sleep(1)
    source.poll_jobs(())
    controller_role.exporter.process.terminate()
    controller_role.exporter.process.wait(60)
    new = slurm.submit("sleep 120", "-n1", "--mem=30", "-t", "3", user="bob")
    slurm.wait(new, "RUNNING")
    keys = {job.key for job in source._table.jobs.values()}
    keys |= {next(iter(keys))._replace(job_id=new)}

    def told():
        try:
            return source.poll_jobs(keys)
        except SourceError as error:
            assert "controller role" in str(error)  # noqa: PT017  # it fails and answers in turns
            return None

    table = until(lambda: (found := told()) and new in comparable(found) and found)
    assert comparable(table)[new].limits.wall_secs == 180
    assert known in comparable(table)
    assert table.complete is False


def test_a_node_daemon_shows_what_the_controller_role_tells(
    slurm, controller_role, start_exporter, until, tmp_path
):
    job = slurm.submit("sleep 120", "-n1", "--mem=30", "-t", "7")
    slurm.wait(job, "RUNNING")
    client = controller_role(slurm.node)
    reported_since(client, until, 0.0, job)
    log = controller_role.exporter.log.read_text()
    address = re.search(r'"answering nodes" address=(\S+)', log)[1]
    node = start_exporter(
        "--batch.sources", "slurm", "--slurm.ask", "controller", "--controller.url", f"https://{address}",
        "--controller.token-file", str(tmp_path / f"{slurm.node}.token"), "--controller.ca-file", str(tmp_path / "ca.pem"),
        "--node.name", slurm.node, "--features.root", str(slurm.features), "--batch.interval", "2s",
        "--slurm.scontrol", "/no/such/scontrol",
    )  # fmt: skip
    assert until(lambda: node.info(job).get("user")) == "alice"
    assert list(node.series("batch_job_wall_limit_seconds", job_id=job).values()) == [420]
    assert list(node.series("batch_exporter_source_up", source="slurm").values()) == [1]
    [ahead] = until(
        lambda: list(node.series("batch_exporter_source_clock_ahead_seconds", source="slurm").values())
    )
    assert abs(ahead) <= 1, "it is one machine"


def test_tokens_are_printed_for_a_list_of_nodes(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    done = subprocess.run(
        [sys.executable, "-m", "jobfeatures_exporter", "node-token", "n[1-2]", "--controller.secret-file", str(secret)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "".join(f"n{n} {make_token(SECRET.encode(), f'n{n}')}\n" for n in (1, 2))
