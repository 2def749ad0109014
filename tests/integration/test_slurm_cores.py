"""Cores that a real Slurm keeps from jobs: who runs there, as docs/tuning.md says."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.conftest import PATIENT_SECS, SYSTEM_PATH

LABS = Path(__file__).parents[1] / "labs/slurm"
LAB = Path("/tmp/jobfeatures-lab/cores")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="this machine has no second CPU"),
    pytest.mark.skipif(
        not os.path.isdir("/sys/fs/cgroup/cpuset"),
        reason="this machine has no control groups v1, where it was seen",
    ),
    pytest.mark.skipif(shutil.which("slurmd", path=SYSTEM_PATH) is None, reason="slurmd is not installed"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a private Slurm needs root"),
]


@pytest.fixture
def keep_cores():
    """Return a function that starts a Slurm of one node that keeps cores from jobs, and returns how to ask it."""
    environ = {
        **os.environ,
        "SLURM_LAB": str(LAB),
        "SLURM_LAB_NODES": "1",
        "SLURM_LAB_PREFIX": "core",
        "SLURM_LAB_CPUS": "2",
        "SLURM_LAB_DB": "0",
        "SLURM_LAB_BASEPORT": "18400",
    }

    def keep(words: str, more: str) -> dict[str, str]:
        more = {"SLURM_LAB_NODE": words, "SLURM_LAB_EXTRA": more}
        up = subprocess.run(
            [LABS / "up.sh"], env=environ | more, capture_output=True, text=True, timeout=PATIENT_SECS
        )
        assert up.returncode == 0, up.stdout + up.stderr
        return environ | {"SLURM_CONF": str(LAB / "etc/slurm.conf")}

    yield keep
    subprocess.run(
        [LABS / "down.sh", "--purge"], env=environ, capture_output=True, timeout=PATIENT_SECS, check=False
    )


@pytest.mark.parametrize(
    ("words", "more", "together"),
    [
        ("CoreSpecCount=1", "", False),
        ("CpuSpecList=0", "", False),
        ("CoreSpecCount=1", "TaskPluginParam=SlurmdOffSpec", True),
    ],
)
def test_slurmd_alone_moves_to_cores_that_jobs_do_not_get_or_to_those_of_jobs(
    words, more, together, keep_cores
):
    """This process stands for any other service: nobody moves it."""
    own = os.sched_getaffinity(0)
    environ = keep_cores(words, more)
    slurmd = int((LAB / "run/slurmd.core1.pid").read_text())
    asked = ["srun", "-n1", "-t", "7", "grep", "Cpus_allowed_list", "/proc/self/status"]
    told = subprocess.run(asked, env=environ, capture_output=True, text=True, timeout=PATIENT_SECS)
    assert (told.returncode, told.stderr) == (0, "")
    of_jobs = {int(told.stdout.partition(":")[2])}
    of_slurmd = os.sched_getaffinity(slurmd)
    assert len(of_slurmd) == 1
    assert (of_slurmd == of_jobs) is together
    if words == "CpuSpecList=0":
        assert of_slurmd == {0}
    assert os.sched_getaffinity(0) == own
