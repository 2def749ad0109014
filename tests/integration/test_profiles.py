"""Other exporters' names, against the real process-exporter and a real Prometheus."""

import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jobfeatures_exporter.scrape.profiles import PROFILES

PORT = 17956
GOLDEN = Path(__file__).parents[1] / "fixtures/golden/profiles"


@pytest.fixture
def process_exporter(tmp_path, until):
    """Return the page of a running process-exporter, by family."""
    program = shutil.which("prometheus-process-exporter")
    if program is None:
        pytest.skip("process-exporter is not installed (Debian: prometheus-process-exporter)")
    config = tmp_path / "config.yml"
    config.write_text('process_names:\n  - name: "{{.Comm}}"\n    cmdline: [".+"]\n')
    command = [program, "--config.path", str(config), "--web.listen-address", f"127.0.0.1:{PORT}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def page():
        assert process.poll() is None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=5) as response:
                return response.read().decode()
        except OSError:
            return None

    text = until(page)
    process.terminate()
    process.wait(10)
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_our_names_labels_and_kinds_are_those_of_the_real_process_exporter(process_exporter):
    ours = text_string_to_metric_families((GOLDEN / "process-exporter.txt").read_text())
    checked = 0
    for family in ours:
        theirs = process_exporter[family.name]
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
