#!/bin/bash
# End the pool and all that it has started, and remove its control groups and files; the kept folder stays.
set -u
L=${CONDOR_LAB:-/tmp/jobfeatures-lab/htcondor}
init=$(cat "$L/init.pid" 2>/dev/null) holder=$(cat "$L/holder.pid" 2>/dev/null)
ours() { [ -n "$1" ] && tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | grep -q "$L/init.sh"; } # numbers are used again
if ours "$init"; then
    kill -TERM "$init"
    for _ in $(seq 100); do kill -0 "$init" 2>/dev/null || break; sleep 0.1; done
    kill -KILL "$init" 2>/dev/null # the kernel ends all others of its namespace
fi
for _ in $(seq 100); do ours "$holder" || break; sleep 0.1; done # which removes the control groups
! ours "$holder" || echo "htcondor lab: process $holder still has its control groups" >&2
rm -rf --one-file-system "$L"
