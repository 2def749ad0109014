#!/bin/sh
# Torque prologue and epilogue in one: publishes the features of the job that starts here, and takes
# away those of the job that ended here. Which of the two it is, its own name says.
# pbs_mom runs it as root. A prologue that fails requeues or aborts its job, and what it prints
# goes into the job's output: this one ends with 0, within a time limit, and prints nothing.
case ${0##*/} in
*epilogue*) action=remove ;;
*) action=publish ;;
esac

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
export PATH LC_ALL
trap 'exit 0' EXIT HUP INT TERM
exec </dev/null >/dev/null 2>&1

say() { # to syslog; nobody waits for it, it may be stuck
  command -v logger && timeout -s KILL 1 logger -t jobfeatures -p daemon.warning -- "job $PBS_JOBID: $1" &
}

PBS_JOBID=${1-}
export PBS_JOBID
if [ "$action" = publish ]; then # arguments: "Prologue and epilogue scripts" in the administrator's guide
  TORQUE_USER=${2-} TORQUE_JOB_NAME=${4-} TORQUE_LIMITS=${5-} TORQUE_QUEUE=${6-} TORQUE_ACCOUNT=${7-}
  TORQUE_UID=$(timeout -s KILL 1 id -u -- "$TORQUE_USER")
  TORQUE_START=$(date +%s)
  export TORQUE_USER TORQUE_JOB_NAME TORQUE_LIMITS TORQUE_QUEUE TORQUE_ACCOUNT TORQUE_UID TORQUE_START
fi

# settings: a file that belongs to whoever runs this, and that nobody else can write
settings=${JOBFEATURES_SETTINGS:-/etc/default/jobfeatures}
if [ -r "$settings" ]; then
  if [ -n "$(find -L "$settings" -type f -user "$(id -u)" ! -perm -020 ! -perm -002)" ]; then
    set -a
    # shellcheck source=/dev/null
    . "$settings"
    set +a
  else
    say "$settings is not read: others than root could have written it"
  fi
fi
limit=${JOBFEATURES_HOOK_TIMEOUT:-2}
case $limit in
'' | *[!0-9]* | ????*) limit=2 ;;
esac
export JOBFEATURES_HOOK_TIMEOUT="$limit"

command=${JOBFEATURES_COMMAND:-}
for directory in /opt/jobfeatures-exporter/bin /usr/local/bin /usr/bin; do
  [ -z "$command" ] && [ -x "$directory/jobfeatures" ] && command=$directory/jobfeatures
done
if ! [ -f "$command" ] || ! [ -x "$command" ]; then
  say "no command ${command:-jobfeatures} to $action its features"
  exit 0
fi

# The command runs in the background under a limit. Where it cannot even be killed, because the
# kernel holds it, the alarm of the shell below ends the wait.
timeout -s KILL "$limit" "$command" "$action" --batch torque &
runner=$!
(sleep $((limit + 1)) && kill -TERM $$) &
alarm=$!
wait "$runner" || say "$action failed or took longer than $limit s"
kill "$alarm"
exit 0
