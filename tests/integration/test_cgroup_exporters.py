"""The exporters of control groups whose names ours has, beside ours on real groups of v1 and v2.

`JOBFEATURES_DATA` may hold ``originals/treydock/cgroup_exporter`` and ``originals/plazonic/cgroup_exporter``,
programs that whoever tests has built, and ``originals/guilbaults/slurm-job-exporter.py``; tried with f01693c
(2026-08-18), 78f93c4 (2026-08-20) and 1620925 (2026-04-15). What differs stands in docs/comparison.md.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCENARIO = Path(__file__).with_name("cgroupexporters.py")
ORIGINALS = Path(os.environ.get("JOBFEATURES_DATA", "/none")) / "originals"
PYTHON = Path(sys.executable).resolve()
pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", params=["v1", "v2"])
def told(request):
    """Return the version of control groups and what the scenario says there."""
    names = [path.parent.name for path in sorted(ORIGINALS.glob("*/*exporter*"))]
    if not names:
        pytest.skip("JOBFEATURES_DATA has no originals")
    if os.geteuid() != 0:
        pytest.skip("making control groups needs root")
    if request.param == "v1":
        if not Path("/sys/fs/cgroup/cpuacct").exists():
            pytest.skip("the kernel has no control groups v1 here")
        command = [sys.executable, SCENARIO, ORIGINALS]
    else:
        if not shutil.which("linux.uml"):
            pytest.skip("needs Debian's user-mode-linux")
        folder = request.getfixturevalue("share")()
        shutil.copytree(ORIGINALS, folder / "originals")
        shutil.copy(SCENARIO, folder)
        run = ROOT / "tests/labs/uml/run.sh"
        command = [
            run,
            folder,
            "env",
            "PYTHONPATH=/mnt/lib",
            PYTHON,
            f"/mnt/{SCENARIO.name}",
            "/mnt/originals",
        ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return request.param, json.loads(done.stdout.splitlines()[-1])


ABSENT, OTHER = "absent here", "another value"
FILE_PARTS = ("active_file", "inactive_file", "mapped_file", "rss_huge", "unevictable")
SWAP_LIMITS = {"cgroup_memsw_total_bytes": ABSENT, "cgroup_memsw_fail_count": ABSENT}
# What docs/comparison.md says; the second job has no limit in its group, and the machine with v2 no cpusets.
DIFFERENT = {
    ("v1", "treydock"): {"cgroup_cpu_info": ABSENT, "cgroup_memory_total_bytes": ABSENT, **SWAP_LIMITS},
    ("v2", "treydock"): {
        "cgroup_cpu_info": ABSENT,
        "cgroup_cpus": ABSENT,
        "cgroup_memory_total_bytes": ABSENT,
        "cgroup_memsw_total_bytes": ABSENT,
    },
    ("v1", "plazonic"): {
        "cgroup_memory_fail_count": ABSENT,  # of steps
        "cgroup_memory_total_bytes": OTHER,
        **SWAP_LIMITS,
    },
    ("v1", "guilbaults"): {
        "slurm_job_memory_limit": OTHER,
        **{f"slurm_job_memory_{part}": ABSENT for part in FILE_PARTS},
    },
    ("v2", "plazonic"): {
        "cgroup_cpus": ABSENT,
        "cgroup_memory_fail_count": ABSENT,  # of steps
        "cgroup_memory_total_bytes": OTHER,
        "cgroup_memsw_used_bytes": OTHER,
        "cgroup_uid": OTHER,
        **SWAP_LIMITS,
    },
}
TICKS_SECS, PAGES_BYTES = (
    0.021,
    2**20,
)  # CPU time of v1 is told in ticks there; memory moves between two readings


def is_same(name: str, theirs: float | None, ours: float | None) -> bool:
    if theirs is None or ours is None:
        return False
    if "core_usage" in name:  # nanoseconds
        return abs(theirs - ours) <= TICKS_SECS * 1e9
    is_memory = name.endswith("_bytes") or name.startswith("slurm_job_memory_")
    return abs(theirs - ours) <= (PAGES_BYTES if is_memory else TICKS_SECS)


@pytest.mark.parametrize("name", ["treydock", "plazonic", "guilbaults"])
def test_what_differs_from_the_original_is_what_the_page_says(told, name):
    version, said = told
    if name not in said:
        pytest.skip(f"JOBFEATURES_DATA has no originals/{name} that runs on {version}")
    rows = [row for row in said[name]["differ"] if not row[1].endswith('task="0"')]  # tasks are not shown
    kinds = {row[0]: ABSENT if row[3] is None else OTHER for row in rows if not is_same(row[0], *row[2:])}
    assert kinds == DIFFERENT[version, name]
    assert said[name]["same"] + sum(is_same(row[0], *row[2:]) for row in rows) >= 16
    totals = {
        labels: ours for metric, labels, _, ours in rows if metric.endswith(("_memory_total_bytes", "_limit"))
    }
    if name == "treydock":
        assert set(totals.values()) == {None}
    else:  # its allocated memory: jobstats and TrailblazingTurtle need a figure
        of_job = ('jobid="987302",step="",task=""', 'slurmjobid="987302"')
        assert [ours for labels, ours in totals.items() if any(each in labels for each in of_job)] == [2**30]
