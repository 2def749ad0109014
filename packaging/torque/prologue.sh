#!/bin/bash -p
# Torque prologue and epilogue in one: publishes the features of the job that starts here, or removes
# those of the job that ended here. Which of the two, the script's name says.
# pbs_mom runs it as root. A prologue that fails requeues or aborts its job, and what it prints
# goes into the job's output: this one exits with 0, within a time limit, and prints nothing.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
trap 'exit 0' EXIT HUP INT TERM
exec </dev/null >/dev/null 2>&1

# the functions hook_*, from the file next to this one; for a link to this script, next to its target
here=$0
[[ -L $0 || $0 != */* ]] && here=$(readlink -f -- "$0")
if ! . "${here%/*}/hook.sh"; then
  timeout -s KILL 1 logger -t jobfeatures -p daemon.err -- "$0: hook.sh is missing from its folder" &
  exit 0
fi

case ${0##*/} in
*epilogue*) action=remove ;;
*) action=publish ;;
esac
export PBS_JOBID=${1-}
hook_job=${PBS_JOBID:-?}
hook_id=${PBS_JOBID%%.*}
if [ "$action" = publish ]; then # arguments: "Prologue and epilogue scripts" in the administrator's guide
  export TORQUE_USER=${2-} TORQUE_JOB_NAME=${4-} TORQUE_LIMITS=${5-} TORQUE_QUEUE=${6-} TORQUE_ACCOUNT=${7-}
  printf -v TORQUE_START '%(%s)T' -1
  # the directory service may be stuck: wait for id's answer only, not for its end
  read -r -t 1 TORQUE_UID < <(timeout -s KILL 1 id -u -- "$TORQUE_USER")
  export TORQUE_START TORQUE_UID
fi
hook_settings "${JOBFEATURES_SETTINGS:-/etc/default/jobfeatures}"
hook_do "$action" torque PBS_JOBID TORQUE_USER TORQUE_UID TORQUE_JOB_NAME TORQUE_LIMITS TORQUE_QUEUE \
  TORQUE_ACCOUNT TORQUE_START
exit 0
