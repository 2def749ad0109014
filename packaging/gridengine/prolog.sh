#!/bin/bash -p
# Grid Engine prolog and epilog in one: publishes the features of the job that starts here and tells
# the job where they are, or takes them away. Which of the two it is, its own name says.
# It runs as root (root@PATH), and yet with the environment of the job: users choose most of that.
# Nothing of it is used but the job's number and folder, which are checked. A hook that fails puts
# the job or the queue into an error state: this one ends with 0 and within a time limit, always.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
trap 'exit 0' EXIT HUP INT TERM
unset IFS

# Once more, with nothing in the environment but this, and what the shepherd, who runs us, had from
# its daemon.
if [ "${1:-}" != clean ]; then
  clean=("PATH=$PATH" LC_ALL=C "JOB_ID=${JOB_ID:-}" "SGE_JOB_SPOOL_DIR=${SGE_JOB_SPOOL_DIR:-}")
  while IFS= read -r -d '' line; do
    case $line in
    SGE_ROOT=* | SGE_CELL=* | SGE_QMASTER_PORT=* | SGE_EXECD_PORT=* | SGE_CLUSTER_NAME=* | JOBFEATURES_*)
      clean+=("$line")
      ;;
    esac
  done 2>/dev/null <"/proc/$PPID/environ"
  exec env -i "${clean[@]}" /bin/bash -p "$0" clean
fi

# the functions hook_*, from the file beside this one; a link to this script needs none beside it
here=$0
[[ -L $0 || $0 != */* ]] && here=$(readlink -f -- "$0")
if ! . "${here%/*}/hook.sh"; then # bash itself tells standard error
  timeout -s KILL 1 logger -t jobfeatures -p daemon.err -- "$0: no hook.sh beside it" </dev/null >/dev/null 2>&1 &
  exit 0
fi
hook_quiet=yes # standard error is the job's own error file

# The folder of the job is that in which its shepherd works. Users cannot choose that.
folder=$SGE_JOB_SPOOL_DIR
if ! [[ $JOB_ID =~ ^[1-9][0-9]{0,9}$ && $folder == /*/"$JOB_ID".* && $folder -ef /proc/$PPID/cwd ]]; then
  hook_say err "not run for a job by its shepherd, or not as root: set it as root@PATH"
  exit 0
fi

# An array's task has its own number behind the job's; ja_task_id is 0 where there is no array.
SGE_TASK_ID=${folder##*.}
while IFS= read -r line || [ -n "$line" ]; do
  case $line in
  ja_task_id=0) SGE_TASK_ID=undefined && break ;;
  ja_task_id=*) break ;;
  esac
done 2>/dev/null <"$folder/config"
export SGE_TASK_ID
hook_job=$JOB_ID
[ "$SGE_TASK_ID" = undefined ] || hook_job=$JOB_ID.$SGE_TASK_ID

# tell_job: write the prepared lines, without "export", to the variables that the shepherd gives the job
tell_job() {
  local exports=$hook_root/exports/gridengine-$hook_job environment=$folder/environment lines=0 line
  if ! [ -f "$environment" ] || [ -L "$environment" ]; then
    hook_say err "is not told where its features are"
    return
  fi
  if ! [ -f "$exports" ]; then # it came too late, or not yet: the places are known all the same
    printf '%s\n' "MACHINEFEATURES=$hook_root/machinefeatures" \
      "JOBFEATURES=$hook_root/jobfeatures/gridengine-$hook_job" \
      "JOBSTATUS=$hook_root/jobstatus/gridengine-$hook_job" >>"$environment"
    return
  fi
  while [ "$lines" -lt 16 ] && { IFS= read -r line || [ -n "$line" ]; }; do
    lines=$((lines + 1))
    case $line in
    *[[:cntrl:]]*) ;;
    'export MACHINEFEATURES='* | 'export JOBFEATURES='* | 'export JOBSTATUS='* | \
      'export MACHINEFEATURES_URL='* | 'export JOBFEATURES_URL='* | 'export JOBSTATUS_URL='*)
      printf '%s\n' "${line#export }" || return
      ;;
    esac
  done 2>/dev/null <"$exports" >>"$environment"
}

hook_settings "${JOBFEATURES_SETTINGS:-/etc/default/jobfeatures}"
case ${0##*/} in
*epilog*) hook_do remove gridengine JOB_ID SGE_TASK_ID ;;
*)
  hook_do publish gridengine JOB_ID SGE_TASK_ID SGE_JOB_SPOOL_DIR
  tell_job
  ;;
esac
exit 0
