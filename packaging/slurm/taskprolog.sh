#!/bin/bash -p
# Slurm TaskProlog: tells a task where the features of its job are.
# slurmstepd runs it as the job's user before each task, and takes lines "export NAME=value"
# on its standard output into the task's environment. The Prolog has prepared the lines;
# nothing is started here, since this runs as often as there are tasks.
LC_ALL=C
case ${SLURM_JOB_ID:-} in
'' | *[!0-9]*) exit 0 ;;
esac
exports=${JOBFEATURES_FEATURES_ROOT:-/run/jobfeatures}/exports/slurm-$SLURM_JOB_ID
if [ -f "$exports" ] && [ -r "$exports" ]; then
  lines=0
  while [ "$lines" -lt 16 ] && { IFS= read -r line || [ -n "$line" ]; }; do
    lines=$((lines + 1))
    case $line in
    *[[:cntrl:]]*) ;;
    'export MACHINEFEATURES='* | 'export JOBFEATURES='* | 'export JOBSTATUS='* | \
      'export MACHINEFEATURES_URL='* | 'export JOBFEATURES_URL='* | 'export JOBSTATUS_URL='*) printf '%s\n' "$line" ;;
    esac
  done 2>/dev/null <"$exports"
fi
exit 0
