"""Of every kind of log that has CPU time: more of it than the CPUs have is named, and kept."""

from __future__ import annotations

import json

import pytest

from jobfeatures.joblogs.loggedjob import TOO_MUCH_CPU_TIME, Notes
from jobfeatures.logkinds import KINDS, read_log
from tests.jobfeatures.batch.gridengine.test_qacct import block as qacct_block
from tests.jobfeatures.joblogs.test_nottaken import SLURM_JOB, SLURM_TIMES, changed, gridengine, sonar

SECS = 360_000  # of CPU time, of a job of a minute or so
ALLOCATED = [{"type": "cpu", "name": "", "count": 1}]
LOGS = {
    "sacct": f"JobID|State|Submit|Start|End|ElapsedRaw|AllocCPUS|TotalCPU\n5|COMPLETED|1|2|62|60|1|{SECS // 3600}:00:00\n",
    "slurmjson": json.dumps(
        {
            "jobs": [
                {
                    **SLURM_JOB,
                    "time": {**SLURM_TIMES, "total": {"seconds": SECS, "microseconds": 0}},
                    "tres": {"allocated": ALLOCATED},
                }
            ]
        }
    ),
    "pbs": f"11/21/2026 10:00:00;E;1.s;start=5 end=65 exec_host=n1/0 resources_used.cput={SECS // 3600}:00:00\n",
    "gridengine": gridengine(cpu=str(SECS), slots="1", ru_wallclock="60"),
    "qacct": qacct_block(cpu=str(SECS), slots="1", ru_wallclock="60"),
    "lsf": changed("lsf", "lsb.acct", "500.250000", f"{SECS}.5"),
    "htcondor": "ClusterId = 5\nProcId = 0\nJobStatus = 4\nJobCurrentStartDate = 1795246410\nCompletionDate = 1795246470\n"
    f"CpusProvisioned = 1\nRemoteUserCpu = {SECS}\nRemoteSysCpu = 0\n*** x\n",
    "swf": f"1 0 1 60 1 {SECS} -1 1 60 -1 1 1 1 1 1 1 -1 -1\n",
    "sss": f"<Job><Id>5</Id><State>Completed</State><StartTime>100</StartTime><EndTime>160</EndTime>"
    f"<CpuDuration>{SECS}</CpuDuration><Processors>1</Processors></Job>\n",
    "sonar": sonar(allocated_resources="cpu=1", sacct={"UserCPU": SECS, "SystemCPU": 0, "ElapsedRaw": 60}),
    "records": '{"batch_system": "slurm", "job_id": "5", "total_cpus": 1, "start_secs": 100, "end_secs": 160, '
    f'"used_cpu_secs": {SECS}}}\n',
}


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"oar"}))
def test_more_cpu_time_than_the_cpus_have_is_named_and_kept(kind):
    notes = Notes()
    found = read_log(LOGS[kind].splitlines(keepends=True), kind, source="log", notes=notes)
    [job] = notes.accepted(found)
    assert job.used_cpu_secs >= SECS
    assert notes.doubtful == {TOO_MUCH_CPU_TIME: 1}
