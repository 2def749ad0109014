#!/bin/bash
# Debian 12's slurmctld, slurmd, slurm-client 22.05.8-4+deb12u3: EndTime of a job while it is suspended.
# Takes about 80 seconds.
# One would guess: a suspended job's end is unknown, or moves on with the clock, since its time stands still;
# at least EndTime and the time left (squeue %L) say the same.
# What happens: EndTime (scontrol, squeue %e, JSON's end_time) stays where it was and passes: the job is SUSPENDED, its
# end lies in the past, %L still has its whole minute. Only with `scontrol resume` does EndTime jump by the whole suspension.
# Why it matters: the time left taken as EndTime - now falls while the job's does not, turns negative and then jumps up;
# whoever plans by the ends of jobs takes nodes for free that are not, or the job for one that outlived its limit.
set -euo pipefail
work=$(mktemp -d) # removed by slurm.inc, which unpacks this version there
SLURM_VERSION=22.05.8-4+deb12u3
# shellcheck source=slurm.inc
. "$(dirname "$0")/slurm.inc"
slurm_up 1
squeue --version
echo "guess: the end of a suspended job is unknown or moves on"
job=$(sbatch --parsable -o /dev/null -t 1 --wrap 'sleep 600')
wait_for 20 sh -c 'squeue -h -t R | grep -q .'
ends() { date -d "$(squeue -h -o %e)" +%s; }
scontrol suspend "$job"
before=$(ends)
left=$(squeue -h -o %L)
echo "suspended: ends at $(squeue -h -o %e), time left $left"
sleep 65
echo "65 seconds later: ends at $(squeue -h -o %e), time left $(squeue -h -o %L)"
here "seconds by which its end has moved" 0 "$(($(ends) - before))"
here "its end is in the past" yes "$([ "$(ends)" -lt "$(date +%s)" ] && echo yes || echo no)"
here "its state and time left" "SUSPENDED $left" "$(squeue -h -o '%T %L')"
scontrol resume "$job"
wait_for 20 sh -c 'squeue -h -t R | grep -q .'
moved=$(($(ends) - before))
echo "resumed: its end has moved by $moved s"
[ "$moved" -ge 60 ] || { echo "changed: it moved by the suspension when this was written" >&2; exit 1; }
