#!/bin/bash
# Debian 12's slurmctld, slurmd, slurm-client 22.05.8-4+deb12u3: scontrol suspend and resume on a node of two CPUs
# that are nobody's to share (select/cons_tres, CR_Core_Memory, a partition without OverSubscribe).
# One would guess: a suspended job keeps what it has, as it is still on the node; or, if its CPUs are given
# to another job, it can go on only when they are free again.
# What happens: with the suspension the CPUs are free (node idle, 0 of 2 allocated) and the memory stays allocated; an
# idle node with AllocTRES=mem=… . Another job of two CPUs starts there. `scontrol resume` then succeeds at once, status 0:
# both jobs RUN with two CPUs each on two CPUs, and the node says 2 allocated of 2.
# Why it matters: the sum of the running jobs' CPUs is more than the nodes have, both run at half their speed,
# and any figure "allocated by jobs / CPUs" is above 100 % while Slurm's own node figures show nothing.
set -euo pipefail
work=$(mktemp -d) # removed by slurm.inc, which unpacks this version there
SLURM_VERSION=22.05.8-4+deb12u3
# shellcheck source=slurm.inc
. "$(dirname "$0")/slurm.inc"
slurm_up 1
squeue --version
echo "guess: the CPUs of a suspended job are kept for it, or it waits until they are free"
submit() { sbatch --parsable -o /dev/null -n1 -c2 --mem=100M --wrap 'sleep 600'; }
jobs() { squeue -h -S i -o '%i %T %C on %N' | paste -sd ';'; }
cpus() { sinfo -h -N -o '%T %C'; }
memory() { scontrol show node n1 | grep -o 'AllocMem=[0-9]*'; }
first=$(submit)
wait_for 20 sh -c 'squeue -h -t R | grep -q .'
here "one job runs" "allocated 2/0/0/2" "$(cpus)"
scontrol suspend "$first"
wait_for 20 sh -c 'squeue -h -t S | grep -q .'
here "it is suspended" "idle 0/2/0/2 AllocMem=100" "$(cpus) $(memory)"
second=$(submit)
wait_for 20 sh -c 'squeue -h -t R | grep -q .'
scontrol resume "$first"
echo "resume ended with status $?"
wait_for 20 sh -c '[ "$(squeue -h -t R | wc -l)" = 2 ]'
here "both are there" "$first RUNNING 2 on n1;$second RUNNING 2 on n1" "$(jobs)"
here "and the node has" "allocated 2/0/0/2 AllocMem=200" "$(cpus) $(memory)"
