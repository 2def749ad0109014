"""Other exporters' names, against the real process-exporter and a real Prometheus."""

import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jobfeatures_exporter.scrape.profiles import PROFILES

PORT = 17956
GOLDEN = Path(__file__).parents[1] / "fixtures/golden/profiles"


EVERYTHING = 'process_names:\n  - name: "{{.Comm}}"\n    cmdline: [".+"]\n'
# A process with 16 threads and one child, all asleep, and one that burns.
PAYLOAD = """
import subprocess, sys, threading
for _ in range(14):
    threading.Thread(target=threading.Event().wait).start()
threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()
print("there", flush=True)
subprocess.call(["sleep", "600"])
"""


@pytest.fixture
def process_exporter(tmp_path, until):
    """Return a function that returns the page of a running process-exporter, by family."""
    program = shutil.which("prometheus-process-exporter")
    if program is None:
        pytest.skip("process-exporter is not installed (Debian: prometheus-process-exporter)")

    def ask(config: str = EVERYTHING):
        path = tmp_path / "config.yml"
        path.write_text(config)
        command = [program, "--config.path", str(path), "--web.listen-address", f"127.0.0.1:{PORT}"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def page():
            assert process.poll() is None
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=240) as response:
                    return response.read().decode()
            except OSError:
                return None

        text = until(page)
        process.terminate()
        process.wait(60)
        return {family.name: family for family in text_string_to_metric_families(text)}

    return ask


@pytest.fixture
def payload():
    """Return a running process group of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", PAYLOAD], stdout=subprocess.PIPE, process_group=0, text=True
    )
    assert process.stdout.readline() == "there\n"
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)
    process.stdout.close()


def test_a_process_group_has_the_figures_of_the_real_process_exporter(
    process_exporter, payload, start_exporter, tmp_path, until
):
    ours = start_exporter(
        "--batch.sources", "", "--features.root", str(tmp_path / "features"), "--jobs.kinds", "batch,group",
        "--metrics.profile", "process-exporter",
    )  # fmt: skip

    def group():
        names = [dict(each)["groupname"] for each in ours.series("namedprocess_namegroup_num_procs")]
        return next((each for each in names if each.startswith(f"none/{payload.pid}@")), None)

    name = until(group)
    theirs = process_exporter(f"process_names:\n  - name: payload\n    cmdline: ['{PAYLOAD[1:20]}']\n")
    compared = {}
    for family in ("num_procs", "num_threads", "states"):
        for each in theirs[f"namedprocess_namegroup_{family}"].samples:
            labels = {**each.labels, "groupname": name}
            [value] = ours.series(each.name, **labels).values()
            assert (each.labels, value) == (each.labels, each.value)
            compared[family, each.labels.get("state", "")] = value
    assert (compared["num_procs", ""], compared["num_threads", ""]) == (2, 17)
    assert (compared["states", "Running"], compared["states", "Sleeping"]) == (1, 17)


def test_our_names_labels_and_kinds_are_those_of_the_real_process_exporter(process_exporter):
    theirs_by_name = process_exporter()
    ours = text_string_to_metric_families((GOLDEN / "process-exporter.txt").read_text())
    checked = 0
    for family in ours:
        theirs = theirs_by_name[family.name]
        assert family.type == theirs.type
        for place in range(len(family.samples)):
            mine = family.samples[place]
            same = [each for each in theirs.samples if each.name == mine.name]
            assert {tuple(sorted(each.labels)) for each in same} == {tuple(sorted(mine.labels))}
            for name in mine.labels.keys() - {"groupname"}:
                assert mine.labels[name] in {each.labels[name] for each in same}
            checked += 1
    assert checked > 10


def test_promtool_reads_a_live_page_with_all_profiles_within_its_budget(start_exporter, tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")

    def page(name: str, *more: str) -> str:  # of a daemon with a features.root of its own
        return start_exporter(
            "--batch.sources", "", "--features.root", str(tmp_path / name), "--jobs.kinds", "batch,group",
            "--metrics.profile", ",".join(PROFILES), *more,
        ).get()  # fmt: skip

    full = page("full")
    lines = [line for line in full.splitlines() if not line.startswith("#")]
    assert any(line.startswith("namedprocess_namegroup_num_procs{") for line in lines)
    bound = len(lines) // 3  # processes come and go between two looks: two thirds of them may go
    bounded = page("bounded", "--metrics.max-series", str(bound))
    assert sum(not line.startswith("#") for line in bounded.splitlines()) <= bound
    assert re.search(
        r'^batch_job_cpu_seconds_total\{batch_system="none",job_id="other"', bounded, re.MULTILINE
    )
    for shown in (full, bounded):
        done = subprocess.run([promtool, "check", "metrics"], input=shown.encode(), capture_output=True)
        said = [line for line in (done.stdout + done.stderr).decode().splitlines() if line]
        assert [line for line in said if line.startswith("batch_")] == []
        assert not any("error while linting" in line for line in said)
