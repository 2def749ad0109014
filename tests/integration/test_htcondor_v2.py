"""HTCondor on control groups v2 alone: tests of the folder htcondor, run in a virtual machine of one slow CPU."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

LABS = Path(__file__).parents[1] / "labs/htcondor"
TIMEOUT_SECS = 3600


@pytest.mark.long
@pytest.mark.timeout(TIMEOUT_SECS + 300)
def test_jobs_on_control_groups_v2(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("a private HTCondor needs root: its nodes start jobs as other users")
    if not shutil.which("debootstrap") or not shutil.which("linux.uml"):
        pytest.skip("needs debootstrap and user-mode-linux")
    lab = tmp_path / "lab"
    for folder in lab.parents[:3]:
        folder.chmod(0o755)  # alice and bob are to reach it
    environ = {**os.environ, "CONDOR_LAB": str(lab), "UML_TIMEOUT": str(TIMEOUT_SECS)}
    tests = ["python3", "-m", "pytest", "-n0", "-v", "-m", "integration", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [LABS / "up.sh", "machine", *tests, "--durations=0", "tests/integration/htcondor"],
            env=environ, capture_output=True, text=True, timeout=TIMEOUT_SECS + 200,
        )  # fmt: skip
    finally:
        subprocess.run([LABS / "down.sh"], env=environ, timeout=240, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    [passed] = re.findall(r"(\d+) passed", done.stdout)
    assert int(passed) > 20
    assert "skipped" not in done.stdout
