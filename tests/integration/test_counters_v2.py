"""What a real cgroup v2 counts below the job counts for the job."""

import re
import sys
from pathlib import Path

import pytest

# Runs as root in the machine: a job of Slurm's shape whose task is killed at the job's limit; then lower limits above it.
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
cat >/run/look.py <<'END'
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
memory = job.memory
print("limits:", *(each and each >> 20 for each in (memory.limit, memory.limit_above, memory.high)), job.memory_high_hits > 0)
END
look() {{ PYTHONPATH=/mnt/lib {python} /run/look.py; }}
look
echo 25165824 >system.slice/memory.max  # 24 MiB
echo 20971520 >system.slice/slurmstepd.scope/memory.high
look
echo 12582912 >$job/memory.high
sh -c "echo \\$\\$ >$job/step_0/cgroup.procs && exec cat $(find /usr/lib -name '*.so*' -size +1M | head -n 20 | tr '\\n' ' ') >/dev/null"
look
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


def test_limits_above_a_job_s_group_and_memory_high_are_told_on_v2(output):
    """Of the job's own limit of 32 MiB the slice leaves 24; the scope slows down beyond 20, the job itself beyond 12."""
    assert re.findall(r"^limits: (.*)$", output, re.MULTILINE) == [
        "32 None None False",
        "24 24 20 False",
        "24 24 12 True",
    ]
