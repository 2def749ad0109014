"""What the report says of jobs that a real Prometheus has seen on real exporters, while they run and afterwards."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

BIN = Path(sys.executable).parent
BURN = (
    "import time; end = time.process_time() + {secs}\nwhile time.process_time() < end: pass\ntime.sleep(600)"
)
HOSTILE = 'a.b|c"d"\\'


class Node:
    """An exporter on a spool folder of its own, with processes as jobs."""

    def __init__(self, folder, start_exporter):
        self.spool = folder / "spool"
        self.spool.mkdir(parents=True)
        self.processes = {}
        self.exporter = start_exporter(
            "--batch.sources", "spool", "--spool.directory", str(self.spool), "--features.root", str(folder / "f"),
            "--path.cgroup", str(folder), "--sample.interval", "1s",
        )  # fmt: skip

    def run(self, job_id, *, cpus=2, burn_secs=1.0, start_secs=None, name="x.sh"):
        process = subprocess.Popen([sys.executable, "-c", BURN.format(secs=burn_secs)])
        self.processes[job_id] = process, int(start_secs or time.time()), cpus, name
        self._tell(job_id, "Running")
        return process

    def end(self, job_id, state="Completed"):
        self.processes[job_id][0].kill()
        self.processes[job_id][0].wait()
        self._tell(job_id, state, f"<EndTime>{int(time.time())}</EndTime>")

    def _tell(self, job_id, state, more=""):
        process, start, cpus, name = self.processes[job_id]
        new = self.spool / ".new"
        new.write_text(
            f"<Job><Id>{escape(job_id)}</Id><State>{state}</State><Name>{escape(name)}</Name><User>root</User>"
            f"<StartTime>{start}</StartTime>{more}<Processors>{cpus}</Processors>"
            f"<Requested><Duration>3600</Duration><Memory>256</Memory></Requested>"
            f"<TaskGroup><Task><Process>{process.pid}</Process></Task></TaskGroup></Job>"
        )
        os.rename(new, self.spool / f"{'%02x' % (hash(job_id) & 0xFFFF)}.xml")

    def kill_all(self):
        for process, *_ in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


@pytest.fixture
def make_node(tmp_path, start_exporter):
    made = []

    def make(name):
        made.append(Node(tmp_path / name, start_exporter))
        return made[-1]

    yield make
    for node in made:
        node.kill_all()


def ask(query, job_id, *flags):
    command = [
        BIN / "jobfeatures-exporter",
        "report",
        job_id,
        "--prometheus",
        query.address,
        "--format",
        "json",
        *flags,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["jobs"]


def test_a_job_on_two_nodes_while_it_runs_and_after_its_end(make_node, prometheus, until):
    nodes = [make_node("a"), make_node("b")]
    query = prometheus(*(node.exporter.address for node in nodes))
    began = int(time.time())
    for node, burn_secs in zip(nodes, (2.0, 0.5), strict=True):
        node.run("j.1", burn_secs=burn_secs, start_secs=began)
        node.run(HOSTILE, name="\x1b[2Jx".replace("\x1b", "\N{BOX DRAWINGS LIGHT HORIZONTAL}"))
    used = 'sum(batch_job_cpu_seconds_total{job_id="j.1"}) > 2.4'
    until(lambda: query(used), 60)
    until(lambda: query('count(batch_job_allocated_cpus{job_id="j.1"}) == 2'))

    [running] = ask(query, "j.1")
    assert (running["state"], running["is_running"], running["end_secs"]) == ("RUNNING", True, None)
    assert running["cpus"]["allocated"] == 4
    assert 2.4 < running["cpus"]["used_secs"] < 4
    assert len(running["nodes"]) == 2
    [odd] = ask(query, HOSTILE)
    assert odd["job_id"] == HOSTILE

    for node in nodes:
        node.end("j.1", "Completed")
    until(lambda: query('count(batch_job_end_time_seconds{job_id="j.1"}) == 2'))
    until(lambda: query('batch_job_state{job_id="j.1",state="COMPLETED"}'))
    time.sleep(3)  # two scrapes more, so that the last values are there
    [ended] = ask(query, "j.1")
    assert (ended["state"], ended["is_running"]) == ("COMPLETED", False)
    assert ended["start_secs"] == began
    assert began < ended["end_secs"] <= time.time()
    assert ended["elapsed_secs"] == ended["end_secs"] - began
    by_node = sorted(node["cpu_secs"] for node in ended["nodes"])
    assert 0.4 < by_node[0] < 1.2
    assert 1.9 < by_node[1] < 3
    assert ended["cpus"]["used_secs"] == pytest.approx(sum(by_node))
    assert ended["memory"]["allocated_bytes"] == 2 * 256 * 2**20
    assert 2 * 2**20 < ended["memory"]["peak_bytes"] < 2 * 100 * 2**20
    assert ended["wall_limit_secs"] == 3600
    assert ended["notes"] == []

    text = subprocess.run(
        [BIN / "jobfeatures-exporter", "report", "j.1", "--prometheus", query.address],
        capture_output=True,
        text=True,
    )
    assert "2 nodes" in text.stdout
    assert "completed" in text.stdout


def test_an_id_that_is_used_again_gives_the_last_run_and_by_at_the_one_before(make_node, prometheus, until):
    node = make_node("a")
    query = prometheus(node.exporter.address)
    node.run("7", burn_secs=2.0)
    first_start = node.processes["7"][1]
    until(lambda: query('sum(batch_job_cpu_seconds_total{job_id="7"}) > 1.9'), 60)
    node.end("7")
    until(lambda: query('batch_job_end_time_seconds{job_id="7"}'))
    time.sleep(4)  # what is asked for is what was scraped a second before the second run
    node.run("7", burn_secs=0.1)
    second_start = node.processes["7"][1]
    until(lambda: query(f'batch_job_start_time_seconds{{job_id="7"}} == {second_start}'))
    until(lambda: query('batch_job_cpu_seconds_total{job_id="7",mode="user"} < 1'), 60)

    def told():
        [second] = ask(query, "7")
        total = sum(node.exporter.series("batch_job_cpu_seconds_total", job_id="7").values())
        return second if second["cpus"]["used_secs"] == pytest.approx(total, abs=0.03) else None

    second = until(told, 60)  # the last scrape may be of before
    assert (second["is_running"], second["start_secs"]) == (True, second_start)
    [note] = [each for each in second["notes"] if "earlier run" in each]
    assert f"--at {second_start - 1}" in note
    [first] = ask(query, "7", "--at", str(second_start - 1))
    assert (first["start_secs"], first["state"], first["is_running"]) == (first_start, "COMPLETED", False)
    assert first["cpus"]["used_secs"] > 1.9


def test_a_job_of_nobody_and_a_server_that_is_not_there(make_node, prometheus, until):
    query = prometheus(make_node("a").exporter.address)
    until(lambda: query("up == 1"))
    for flags, said in (
        (["--prometheus", query.address], "no samples of job 'x'"),
        (["--prometheus", "http://127.0.0.1:1"], "refused"),
    ):
        done = subprocess.run(
            [BIN / "jobfeatures-exporter", "report", "x", *flags], capture_output=True, text=True
        )
        assert done.returncode == 1
        assert said in done.stderr
        assert done.stdout == ""
