"""A real Prometheus takes what the daemon serves, in both formats."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.running import started

BIN = Path(sys.executable).parent


def test_prometheus_scrapes_a_running_daemon_and_takes_every_sample(
    prometheus, start_exporter, tmp_path, until
):
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "job.xml").write_text(
        f"<Job><Id>j.1</Id><State>Running</State><User>root</User><StartTime>{int(time.time())}</StartTime>"
        f"<Processors>1</Processors><TaskGroup><Task><Process>{os.getpid()}</Process></Task></TaskGroup></Job>"
    )
    exporter = start_exporter(
        "--batch.sources",
        "spool",
        "--spool.directory",
        str(spool),
        "--features.root",
        str(tmp_path / "features"),
    )
    query = prometheus(exporter.address)
    until(lambda: 1.0 in query('up{job="batch_nodes"}').values())
    served = until(lambda: query('batch_job_cpu_seconds_total{job_id="j.1"}'))
    assert len(served) == 2
    assert query("rate(batch_node_cpu_seconds_total[1m])") is not None
    lines = [line for line in exporter.get().splitlines() if line and not line.startswith("#")]
    [scraped] = query('scrape_samples_scraped{job="batch_nodes"}').values()
    assert abs(scraped - len(lines)) <= 2  # a core or a kind of reading may come and go


def test_promtool_has_nothing_to_say_about_a_live_page(start_exporter, tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    exporter = start_exporter(
        "--batch.sources", "", "--features.root", str(tmp_path / "features"), "--jobs.kinds", "batch,group"
    )
    done = subprocess.run([promtool, "check", "metrics"], input=exporter.get().encode(), capture_output=True)
    assert done.stdout + done.stderr == b""
    assert done.returncode == 0


def test_promtool_has_nothing_to_say_about_any_metric_of_both_roles():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    page = Path(__file__).parents[1] / "fixtures/golden/metrics.txt"  # every metric that is declared
    done = subprocess.run([promtool, "check", "metrics"], input=page.read_bytes(), capture_output=True)
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 0)


def test_prometheus_takes_other_exporters_names_and_the_sums_of_a_budget(
    prometheus, start_exporter, tmp_path, until
):
    words = (
        "--batch.sources", "", "--jobs.kinds", "batch,group", "--metrics.profile", "process-exporter,ceems",
        "--features.root",
    )  # fmt: skip
    whole = start_exporter(*words, str(tmp_path / "whole"))
    with urllib.request.urlopen(f"http://{whole.address}/metrics") as response:
        bound = (
            len(re.findall(rb"(?m)^\w", response.read())) - 45
        )  # some of this machine's groups are left over
    exporter = start_exporter(*words, str(tmp_path / "bounded"), "--metrics.max-series", str(bound))
    query = prometheus(exporter.address)
    until(lambda: 1.0 in query('up{job="batch_nodes"}').values())
    [others] = until(lambda: query('batch_job_processes{batch_system="none",job_id="other"}')).values()
    assert others > 0
    assert query('namedprocess_namegroup_num_procs{groupname=~"none/.+"}')
    [scraped] = query('scrape_samples_scraped{job="batch_nodes"}').values()
    assert bound / 2 < scraped <= bound
    [dropped] = query("batch_exporter_series_over_budget").values()
    assert dropped > 0


def test_a_drain_of_several_nodes_is_planned_from_a_real_prometheus(
    prometheus, start_exporter, tmp_path, until
):
    """Two nodes with a job each: the order of nodes and the cheapest time come from what Prometheus has scraped."""
    now = int(time.time())
    exporters = []
    for name, elapsed, limit in (("a", 3000, 3600), ("b", 10, 7200)):
        spool = tmp_path / f"spool-{name}"
        spool.mkdir()
        (spool / "job.xml").write_text(
            f"<Job><Id>{name}.1</Id><State>Running</State><User>root</User><StartTime>{now - elapsed}</StartTime>"
            f"<Processors>1</Processors><Requested><Duration>{limit}</Duration></Requested></Job>"
        )
        flags = {
            "--batch.sources": "spool",
            "--spool.directory": spool,
            "--features.root": tmp_path / f"features-{name}",
            "--path.cgroup": tmp_path,  # no real job of this machine
            "--machine.total-cpu": 2,
        }
        exporters.append(start_exporter(*(str(word) for pair in flags.items() for word in pair)))
    query = prometheus(*(exporter.address for exporter in exporters))
    until(lambda: len(query('batch_job_kill_waste_core_seconds{job_id=~"[ab].1"}')) == 2)
    command = [
        BIN / "jobfeatures",
        "drain",
        "plan",
        "--prometheus",
        query.address,
        "--format",
        "json",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    best = {node["node"]: node["best"] for node in plan["nodes"]}
    nearly_done, just_begun = (best[exporter.address] for exporter in exporters)
    assert nearly_done["killed"] == []  # 10 minutes of an idle CPU are less than 50 minutes of work
    assert 500 <= nearly_done["after_secs"] <= 600
    assert len(just_begun["killed"]) == 1  # a few seconds of work are less than two hours of an idle CPU
    assert just_begun["waste_core_secs"] < nearly_done["waste_core_secs"]
    assert plan["nodes"][0]["node"] == exporters[1].address  # the cheapest goes first


def test_node_exporter_shows_what_is_written_to_its_folder_beside_its_own(tmp_path, until):
    program = shutil.which("prometheus-node-exporter")
    if program is None:
        pytest.skip("node_exporter is not installed (Debian: prometheus-node-exporter)")
    folder = tmp_path / "textfile"
    folder.mkdir()
    (tmp_path / "job.xml").write_text(
        f"<Job><Id>j.1</Id><State>Running</State><User>root</User><StartTime>{int(time.time())}</StartTime>"
        f"<Processors>1</Processors><TaskGroup><Task><Process>{os.getpid()}</Process></Task></TaskGroup></Job>"
    )
    settings = ["--batch.sources=spool", f"--spool.directory={tmp_path}"]
    subprocess.run([BIN / "jobfeatures-exporter", "textfile", folder, *settings], check=True, timeout=240)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = [f"--collector.textfile.directory={folder}", f"--web.listen-address=127.0.0.1:{port}"]
    with started([program, *flags], stderr=subprocess.DEVNULL):

        def page():
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer,
            ):
                return answer.read().decode()

        text = until(page)  # status 500, were a name of ours one of its own
    assert "\nnode_textfile_scrape_error 0\n" in text
    assert re.search(r'^batch_job_cpu_seconds_total\{.*job_id="j.1".*\} [0-9.e+-]+$', text, re.MULTILINE)
    assert "\nnode_cpu_seconds_total{" in text
