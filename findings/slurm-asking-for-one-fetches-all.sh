#!/bin/bash
# Debian 12's slurmctld, slurmd, slurm-client 22.05.8-4+deb12u3: what one question costs slurmctld, as sdiag counts it.
# One would guess: a narrower question is a smaller one: squeue for two jobs, for one user or one node, scontrol for
# one node or for one job in detail costs about as much as squeue for one job; on a site of 50,000 jobs, nearly nothing.
# What happens: `squeue -j A` asks for one job (REQUEST_JOB_INFO_SINGLE). `squeue -j A,B`, -u, --me, -w, and even
# `squeue --json -j A` have the whole queue sent and drop the rest themselves (REQUEST_JOB_INFO). `scontrol show node n1`
# has all nodes and all partitions sent, `scontrol -d show job A` all nodes beside its one job;
# `sinfo -n n1` asks for one node (REQUEST_NODE_INFO_SINGLE).
# Why it matters: monitoring that asks for "its" jobs or its node, from each of 2,000 nodes each minute,
# has 2,000 whole queues a minute sent by one slurmctld. Two questions for one job are
# much cheaper than one for two.
set -euo pipefail
work=$(mktemp -d) # removed by slurm.inc, which unpacks this version there
SLURM_VERSION=22.05.8-4+deb12u3
# shellcheck source=slurm.inc
. "$(dirname "$0")/slurm.inc"
slurm_up 2
squeue --version
echo "guess: what is asked for by id, user or node is what is sent"
for _ in 1 2; do sbatch -Q -o /dev/null --wrap 'sleep 600'; done
wait_for 20 sh -c '[ "$(squeue -h -t R | wc -l)" = 2 ]'
asks() { # asks EXPECTED COMMAND...: the kinds of questions about jobs and nodes that slurmctld counted
  local expected=$1
  shift
  sdiag -r >/dev/null
  "$@" >/dev/null
  here "$*" "$expected" "$(sdiag | grep -oE 'REQUEST_(JOB|NODE)_[A-Z_]+' | sort -u | paste -sd ' ')"
}
asks "REQUEST_JOB_INFO_SINGLE" squeue -j 1
asks "REQUEST_JOB_INFO" squeue -j 1,2
asks "REQUEST_JOB_INFO" squeue --json -j 1
asks "REQUEST_JOB_INFO" squeue --me
asks "REQUEST_JOB_INFO REQUEST_NODE_INFO" squeue -w n1
asks "REQUEST_JOB_INFO_SINGLE" scontrol show job 1
asks "REQUEST_JOB_INFO_SINGLE REQUEST_NODE_INFO" scontrol -d show job 1
asks "REQUEST_NODE_INFO_SINGLE" sinfo -n n1
asks "REQUEST_NODE_INFO" scontrol show node n1
