#!/bin/bash -p
# OAR's prologue and epilogue in one: publishes the features of the job that starts here, or removes
# those of the job that ended here. Which of the two, the script's name says.
# OAR runs it as its own user on the job's first node. A status other than 0 ends the job and takes the
# node out of service: this one exits with 0, within a time limit, and prints nothing.
unset "${!PYTHON@}" "${!LD_@}" # whatever the batch system lets through from a job
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/oar/oardodo LC_ALL=C
trap 'exit 0' EXIT HUP INT TERM
exec </dev/null >/dev/null 2>&1

here=$0
[[ -L $0 || $0 != */* ]] && here=$(readlink -f -- "$0")
if [ "$EUID" != 0 ]; then # OAR gives 3 or 4 arguments; root gets 6, with what it lacks in its environment
  [ $# -ge 6 ] || oardodo "$0" "${1-}" "${2-}" "${3-}" "${OAR_JOB_WALLTIME_SECONDS-${4-}}" \
    "${OAR_JOB_NAME-}" "${OAR_PROJECT_NAME-}"
  exit 0
fi

# the functions hook_*, from the file next to this one; for a link to this script, next to its target
if ! . "${here%/*}/hook.sh"; then
  timeout -s KILL 1 logger -t jobfeatures -p daemon.err -- "$0: hook.sh is missing from its folder" &
  exit 0
fi

case ${0##*/} in
*epilogue*) action=remove ;;
*) action=publish ;;
esac
export OAR_JOB_ID=${1-}
hook_job=${OAR_JOB_ID:-?}
if [ "$action" = publish ]; then
  export OAR_USER=${2-}
  [ $# -lt 6 ] || export OAR_JOB_WALLTIME_SECONDS=$4 OAR_JOB_NAME=$5 OAR_PROJECT_NAME=$6
  # the time of the file that the daemon reads, too
  variables=${3%/*}/${OAR_USER}_$OAR_JOB_ID.env
  [ ! -f "$variables" ] || [ -L "$variables" ] || OAR_HOOK_START=$(stat -c %Y -- "$variables")
  [ -n "${OAR_HOOK_START-}" ] || printf -v OAR_HOOK_START '%(%s)T' -1
  # the directory service may be stuck: wait for id's answer only, not for its end
  read -r -t 1 OAR_HOOK_UID < <(timeout -s KILL 1 id -u -- "$OAR_USER")
  if [ -f "${3-}" ] && [ ! -L "$3" ]; then
    mapfile -t -n 65536 nodes <"$3"
    OAR_HOOK_NODES=${nodes[*]}
  fi
  export OAR_HOOK_START OAR_HOOK_UID OAR_HOOK_NODES
fi
hook_settings "${JOBFEATURES_SETTINGS:-/etc/default/jobfeatures}"
hook_do "$action" oar OAR_JOB_ID OAR_USER OAR_HOOK_UID OAR_JOB_NAME OAR_PROJECT_NAME \
  OAR_JOB_WALLTIME_SECONDS OAR_HOOK_START OAR_HOOK_NODES
exit 0
