"""The clock of a whole machine is stepped by an hour either way, below live jobs of a real Slurm.

In a throw-away machine of its own: this one's clock is others' too.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = Path(sys.executable).resolve()  # not the environment's link: that may lie in /tmp
# The jobs that live when it is looked.
LIVE = {
    "before": "1", "ahead": "1", "ahead, two more": "123", "ahead, one less": "23", "behind": "23",
    "behind, one less": "3", "back": "3", "after": "",
}  # fmt: skip
STEPS = {"ahead": 3600, "behind": -3600, "back": 0}
# Slurm itself takes a node for lost that has not answered for an hour, and ends its jobs.
SCRIPT = """
set -eu
exec 2>&1
export SLURM_LAB_NODES=1 SLURM_LAB_CPUS=4 SLURM_LAB_DB=0
sed -i 's/^SlurmdTimeout=.*/SlurmdTimeout=0/' {root}/tests/labs/slurm/up.sh
{root}/tests/labs/slurm/up.sh
. /tmp/jobfeatures-lab/slurm/env.sh
for hook in prolog epilog taskprolog; do
  target=$SLURM_LAB/scripts/$hook.d/jobfeatures
  printf '#!/bin/bash\\nexport JOBFEATURES_COMMAND={bin}/jobfeatures JOBFEATURES_HOOK_TIMEOUT=10\\nexec {root}/packaging/slurm/%s.sh\\n' $hook >$target
  chmod 755 $target
done
PYTHONPATH=/mnt/lib {python} {root}/tests/labs/slurm/stepped.py {bin}/jobfeatures-exporter
{root}/tests/labs/slurm/down.sh
"""


@pytest.fixture(scope="module")
def seen(run_in_machine):
    """Boot the machine, run the scenario, and return what was seen, by the time it was."""
    if not shutil.which("slurmctld", path=os.environ["PATH"] + ":/usr/sbin"):
        pytest.skip("needs slurmctld: tests/labs/slurm/install.sh")
    for user, uid in (("alice", "6001"), ("bob", "6002")):
        if subprocess.run(["id", user], capture_output=True).returncode != 0:
            subprocess.run(["useradd", "-m", "-s", "/bin/bash", "-u", uid, user], check=True)
    output = run_in_machine(SCRIPT.format(root="/mnt/project", bin="/mnt/bin", python=PYTHON))
    print(output)
    return {each["at"]: each for each in map(json.loads, filter(is_object, output.splitlines()))}


def is_object(line: str) -> bool:
    return line.startswith('{"at"')


def test_the_machine_s_clock_was_stepped(seen):
    for name, secs in STEPS.items():
        assert seen[name]["wrong"] == pytest.approx(secs, abs=60)


def test_live_jobs_keep_features_and_counters_and_ended_ones_go_at_each_step(seen):
    shown: dict[str, float] = {}
    for name, jobs in LIVE.items():
        each = seen[name]
        assert each["features"] == dict.fromkeys((f"slurm-{job_id}" for job_id in jobs), str(5 * 86400)), name
        assert "".join(sorted(each["jobs"])) == jobs, each
        assert each["up"] == 1, name
        for job_id, figures in each["jobs"].items():
            cpu_secs = figures["batch_job_cpu_seconds_total"]
            assert cpu_secs >= shown.get(job_id, 0.0), f"{name}: {job_id}"
            shown[job_id] = cpu_secs
    assert all(shown.values())
