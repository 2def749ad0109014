#!/bin/bash
# Debian 12's slurmctld, slurmd, slurm-client 22.05.8-4+deb12u3: sinfo -t (--states), the nodes in a state.
# One would guess: `sinfo -t idle` lists the nodes whose state sinfo prints as idle, those that could take a job.
# What happens: it lists drained nodes too, which take none and which sinfo prints as "drained" in the very same line:
# without a flag's name the base state counts, and that of a drained node is IDLE. A draining node is in -t alloc, also
# when only one of its two CPUs is, and not in -t mix, where the same node without the drain is.
# Why it matters: the length of the list of idle nodes, for a script that waits for room or a panel, counts those
# that are out of service; sinfo's own summary by state (%T) does not.
set -euo pipefail
work=$(mktemp -d) # removed by slurm.inc, which unpacks this version there
SLURM_VERSION=22.05.8-4+deb12u3
# shellcheck source=slurm.inc
. "$(dirname "$0")/slurm.inc"
slurm_up 3
squeue --version
echo "guess: -t idle gives the nodes that are printed as idle"
listed() { sinfo -h -N "$@" -o '%N %T' | paste -sd ';'; }
sbatch -Q -o /dev/null -w n1 -n1 --wrap 'sleep 600'
wait_for 20 sh -c 'squeue -h -t R | grep -q .'
here "sinfo -t mix, before" "n1 mixed" "$(listed -t mix)"
scontrol update nodename=n1,n2 state=drain reason=test
here "sinfo" "n1 draining;n2 drained;n3 idle" "$(listed)"
here "sinfo -t idle" "n2 drained;n3 idle" "$(listed -t idle)"
here "sinfo -t mix" "" "$(listed -t mix)"
here "sinfo -t alloc" "n1 draining" "$(listed -t alloc)"
here "sinfo -t drain" "n1 draining;n2 drained" "$(listed -t drain)"
here "counted by state" "draining 1;drained 1;idle 1" "$(sinfo -h -o '%T %D' | paste -sd ';')"
