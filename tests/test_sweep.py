"""What killed labs have left in the kernel is removed, nothing of one that runs; folders stand for control groups."""

import shutil
import subprocess
from pathlib import Path

import pytest

SWEEP = Path(__file__).parent / "labs/sweep.sh"


@pytest.mark.program
@pytest.mark.skipif(shutil.which("pgrep") is None, reason="needs procps")
def test_empty_groups_of_a_lab_that_runs_stay(tmp_path):
    script = tmp_path / "isolated.sh"
    script.write_text("read -r _\n")
    with subprocess.Popen(["bash", script], stdin=subprocess.PIPE) as lab:
        runs = f"isolated-{lab.pid}"
        for name in (runs, f"{runs}0000000"):  # no process has such a number
            (tmp_path / f"cpu/{name}/slurm_lab1/uid_6001/job_7").mkdir(parents=True)
            (tmp_path / name / "slice").mkdir(parents=True)
        subprocess.run([SWEEP, tmp_path], check=True)
        lab.communicate(b"\n")
    top = {str(each.relative_to(tmp_path)) for each in tmp_path.glob("**/isolated-*")}
    assert top == {runs, f"cpu/{runs}"}
    assert (tmp_path / f"cpu/{runs}/slurm_lab1/uid_6001/job_7").is_dir()
