#!/bin/bash
# Debian 12's slurmctld, slurmd, slurm-client 22.05.8-4+deb12u3: scontrol hold on a job that runs.
# One would guess: it is refused, since the job has started ("Job is already running"), or it changes nothing.
# What happens: status 0, no word; the job runs on as RUNNING with Reason=JobHeldAdmin and Priority=0, in scontrol and in
# JSON; squeue prints nodes in NODELIST(REASON) and so hides it. The hold waits for the job's next life: requeued, it
# is PENDING and held, and no scheduler will start it again until someone releases it.
# Why it matters: counting held jobs by their reason counts running ones; and after the failure of a node the jobs that
# someone "held" a week ago, without any effect then, do not come back.
set -euo pipefail
work=$(mktemp -d) # removed by slurm.inc, which unpacks this version there
SLURM_VERSION=22.05.8-4+deb12u3
# shellcheck source=slurm.inc
. "$(dirname "$0")/slurm.inc"
slurm_up 1
squeue --version
echo "guess: scontrol hold of a running job is refused or does nothing"
job=$(sbatch --parsable -o /dev/null --wrap 'sleep 600')
wait_for 20 sh -c 'squeue -h -t R | grep -q .'
seen() { scontrol show job "$job" | grep -oE '\<(JobState|Reason|Priority)=[A-Za-z0-9]+' | paste -sd ' '; }
status=0
said=$(scontrol hold "$job" 2>&1) || status=$?
here "scontrol hold" "status 0, said nothing" "status $status, said ${said:-nothing}"
here "the job" "Priority=0 JobState=RUNNING Reason=JobHeldAdmin" "$(seen)"
here "squeue" "$job RUNNING n1" "$(squeue -h -o '%i %T %R')"
here "squeue --json" "RUNNING JobHeldAdmin" "$(squeue --json | python3 -c '
import json, sys
(job,) = json.load(sys.stdin)["jobs"]
print(job["job_state"], job["state_reason"])')"
scontrol requeue "$job"
wait_for 30 sh -c 'squeue -h -t PD | grep -q .'
here "requeued" "Priority=0 JobState=PENDING" "$(seen | sed 's/ Reason.*//')"
