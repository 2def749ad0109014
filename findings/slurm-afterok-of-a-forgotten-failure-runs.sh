#!/bin/bash
# Debian 12's slurmctld, slurmd, slurm-client 22.05.8-4+deb12u3: --dependency=afterok of a job that has failed. Takes up
# to two minutes: MinJobAge is 2 s here (by default it is 300 s), and slurmctld looks once a minute.
# One would guess: afterok never lets a job run behind a failed one, however late it is submitted;
# a dependency on a job that nobody knows is refused.
# What happens: while slurmctld remembers the failure the dependent job waits for ever (DependencyNeverSatisfied). Once the record
# is purged, the same line is accepted and the job RUNS, without a word, with Dependency=(null); so does one after a
# job id that never was.
# Why it matters: whether a chain of jobs stops behind a failure depends on how many minutes lie between the two
# submissions, and scontrol and squeue have no trace of the dependency left.
set -euo pipefail
work=$(mktemp -d) # removed by slurm.inc, which unpacks this version there
SLURM_VERSION=22.05.8-4+deb12u3
# shellcheck source=slurm.inc
. "$(dirname "$0")/slurm.inc"
slurm_up 1 MinJobAge=2
squeue --version
echo "guess: behind a failed job nothing runs that asks for afterok"
after() { # after JOB: submits a job behind it and tells how it stands a little later
  local job
  job=$(sbatch --parsable -o /dev/null -d "afterok:$1" --wrap 'sleep 300') || { echo refused; return; }
  sleep 3
  scontrol show job "$job" | grep -oE '\<(JobState|Reason|Dependency)=[^ ]*' | paste -sd ' '
  scancel "$job"
}
failed=$(sbatch --parsable -o /dev/null --wrap 'exit 1')
wait_for 20 sh -c "scontrol show job $failed | grep -q JobState=FAILED"
here "after the failed job" "JobState=PENDING Reason=DependencyNeverSatisfied Dependency=afterok:$failed(failed)" "$(after "$failed")"
echo "waiting until slurmctld has forgotten job $failed"
wait_for 130 sh -c "! scontrol show job $failed"
here "after it is forgotten" "JobState=RUNNING Reason=None Dependency=(null)" "$(after "$failed")"
here "after job 60000, which never was" "JobState=RUNNING Reason=None Dependency=(null)" "$(after 60000)"
