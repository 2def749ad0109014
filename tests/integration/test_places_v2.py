"""Jobs' control groups of PBS, Torque, LSF and OAR wherever a site puts them, on a real control groups v2.

No such server runs: the groups are constructed, made by hand after what these systems write. The kernel is real, and so
are processes, CPU time and memory in them. HTCondor's are in htcondor/test_attribution.py, Slurm's in test_slurm_sites.py.
"""

from __future__ import annotations

import re

import pytest

from tests.integration.conftest import PYTHON

# Batch system, id → group.
SITES = {
    "pbs": {
        "0": "pbs_jobs.service/jobid/0.srv",  # each fresh server's first, at the ordinary place
        "123": "pbspro.service/jobid/123.srv",
        "124": "pbspro/124.srv",
        "125": "pbspro.slice/pbspro-125.srv.slice",
        "126[4]": r"deep.slice/pbspro.service/jobs/126\x5b4\x5d.srv",
    },
    "torque": {"10": "site/torque/10.srv", "0": "torque/0.srv"},
    "lsf": {"9": "site/lsf/cluster/job.9.4711.1795246429"},
    "oar": {"8": "site/alice_8", "7": "site.slice/site-u6001.slice/site-u6001-j7.slice"},
}  # fmt: skip
ORDINARY = {("pbs", "0"), ("torque", "0")}
FLAGS = {  # what says where they are
    "pbs": "--set pbs.home=/run/pbs",  # cgroup_prefix of its hook
    "torque": "--batch.cgroup-parents /site/torque",
    "lsf": "--batch.cgroup-parents /site/lsf",
    "oar": "--batch.cgroup-parents /site,/site.slice",
}
GROUPS = [group for groups in SITES.values() for group in groups.values()]

# Runs as root in the machine: a process in each group that has 20 MiB and has used CPU time, then pages.
SCRIPT = """
set -eu
cd /sys/fs/cgroup
mkdir -p /run/pbs/mom_priv/hooks
echo '{{"cgroup_prefix": "pbspro"}}' >/run/pbs/mom_priv/hooks/pbs_cgroups.CF
make() {{
  local group=. part
  for part in $(echo "$1" | tr / ' '); do
    echo '+cpu +memory' >$group/cgroup.subtree_control
    group=$group/$part
    mkdir -p "$group"
  done
  sh -c 'echo $$ >"$0/cgroup.procs" && exec {python} -S -c "
import time
before = time.process_time() # of the shell outside the group, a good part of it on a busy host
kept = bytes(b\\"x\\" * (20 << 20))
while time.process_time() - before < 0.5: pass
open(\\"/run/ready.$PPID.$$\\", \\"w\\").close()
time.sleep(1000)"' "$group" &
}}
while read -r group; do make "$group"; done <<'END'
{groups}
END
while [ $(ls /run/ready.* 2>/dev/null | wc -l) -lt {count} ]; do sleep 0.2; done
page() {{
  mkdir -p /run/page
  /mnt/bin/jobfeatures-exporter textfile /run/page --config.file= --features.root /run/features.$1 --batch.sources "$@" >/run/log 2>&1 || cat /run/log
  cat /run/page/*.prom
}}
{pages}
"""


@pytest.fixture(scope="module")
def output(run_in_machine):
    pages = "".join(
        f"echo 'PAGE {system} {kind}'; page {system} {flags}; echo END\n"
        for system in SITES
        for kind, flags in (("bare", ""), ("named", FLAGS[system]))
    )
    return run_in_machine(
        SCRIPT.format(python=PYTHON, groups="\n".join(GROUPS), count=len(GROUPS), pages=pages)
    )


def page(output, system, kind):
    return re.search(rf"^PAGE {system} {kind}$(.*?)^END$", output, re.MULTILINE | re.DOTALL)[1]


def jobs(text):
    return set(re.findall(r'batch_job_processes\{batch_system="([^"]*)",job_id="([^"]*)"', text))


@pytest.mark.parametrize("system", SITES)
def test_jobs_are_found_where_the_site_has_said_that_they_are(output, system):
    text = page(output, system, "named")

    def of(job_id, name, **labels):
        wanted = [
            f'{key}="{value}"' for key, value in {**labels, "batch_system": system, "job_id": job_id}.items()
        ]
        lines = (line for line in text.splitlines() if line.startswith(f"{name}{{"))
        return [float(line.split()[-1]) for line in lines if all(each in line for each in wanted)]

    for job_id in SITES[system]:
        [anon] = of(job_id, "batch_job_memory_bytes", component="anon")
        assert 20 << 20 <= anon < 40 << 20, job_id
        assert 0.4 < sum(of(job_id, "batch_job_cpu_seconds_total")) < 100, job_id
        assert of(job_id, "batch_job_processes") == [1], job_id
    found = {job_id for each, job_id in jobs(text) if each == system}
    assert found == SITES[system].keys()


@pytest.mark.parametrize("system", SITES)
def test_the_same_groups_are_no_jobs_where_nobody_has_said_so_and_no_batch_daemon_runs(output, system):
    assert jobs(page(output, system, "bare")) <= ORDINARY
