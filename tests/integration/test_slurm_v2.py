"""Slurm on pure control groups v2, in a throw-away machine: seen by the daemon, read by the job."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
  printf '#!/bin/bash\\nexport JOBFEATURES_COMMAND={bin}/jobfeatures\\nexec {root}/packaging/slurm/%s.sh\\n' $hook >$target
  chmod 755 $target
done
{bin}/jobfeatures-exporter serve --web.listen-address 127.0.0.1:9819 --batch.sources slurm \\
  --node.name lab1 --batch.interval 2s --sample.interval 1s --jobs.retain 0s &
page() {{ echo "PAGE $1"; {python} -c '
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:9819/metrics").read().decode())'; echo "END"; }}
cd /
job='cat $JOBFEATURES/allocated_cpu >/home/alice/told; while [ ! -e /home/alice/stop ]; do :; done'
id=$(runuser -u alice -- env -i HOME=/home/alice USER=alice PATH=/usr/bin:/bin SLURM_CONF=$SLURM_CONF \\
  sbatch --parsable -D /home/alice -o /dev/null -n2 -t 5 --mem=64 -J v2 --wrap "$job")
echo "JOB $id"
for i in $(seq 100); do [ -s /home/alice/told ] && break; sleep 0.2; done
sleep 4
page first
sleep 3
page second
touch /home/alice/stop
for i in $(seq 100); do [ -z "$(squeue -h)" ] && break; sleep 0.2; done
sleep 3
page ended  # the last values of an ended job are shown once at least
sleep 2
page last
echo "TOLD $(cat /home/alice/told)"
ls $F/jobfeatures | sed 's/^/LEFT /'
kill %1; wait %1 || true
{root}/tests/labs/slurm/down.sh
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Boot the machine, run the script, and return what it printed."""
    if os.geteuid() != 0:
        pytest.skip("a private Slurm needs root: slurmd starts jobs as other users")
    if not shutil.which("linux.uml") or not shutil.which("slurmctld", path=os.environ["PATH"] + ":/usr/sbin"):
        pytest.skip("needs Debian's user-mode-linux and slurmctld: tests/labs/slurm/install.sh")
    for user, uid in (("alice", "6001"), ("bob", "6002")):
        if subprocess.run(["id", user], capture_output=True).returncode != 0:
            subprocess.run(["useradd", "-m", "-s", "/bin/bash", "-u", uid, user], check=True)
    shared = tmp_path_factory.mktemp("uml")
    shared.chmod(0o755)  # the task prolog runs as the job's user
    _carry(shared)
    (shared / "script").write_text(SCRIPT.format(root="/mnt/project", bin="/mnt/bin", python=PYTHON))
    done = subprocess.run(
        [ROOT / "tests/labs/uml/run.sh", shared, "bash", "/mnt/script"],
        capture_output=True,
        text=True,
        timeout=290,
        env={**os.environ, "UML_TIMEOUT": "280"},
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    return done.stdout


def _carry(shared):
    """Copy the project and its libraries: the machine has a /tmp and a /home of its own."""
    for part in ("jobfeatures", "exporter"):
        shutil.copytree(ROOT / part, shared / "lib" / part)
    for part in ("packaging", "tests/labs"):
        shutil.copytree(ROOT / part, shared / "project" / part, symlinks=True)
    libraries = Path(sysconfig.get_path("purelib"))
    shutil.copytree(
        libraries,
        shared / "lib",
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("__pycache__", "mypy*", "ruff*", "pip*"),
    )
    (shared / "bin").mkdir()
    for command, module in (("jobfeatures", "jobfeatures"), ("jobfeatures-exporter", "exporter")):
        path = shared / "bin" / command
        path.write_text(f'#!/bin/sh\nexport PYTHONPATH=/mnt/lib\nexec {PYTHON} -m {module} "$@"\n')
        path.chmod(0o755)


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
    assert value(first, "batch_job_wall_limit_seconds", job) == 300
    assert value(first, "batch_job_memory_bytes", job, 'component="anon"') > 0
    assert value(first, "batch_job_memory_limit_bytes", job) == 64 * 2**20
    used = [value(text, "batch_job_cpu_seconds_total", job, 'mode="user"') for text in (first, second)]
    assert used[1] > used[0] > 0


def test_the_job_read_its_features_and_left_none_behind(output):
    assert re.search(r"^TOLD 2$", output, re.MULTILINE)
    assert "LEFT" not in output
    assert "batch_job_info{" not in page(output, "last")
