"""What is told of jobs that have ended: reports, converted histories."""

from __future__ import annotations

import json
import shutil
import time

import pytest

from tests.integration.condorpool import ADDRESS, COMMAND, level, number_of, until
from tests.running import started

long = pytest.mark.long
MIB = 2**20


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
