"""A file of the node that blocks its reader, on the real kernel: a scrape answers with what there is."""

import importlib.util
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.node.daemon import Daemon
from tests.running import until

ROOT = Path(__file__).parents[2]


def load_lab(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tests/labs/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


blockingfile = load_lab("blockingfile")
pytestmark = pytest.mark.skipif(blockingfile.why_not() is not None, reason=str(blockingfile.why_not()))


@pytest.fixture
def procfs(tmp_path):
    """A copy of the captured /proc."""
    shutil.copytree(ROOT / "tests/fixtures/proc", tmp_path / "proc")
    return tmp_path / "proc"


@pytest.fixture
def daemon(procfs, tmp_path):
    flags = {
        "features.root": str(tmp_path / "features"),
        "batch.sources": "",
        "path.procfs": str(procfs),
        "path.cgroup": str(ROOT / "tests/fixtures/cgroup-v1"),
        "sample.interval": "100ms",
        "scrape.deadline": "300ms",
    }
    daemon = Daemon(load_config(ExporterConfig, flags=flags, environ={}))
    yield daemon
    daemon.stop()


@pytest.fixture
def block(daemon):
    """Return a function that makes a file block; it is let go before the daemon is stopped."""
    made = []

    def block(path):
        made.append(blockingfile.BlockingFile(str(path)))
        return made[-1]

    yield block
    for each in made:
        each.close()


def scrape(daemon):
    started = time.monotonic()
    text = daemon.exposition(openmetrics=False).decode()
    return text, time.monotonic() - started


def value(text, name):
    [line] = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


def test_a_read_that_blocks_leaves_the_last_values_and_their_time(daemon, procfs, block):
    daemon.start()
    until(lambda: 'job_id="10"' in scrape(daemon)[0])
    waiting = block(procfs / "loadavg")
    assert waiting.asked.wait(60)
    time.sleep(0.6)  # what was fresh is no longer
    text, took_secs = scrape(daemon)
    assert took_secs < 30
    assert 'batch_job_cpu_seconds_total{batch_system="slurm",job_id="10",mode="user"}' in text
    stale = value(text, "batch_node_sample_timestamp_seconds")
    assert time.time() - stale > 0.5
    waiting.let_go()
    until(lambda: value(scrape(daemon)[0], "batch_node_sample_timestamp_seconds") > stale)


def test_a_node_that_blocks_from_the_start_still_has_the_exporters_own_series(daemon, procfs, block):
    waiting = block(procfs / "meminfo")
    daemon.start()
    assert waiting.asked.wait(60)
    text, took_secs = scrape(daemon)
    assert took_secs < 30
    assert "batch_exporter_build_info" in text
    assert "batch_node_sample_timestamp_seconds" not in text
    assert not daemon.is_ready


STARTS = """
import os, sys, threading, time
sys.path.insert(0, sys.argv[1])
from blockingfile import BlockingFile
from jobfeatures.system.command import BackgroundProcess, conversation, run_command

def talk():
    with conversation(["/bin/cat"], end_secs=0.1):
        pass

starts = {
    "run": lambda: run_command(["true"], timeout_secs=60),
    "talk": talk,
    "beside": lambda: BackgroundProcess(["true"], {}).end(),
}
file = BlockingFile(sys.argv[2])
threading.Thread(target=lambda: open(sys.argv[2], "rb").read(), daemon=True).start()
file.asked.wait(60)
threading.Thread(target=starts[sys.argv[3]], daemon=True).start()
for _ in range(10):
    time.sleep(0.1)
print("goes on", flush=True)
file.let_go()
os._exit(0)
"""


@pytest.mark.program
@pytest.mark.parametrize("way", ["run", "talk", "beside"])
def test_a_program_that_is_started_while_a_file_blocks_does_not_hold_up_other_threads(tmp_path, way):
    path = tmp_path / "meminfo"
    path.touch()
    command = [sys.executable, "-c", STARTS, str(ROOT / "tests/labs"), str(path), way]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        try:
            said, _ = process.communicate(timeout=60)
        finally:
            subprocess.run(["umount", "-f", "-l", str(path)], check=False, capture_output=True)
            process.kill()
    assert said == b"goes on\n"
