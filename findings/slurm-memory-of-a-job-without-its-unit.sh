#!/bin/bash
# Debian 12's slurmctld, slurmd, slurm-client 22.05.8-4+deb12u3: the memory of a job in squeue (%m, MIN_MEMORY).
# One would guess: it is the memory the job has on a node, whichever way it was asked for; at least 0 is nothing.
# What happens: %m is the number of the request without what it is counted by. --mem=100M and --mem-per-cpu=100M both print
# 100M for two CPUs, though one has 100 MB and the other 200 MB (scontrol's TRES, the node's AllocMem); --mem=0,
# the whole memory of the node, prints 0. MinMemory of -O is the same; only its tres-alloc tells.
# Why it matters: nothing in the line tells which of the three it is, so that a sum of the column, or of column × CPUs,
# is wrong for one kind of job or the other, and the job that fills a node counts as nothing.
set -euo pipefail
work=$(mktemp -d) # removed by slurm.inc, which unpacks this version there
SLURM_VERSION=22.05.8-4+deb12u3
# shellcheck source=slurm.inc
. "$(dirname "$0")/slurm.inc"
slurm_up 1
squeue --version
echo "guess: MIN_MEMORY tells jobs of 100 MB, of 200 MB and of all 1000 MB apart"
try() { # try OPTION EXPECTED: a job of two CPUs, in squeue, in scontrol and on its node
  local job
  job=$(sbatch --parsable -o /dev/null -n1 -c2 "$1" --wrap 'sleep 600')
  wait_for 20 sh -c "squeue -h -t R -j $job | grep -q ."
  here "$1" "$2" "$(squeue -h -j "$job" -o 'squeue %m %C;') -O $(squeue -h -j "$job" -O MinMemory | xargs); $(scontrol show job "$job" |
    grep -oE '\<mem=[0-9]+M'); node $(scontrol show node n1 | grep -o 'AllocMem=[0-9]*')"
  scancel "$job"
  wait_for 20 sh -c "! squeue -h | grep -q ."
}
try --mem=100M "squeue 100M 2; -O 100M; mem=100M; node AllocMem=100"
try --mem-per-cpu=100M "squeue 100M 2; -O 100M; mem=200M; node AllocMem=200"
try --mem=0 "squeue 0 2; -O 0; mem=1000M; node AllocMem=1000"
