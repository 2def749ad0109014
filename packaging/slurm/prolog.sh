#!/bin/bash -p
# Slurm Prolog and Epilog in one: publishes the features of the job that starts here, or removes
# those of the job that ended here. Which of the two, slurmd's variable or else the script's name says.
# slurmd runs it as root, with a minimal environment. A hook that fails drains its node and one
# that hangs delays its job or the next: this one always exits with 0 and within a time limit.
unset "${!PYTHON@}" "${!LD_@}" # whatever the batch system lets through from a job
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
trap 'exit 0' EXIT HUP INT TERM

# the functions hook_*, from the file next to this one; for a link to this script, next to its target
here=$0
[[ -L $0 || $0 != */* ]] && here=$(readlink -f -- "$0")
if ! . "${here%/*}/hook.sh"; then # bash itself reports that to standard error
  timeout -s KILL 1 logger -t jobfeatures -p daemon.err -- "$0: hook.sh is missing from its folder" </dev/null >/dev/null 2>&1 &
  exit 0
fi

case ${SLURM_SCRIPT_CONTEXT:-${0##*/}} in
*epilog*) action=remove ;;
*) action=publish ;;
esac
hook_job=${SLURM_JOB_ID:-?}
hook_settings "${JOBFEATURES_SETTINGS:-/etc/default/jobfeatures}"
hook_do "$action" slurm SLURM_JOB_ID SLURM_JOBID SLURM_JOB_UID SLURM_UID SLURM_JOB_USER SLURM_JOB_NAME \
  SLURM_JOB_ACCOUNT SLURM_JOB_PARTITION SLURM_JOB_NODELIST SLURM_NODELIST SLURMD_NODENAME \
  SLURM_JOB_CPUS_PER_NODE SLURM_JOB_GPUS SLURM_SHARDS_ON_NODE SLURM_JOB_START_TIME SLURM_JOB_END_TIME \
  SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID SLURM_HET_JOB_ID SLURM_HET_JOB_OFFSET SLURM_JOB_RESTART_COUNT \
  SLURM_JOB_SLUID SLURM_CLUSTER_NAME
exit 0
