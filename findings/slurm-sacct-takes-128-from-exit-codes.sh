#!/bin/bash
# Debian 12's slurmctld, slurmd, slurmdbd, slurm-client 22.05.8-4+deb12u3 with MariaDB: the exit codes of jobs in sacct.
# One would guess: sacct's ExitCode is what `scontrol show job` said while the job was known, and 0:0 means success.
# What happens: of codes of 128 and more sacct leaves 128 out: `exit 137`, the shell's way to say that a command was
# killed, is 137:0 in scontrol and 9:0 in sacct, `exit 255` is 127:0 (as a command that is not found), and `exit 128` is a job in
# state FAILED with 0:0. In the same line DerivedExitCode, of a step with 137, is printed whole: 137:0.
# Why it matters: 137 (killed, often for memory), 139, 143 and ssh's 255 are the very codes that reports look for;
# accounting has none of them, and whoever judges by the code takes a failure for a success.
set -euo pipefail
work=$(mktemp -d) # removed by slurm.inc, which unpacks this version there
SLURM_VERSION=22.05.8-4+deb12u3
# shellcheck source=slurm.inc
. "$(dirname "$0")/slurm.inc"
ACCOUNTING=yes slurm_up 1
sacct --version
echo "guess: scontrol and sacct print the same code"
for code in 3 127 128 137 255; do sbatch -Q -o /dev/null --wrap "exit $code"; done
sbatch -Q -o /dev/null --wrap 'srun bash -c "exit 137"'
wait_for 60 sh -c '! squeue -h | grep -q .'
wait_for 30 sh -c '[ "$(sacct -nXP -o State | grep -cx FAILED)" = 6 ]'
here "scontrol" "1=3:0 2=127:0 3=128:0 4=137:0 5=255:0 6=137:0" \
  "$(scontrol -o show job | sed -E 's/JobId=([0-9]+) .* ExitCode=([0-9:]+).*/\1=\2/' | paste -sd ' ')"
here "sacct" "1=FAILED 3:0;2=FAILED 127:0;3=FAILED 0:0;4=FAILED 9:0;5=FAILED 127:0;6=FAILED 9:0" \
  "$(sacct -nXP -o JobID,State,ExitCode | sed 's/|/=/; s/|/ /' | paste -sd ';')"
here "sacct, derived code of job 6" "137:0" "$(sacct -nXP -j 6 -o DerivedExitCode)"
