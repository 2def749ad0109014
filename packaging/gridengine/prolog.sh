#!/bin/bash -p
# Grid Engine prolog and epilog in one: publishes the features of the job that starts here and tells
# the job where they are, or takes them away. Which of the two it is, its own name says.
# It runs as root (root@PATH), and yet with the environment of the job: users choose most of that.
# Nothing of it is used but the job's number and folder, which are checked. A hook that fails puts
# the job or the queue into an error state: this one ends with 0 and within a time limit, always.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
trap 'exit 0' EXIT HUP INT TERM
unset IFS
case ${0##*/} in
*epilog*) action=remove ;;
*) action=publish ;;
esac

# say PRIORITY TEXT: to syslog, and what is more than news to the job's own error file, which is our
# standard error; nobody waits for syslog, it may be stuck
say() {
  [ "$1" = info ] || printf 'jobfeatures: %s\n' "$2" >&2
  if command -v logger >/dev/null; then
    timeout -s KILL 1 logger -t jobfeatures -p "daemon.$1" -- "$2" </dev/null >/dev/null 2>&1 &
    disown
  fi
}

# The folder of the job is that in which its shepherd, who runs us, works. Users cannot choose that.
number=${JOB_ID:-}
folder=${SGE_JOB_SPOOL_DIR:-}
if ! [[ $number =~ ^[1-9][0-9]{0,9}$ && $folder == /*/"$number".* && $folder -ef /proc/$PPID/cwd ]]; then
  say err "not run for a job by its shepherd, or not as root: set it as root@PATH"
  exit 0
fi

# Once more, with nothing in the environment but this, and what the shepherd had from its daemon.
if [ "${1:-}" != clean ]; then
  clean=("PATH=$PATH" LC_ALL=C "JOB_ID=$number" "SGE_JOB_SPOOL_DIR=$folder")
  while IFS= read -r -d '' line; do
    case $line in
    SGE_ROOT=* | SGE_CELL=* | SGE_QMASTER_PORT=* | SGE_EXECD_PORT=* | SGE_CLUSTER_NAME=* | JOBFEATURES_*)
      clean+=("$line")
      ;;
    esac
  done 2>/dev/null <"/proc/$PPID/environ"
  exec env -i "${clean[@]}" /bin/bash -p "$0" clean
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
job=$number
[ "$SGE_TASK_ID" = undefined ] || job=$number.$SGE_TASK_ID

# settings: a file that only its owner, who is whoever runs this, can write
settings=${JOBFEATURES_SETTINGS:-/etc/default/jobfeatures}
if [ -r "$settings" ]; then
  if [ -f "$settings" ] && [ -O "$settings" ] && [ -z "$(find -L "$settings" -perm /022 2>&1)" ]; then
    set -a
    # shellcheck source=/dev/null
    . "$settings" >/dev/null
    set +a
  else
    say warning "$settings is not read: others than root could have written it"
  fi
fi
limit=${JOBFEATURES_HOOK_TIMEOUT:-2}
limit=${limit%s}
if ! [[ $limit =~ ^[0-9]{1,3}([.][0-9]{1,3})?$ && $limit =~ [1-9] ]]; then
  say warning "JOBFEATURES_HOOK_TIMEOUT is not a number of seconds, 2 is taken"
  limit=2
  export JOBFEATURES_HOOK_TIMEOUT=2 # the command would refuse the other
fi

command=${JOBFEATURES_COMMAND:-}
if [ -z "$command" ]; then
  for directory in /opt/jobfeatures-exporter/bin /usr/local/bin /usr/bin; do
    [ -x "$directory/jobfeatures" ] && command=$directory/jobfeatures && break
  done
fi
if ! [ -f "$command" ] || ! [ -x "$command" ]; then
  say err "job $job: no command ${command:-jobfeatures} to $action its features"
  exit 0
fi

# tell_job: write the prepared lines, without "export", to the variables that the shepherd gives the job
tell_job() {
  local exports=${JOBFEATURES_FEATURES_ROOT:-/run/jobfeatures}/exports/gridengine-$job
  local environment=$folder/environment lines=0 line
  if ! [ -f "$exports" ] || ! [ -f "$environment" ] || [ -L "$environment" ]; then
    say err "job $job: is not told where its features are"
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

# The command runs in the background, in a process group of its own (set -m), and holds
# none of our streams, so that the shepherd does not wait for it either. Its end is one line in a
# pipe, for which we wait. Where it cannot even be killed, because the kernel holds it, it
# is left behind.
run() {
  local said status
  said=$("$command" "$action" --batch gridengine 2>&1 >/dev/null | { head -c 1000; cat >/dev/null; }
    exit "${PIPESTATUS[0]}")
  status=$?
  said=${said//[^[:print:]]/ }
  printf '%s %s\n' "$status" "$said"
}
end() { # end PID: kill it and all that descend from it; stopped first, it starts no more
  local list children child
  kill -STOP "$1" 2>/dev/null
  for list in "/proc/$1/task/"*/children; do
    read -r -a children <"$list" || true
    for child in "${children[@]}"; do end "$child"; done
  done 2>/dev/null
  kill -KILL "$1" 2>/dev/null
}
set -m
coproc ANSWER { # the word to go: until then we take over its pipe, which ends with it
  read -r _
  run </dev/null
} 2>/dev/null
runner=$ANSWER_PID
exec {answer}<&"${ANSWER[0]}" {go}>&"${ANSWER[1]}"
disown
set +m
echo go >&"$go"
if read -r -t "$limit" -u "$answer" status said; then
  if [ "$status" != 0 ]; then
    say err "job $job: $action failed ($status): $said"
  elif [ -n "$said" ]; then
    say info "$said"
  fi
else
  end "$runner"
  kill -KILL -- "-$runner" 2>/dev/null
  say err "job $job: $action took longer than $limit s"
fi
[ "$action" = publish ] && tell_job
exit 0
