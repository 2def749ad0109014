"""Slurm on pure control groups v2, in a throw-away machine: seen by the daemon, read by the job."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = Path(sys.executable).resolve()  # not the environment's link: that may lie in /tmp

# Runs as root in the machine; prints pages of metrics between marks.
SCRIPT = """
set -eu
exec 2>&1
export SLURM_LAB_NODES=1 SLURM_LAB_CPUS=2 SLURM_LAB_DB=0
{root}/tests/labs/slurm/up.sh
. /tmp/jobfeatures-lab/slurm/env.sh
F=/run/jobfeatures
for hook in prolog epilog taskprolog; do
  target=$SLURM_LAB/scripts/$hook.d/jobfeatures
  printf '#!/bin/bash\\nexport JOBFEATURES_COMMAND={bin}/jobfeatures JOBFEATURES_HOOK_TIMEOUT=10\\nexec {root}/packaging/slurm/%s.sh\\n' $hook >$target
  chmod 755 $target
done
{bin}/jobfeatures-exporter serve --web.listen-address 127.0.0.1:9819 --batch.sources slurm \\
  --node.name lab1 --batch.interval 2s --sample.interval 1s --jobs.retain 0s &
page() {{ echo "PAGE $1"; {python} -c '
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:9819/metrics").read().decode())'; echo "END"; }}
cd /
job='cat $JOBFEATURES/allocated_cpu >/home/alice/told
while [ ! -e /home/alice/stop ]; do i=0; while [ $i -lt 99999 ]; do i=$((i+1)); done; sleep 0.3; done'
id=$(runuser -u alice -- env -i HOME=/home/alice USER=alice PATH=/usr/bin:/bin SLURM_CONF=$SLURM_CONF \\
  sbatch --parsable -D /home/alice -o /dev/null -n2 -t 5 --mem=64 -J v2 --wrap "$job")
echo "JOB $id"
for i in $(seq 1200); do [ -s /home/alice/told ] && break; sleep 0.2; done
sleep 4
page first
sleep 3
page second
touch /home/alice/stop
for i in $(seq 1200); do [ -z "$(squeue -h)" ] && break; sleep 0.2; done
sleep 3
page ended  # the last values of an ended job are shown once at least
sleep 2
page last
echo "TOLD $(cat /home/alice/told)"
ls $F/jobfeatures | sed 's/^/LEFT /'
hog='/usr/bin/python3 -c "import time; time.sleep(1); kept = [bytearray(2**20) for _ in range(200)]"'
id=$(runuser -u alice -- env -i HOME=/home/alice USER=alice PATH=/usr/bin:/bin SLURM_CONF=$SLURM_CONF \\
  sbatch --parsable -D /home/alice -o /dev/null -n1 -t 5 --mem=64 -J hog --wrap "$hog")
echo "HOG $id"
for i in $(seq 400); do
  page hog >/run/hog
  if grep -q "^batch_job_oom_kills_total.*job_id=.$id.. [1-9]" /run/hog; then break; fi
  sleep 0.3
done
cat /run/hog
kill %1; wait %1 || true
{root}/tests/labs/slurm/down.sh
"""


@pytest.fixture(scope="module")
def output(run_in_machine):
    """Boot the machine, run the script, and return what it printed."""
    if not shutil.which("slurmctld", path=os.environ["PATH"] + ":/usr/sbin"):
        pytest.skip("needs slurmctld: tests/labs/slurm/install.sh")
    for user, uid in (("alice", "6001"), ("bob", "6002")):
        if subprocess.run(["id", user], capture_output=True).returncode != 0:
            subprocess.run(["useradd", "-m", "-s", "/bin/bash", "-u", uid, user], check=True)
    return run_in_machine(SCRIPT.format(root="/mnt/project", bin="/mnt/bin", python=PYTHON))


def page(output, name):
    return re.search(rf"^PAGE {name}$(.*?)^END$", output, re.MULTILINE | re.DOTALL)[1]


def value(text, series, *parts):
    [found] = [
        float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith(series + "{") and all(part in line for part in parts)
    ]
    return found


def test_a_job_on_control_groups_v2_is_shown_with_its_labels_and_figures(output):
    job_id = re.search(r"^JOB (\d+)$", output, re.MULTILINE)[1]
    job = f'job_id="{job_id}"'
    first, second = page(output, "first"), page(output, "second")
    [info] = [line for line in first.splitlines() if line.startswith("batch_job_info{") and job in line]
    assert 'user="alice"' in info
    assert 'name="v2"' in info
    assert 'partition="batch"' in info
    assert 'accounting="cgroup"' in info
    assert value(first, "batch_job_allocated_cpus", job) == 2
    assert value(first, "batch_job_whole_node", job) == 1, "all CPUs of the node"
    assert value(first, "batch_job_wall_limit_seconds", job) == 300
    assert value(first, "batch_job_memory_bytes", job, 'component="anon"') > 0
    assert value(first, "batch_job_memory_limit_bytes", job) == 64 * 2**20
    used = [value(text, "batch_job_cpu_seconds_total", job, 'mode="user"') for text in (first, second)]
    assert used[1] > used[0] > 0


def test_the_job_read_its_features_and_left_none_behind(output):
    assert re.search(r"^TOLD 2$", output, re.MULTILINE)
    assert "LEFT" not in output
    assert "batch_job_info{" not in page(output, "last")


def test_a_job_that_is_killed_for_memory_after_a_second_shows_its_kill_and_its_peak(output):
    """Slurm removes the control group before its epilog, and the daemon samples once a second."""
    [job_id] = re.findall(r"^HOG (\d+)$", output, re.MULTILINE)
    job = f'job_id="{job_id}"'
    last = page(output, "hog")
    assert value(last, "batch_job_oom_kills_total", job) >= 1
    assert 0.8 * 64 * 2**20 <= value(last, "batch_job_memory_peak_bytes", job) <= 64 * 2**20
