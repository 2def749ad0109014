#!/bin/bash -p
# Grid Engine prolog and epilog in one: publishes the features of the job that starts here and tells
# the job where they are, or removes them. Which of the two, the script's name says.
# It runs as root (root@PATH), but in the environment of the job, most of which users choose.
# Only the job's number and folder are used, after a check. A hook that fails puts the job or the
# queue into an error state: this one always exits with 0 and within a time limit.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
trap 'exit 0' EXIT HUP INT TERM
unset IFS

# Run again, with nothing in the environment but this, and what the shepherd that runs us has
# inherited from its daemon.
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

# the functions hook_*, from the file next to this one; for a link to this script, next to its target
here=$0
[[ -L $0 || $0 != */* ]] && here=$(readlink -f -- "$0")
if ! . "${here%/*}/hook.sh"; then # bash itself reports that to standard error
  timeout -s KILL 1 logger -t jobfeatures -p daemon.err -- "$0: hook.sh is missing from its folder" </dev/null >/dev/null 2>&1 &
  exit 0
fi
hook_quiet=yes # standard error is the job's own error file

# The job's folder must be the working directory of its shepherd, which users cannot choose.
folder=$SGE_JOB_SPOOL_DIR
if ! [[ $JOB_ID =~ ^[1-9][0-9]{0,9}$ && $folder == /*/"$JOB_ID".* && $folder -ef /proc/$PPID/cwd ]]; then
  hook_say err "not run for a job by its shepherd, or not as root: set it as root@PATH"
  exit 0
fi

# An array's task has its own number after the job's; ja_task_id is 0 if the job is not an array.
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

# tell_job: append the prepared lines, without "export", to the file of the job's environment variables
tell_job() {
  local exports=$hook_root/exports/gridengine-$hook_job environment=$folder/environment lines=0 line no_proxy='' NO_PROXY='' old
  if ! [ -f "$environment" ] || [ -L "$environment" ]; then
    hook_say err "is not told where its features are"
    return
  fi
  if ! [ -f "$exports" ]; then # not there yet, or not at all: the paths are known anyway
    printf '%s\n' "MACHINEFEATURES=$hook_root/machinefeatures" \
      "JOBFEATURES=$hook_root/jobfeatures/gridengine-$hook_job" \
      "JOBSTATUS=$hook_root/jobstatus/gridengine-$hook_job" >>"$environment"
    return
  fi
  while IFS= read -r line; do
    case $line in
    no_proxy=*) no_proxy=${line#*=} ;;
    NO_PROXY=*) NO_PROXY=${line#*=} ;;
    esac
  done 2>/dev/null <"$environment"
  while [ "$lines" -lt 16 ] && { IFS= read -r line || [ -n "$line" ]; }; do
    lines=$((lines + 1))
    case $line in
    *[[:cntrl:]]*) ;;
    'export no_proxy='* | 'export NO_PROXY='*) # what the job has stays; programs read either, and some only the first that is set
      case $line in
      *no_proxy=*) old=${no_proxy:-$NO_PROXY} ;;
      *) old=${NO_PROXY:-$no_proxy} ;;
      esac
      case ,$old, in
      *[[:cntrl:]]*) continue ;;
      ,\*, | *",${line#*=},"*) ;;
      *) old=${old:+$old,}${line#*=} ;;
      esac
      line=${line#export }
      printf '%s\n' "${line%%=*}=$old" || return
      ;;
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
