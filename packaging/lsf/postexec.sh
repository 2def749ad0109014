#!/bin/bash -p
# LSF pre- and post-execution command in one: publishes the features of the job that starts here, and
# takes away those of the job that ended here. Which of the two it is, its own name says.
# It is run as root (LSB_PRE_POST_EXEC_USER), and yet in the environment of the job, most of which
# users choose: nothing of that is used but what LSF sets itself. A pre-execution command that fails
# sends its job back into the queue: this one ends with 0 and within a time limit, always.
# The settings may be named as its argument.
case ${0##*/} in
*post*) action=remove ;;
*) action=publish ;;
esac
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
trap 'exit 0' EXIT HUP INT TERM
unset IFS

# say PRIORITY TEXT: to standard error and to syslog; nobody waits for syslog, it may be stuck
say() {
  printf 'jobfeatures: job %s: %s\n' "$job" "$2" >&2
  if command -v logger >/dev/null; then
    timeout -s KILL 1 logger -t jobfeatures -p "daemon.$1" -- "job $job: $2" </dev/null >/dev/null 2>&1 &
    disown
  fi
}

# Once more, with nothing in the environment but what LSF sets for every job.
if [ "${2:-}" != clean ]; then
  clean=("PATH=$PATH" LC_ALL=C)
  for name in LSB_JOBID LSB_JOBINDEX LSB_JOBNAME LSB_QUEUE LSB_PROJECT_NAME LSB_DJOB_NUMPROC \
    LSB_MCPU_HOSTS LSB_HOSTS LSFUSER; do
    [ -n "${!name:-}" ] && clean+=("$name=${!name}")
  done
  exec env -i "${clean[@]}" /bin/bash -p "$0" "${1:-/etc/default/jobfeatures}" clean
fi
job=${LSB_JOBID:-?}
if [ "${LSB_JOBINDEX:-0}" != 0 ]; then job="${job}[$LSB_JOBINDEX]"; fi

# settings: a file that only its owner, who is whoever runs this, can write
settings=$1
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
  say err "no command ${command:-jobfeatures} to $action its features"
  exit 0
fi

# The command runs in the background, in a process group of its own (set -m). Its end is one line in
# a pipe, for which we wait. Where it cannot even be killed, because the kernel holds it, it is left
# behind, and holds none of our streams.
run() {
  local said status
  said=$("$command" "$action" --batch lsf 2>&1 >/dev/null | { head -c 1000; cat >/dev/null; }
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
    say err "$action failed ($status): $said"
    [ "$EUID" = 0 ] || say err "it does not run as root: see LSB_PRE_POST_EXEC_USER"
  elif [ -n "$said" ]; then
    say info "$said"
  fi
else
  end "$runner"
  kill -KILL -- "-$runner" 2>/dev/null
  say err "$action took longer than $limit s"
fi
exit 0
