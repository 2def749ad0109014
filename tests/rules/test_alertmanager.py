"""The example of Alertmanager's routes: who is told what."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CONFIGURATION = Path(__file__).parents[2] / "grafana/alertmanager.yml"

pytestmark = pytest.mark.program


@pytest.fixture(scope="module")
def amtool():
    path = shutil.which("amtool")
    if path is None:
        pytest.skip("amtool is not installed (Debian: prometheus-alertmanager)")
    return lambda *words: subprocess.run([path, *words], capture_output=True, text=True, check=False)


def test_amtool_takes_it(amtool):
    done = amtool("check-config", str(CONFIGURATION))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        ({"concern": "job", "user": "alice", "alertname": "BatchJobNearWallLimit"}, "owner"),
        ({"concern": "job", "alertname": "BatchJobNearWallLimit"}, "operators"),  # nobody knows whose
        ({"concern": "job", "user": "user-5f0e3a2b1c4d"}, "owner"),  # a hash, where names are hidden
        ({"concern": "job", "user": "x@evil.org, all"}, "operators"),
        ({"concern": "node", "user": "alice"}, "operators"),
        ({"concern": "exporter"}, "operators"),
    ],
)
def test_the_owner_is_told_about_the_job_and_operators_about_the_rest(amtool, labels, receiver):
    words = [f"{name}={value}" for name, value in labels.items()]
    done = amtool("config", "routes", "test", f"--config.file={CONFIGURATION}", *words)
    assert done.stdout.split() == [receiver], done.stdout + done.stderr
