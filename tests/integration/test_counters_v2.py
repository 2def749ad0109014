"""What a real cgroup v2 counts below the job counts for the job."""

import sys
from pathlib import Path

import pytest

# Runs as root in the machine: a job of Slurm's shape whose task is killed at the job's limit.
SCRIPT = """
set -eu
cd /sys/fs/cgroup
for top in . system.slice system.slice/slurmstepd.scope; do
  mkdir -p $top
  echo +memory >$top/cgroup.subtree_control
done
job=system.slice/slurmstepd.scope/job_987201
mkdir -p $job
echo +memory >$job/cgroup.subtree_control
mkdir -p $job/step_0
echo 33554432 >$job/memory.max
sh -c "echo \\$\\$ >$job/step_0/cgroup.procs && exec {python} -S -c 'bytearray(200 * 2**20)'" || true
echo "local kills: $(grep '^oom_kill ' $job/memory.events.local)"
PYTHONPATH=/mnt/lib {python} -c '
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from jobfeatures.system.clock import SystemClock
[(key, job)] = [
    (key, job)
    for key, job in Sampler(SamplerSettings(steps=True), SystemClock()).sample().jobs.items()
    if getattr(key, "batch_system", None) == "slurm"
]
print("told:", key.job_id, job.oom_kills, job.memory_limit_hits > 0, job.pressure_secs, job.block_io, job.cpus)
print("steps:", [(step.step, step.memory.charged is not None) for step in job.steps])
'
"""


@pytest.fixture(scope="module")
def output(run_in_machine):
    return run_in_machine(SCRIPT.format(python=Path(sys.executable).resolve()))


def test_a_kill_in_a_step_counts_for_the_job_on_v2(output):
    assert "local kills: oom_kill 0\n" in output  # of the job's own group
    # This kernel counts no pressure, and neither io nor cpuset is enabled: none of these is zero.
    assert "told: 987201 1 True {} None None\n" in output


def test_a_step_of_v2_has_memory_of_its_own(output):
    assert "steps: [('0', True)]\n" in output
