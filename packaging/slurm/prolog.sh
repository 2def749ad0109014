#!/bin/bash -p
# Slurm Prolog and Epilog in one: publishes the features of the job that starts here, and takes
# away those of the job that ended here. Which of the two it is, slurmd tells, else its own name.
# slurmd runs it as root, with a bare environment. A hook that fails drains its node and one
# that hangs delays its job or the next: this one ends with 0 and within a time limit, always.
case ${SLURM_SCRIPT_CONTEXT:-${0##*/}} in
*epilog*) action=remove ;;
*) action=publish ;;
esac

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
trap 'exit 0' EXIT HUP INT TERM

# say PRIORITY TEXT: to slurmd's log and to syslog; nobody waits for syslog, it may be stuck
say() {
  printf 'jobfeatures: %s\n' "$2" >&2
  if command -v logger >/dev/null; then
    timeout -s KILL 1 logger -t jobfeatures -p "daemon.$1" -- "$2" </dev/null >/dev/null 2>&1 &
    disown
  fi
}

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
  say err "job ${SLURM_JOB_ID:-?}: no command ${command:-jobfeatures} to $action its features"
  exit 0
fi

# The command runs in the background, in a process group of its own (set -m), and holds
# none of our streams, so that slurmd does not wait for it either. Its end is one line in a
# pipe, for which we wait. Where it cannot even be killed, because the kernel holds it, it
# is left behind.
run() {
  local said status
  said=$("$command" "$action" --batch slurm 2>&1 >/dev/null | { head -c 1000; cat >/dev/null; }
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
    say err "job ${SLURM_JOB_ID:-?}: $action failed ($status): $said"
  elif [ -n "$said" ]; then
    say info "$said"
  fi
else
  end "$runner"
  kill -KILL -- "-$runner" 2>/dev/null
  say err "job ${SLURM_JOB_ID:-?}: $action took longer than $limit s"
fi
exit 0
