#!/bin/bash -p
# LSF pre- and post-execution command in one: publishes the features of the job that starts here, or
# removes those of the job that ended here. Which of the two, the script's name says.
# It runs as root (LSB_PRE_POST_EXEC_USER), but in the environment of the job, most of which users
# choose: only variables that LSF sets itself are used. A pre-execution command that fails sends its
# job back into the queue: this one always exits with 0 and within a time limit.
# An argument names the settings file.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
trap 'exit 0' EXIT HUP INT TERM
unset IFS

# Run again, with nothing in the environment but what LSF sets for every job.
if [ "${2:-}" != clean ]; then
  clean=("PATH=$PATH" LC_ALL=C)
  for name in LSB_JOBID LSB_JOBINDEX LSB_JOBNAME LSB_QUEUE LSB_PROJECT_NAME LSB_DJOB_NUMPROC \
    LSB_MCPU_HOSTS LSB_HOSTS LSFUSER; do
    [ -n "${!name:-}" ] && clean+=("$name=${!name}")
  done
  exec env -i "${clean[@]}" /bin/bash -p "$0" "${1:-/etc/default/jobfeatures}" clean
fi

# the functions hook_*, from the file next to this one; for a link to this script, next to its target
here=$0
[[ -L $0 || $0 != */* ]] && here=$(readlink -f -- "$0")
if ! . "${here%/*}/hook.sh"; then # bash itself reports that to standard error
  timeout -s KILL 1 logger -t jobfeatures -p daemon.err -- "$0: hook.sh is missing from its folder" </dev/null >/dev/null 2>&1 &
  exit 0
fi

case ${0##*/} in
*post*) action=remove ;;
*) action=publish ;;
esac
hook_job=${LSB_JOBID:-?}
[ "${LSB_JOBINDEX:-0}" = 0 ] || hook_job="${hook_job}[$LSB_JOBINDEX]"
hook_settings "$1"
hook_do "$action" lsf LSB_JOBID LSB_JOBINDEX LSB_JOBNAME LSB_QUEUE LSB_PROJECT_NAME LSB_DJOB_NUMPROC \
  LSB_MCPU_HOSTS LSB_HOSTS LSFUSER || [ "$EUID" = 0 ] || hook_say err "it does not run as root: see LSB_PRE_POST_EXEC_USER"
exit 0
