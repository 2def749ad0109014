#!/bin/bash
# Debian 12's slurmctld, slurmd, slurmdbd, slurm-client 22.05.8-4+deb12u3 with MariaDB: exit codes in sacct --json.
# One would guess: the JSON has what the text has, better: exit_code with status, return_code and signal in fields of their own.
# What happens: a job that ended with `exit 3`, FAILED and 3:0 in the text, has exit_code {"status": "SUCCESS",
# "return_code": 0} in JSON, the job and its step; so had 1, 127, 128, 137, 200 and 255. A signal is told rightly
# (SIGNALED, 9). Only the state, in another field, says FAILED.
# Why it matters: the field that is made for programs says the opposite of the job's fate, in the form that is easier
# to read; who moves from the text to JSON loses all failures that have an exit code.
set -euo pipefail
work=$(mktemp -d) # removed by slurm.inc, which unpacks this version there
SLURM_VERSION=22.05.8-4+deb12u3
# shellcheck source=slurm.inc
. "$(dirname "$0")/slurm.inc"
ACCOUNTING=yes slurm_up 1
sacct --version
echo "guess: return_code is the 3 of sacct's text"
for code in 0 1 3 137; do sbatch -Q -o /dev/null --wrap "exit $code"; done
# shellcheck disable=SC2016
sbatch -Q -o /dev/null --wrap 'kill -9 $$'
wait_for 60 sh -c '! squeue -h | grep -q .'
wait_for 30 sh -c '[ "$(sacct -nXP -o State | grep -c ED$)" = 5 ]'
here "text" "1=COMPLETED 0:0;2=FAILED 1:0;3=FAILED 3:0;4=FAILED 9:0;5=FAILED 0:9" \
  "$(sacct -nXP -o JobID,State,ExitCode | sed 's/|/=/; s/|/ /' | paste -sd ';')"
here "JSON" "1=COMPLETED SUCCESS 0;2=FAILED SUCCESS 0;3=FAILED SUCCESS 0;4=FAILED SUCCESS 0;5=FAILED SIGNALED None" "$(
  sacct --json | python3 -c '
import json, sys
print(";".join(
    "{}={} {} {}".format(job["job_id"], job["state"]["current"], job["exit_code"]["status"], job["exit_code"]["return_code"])
    for job in json.load(sys.stdin)["jobs"]))')"
