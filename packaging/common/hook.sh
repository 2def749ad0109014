#!/bin/bash -p
# What the hooks of all batch systems have in common; each system's script sources this file, which
# lies beside it. A hook ends with 0 and within a time limit, always: a script sets PATH, LC_ALL and
# its traps first, sources this, sets hook_job, and calls hook_settings, then hook_run.

hook_job='?' # the job, as messages name it
hook_quiet= # set where standard error is the job's own: news goes to syslog only
hook_limit=2 # seconds that the command may take
hook_command= # the command to run

# hook_say PRIORITY TEXT: to standard error and to syslog; nobody waits for syslog, it may be stuck.
hook_say() {
  local text="job $hook_job: $2"
  [ -n "$hook_quiet" ] && [ "$1" = info ] || printf 'jobfeatures: %s\n' "$text" >&2
  if command -v logger >/dev/null; then
    timeout -s KILL 1 logger -t jobfeatures -p "daemon.$1" -- "$text" </dev/null >/dev/null 2>&1 &
    disown 2>/dev/null # it may have ended already
  fi
}

# hook_settings FILE: read shell assignments into the environment, from a file that only its owner,
# who is whoever runs this, can write; set the limit, and the command where there is one.
hook_settings() {
  local directory
  if [ -r "$1" ]; then
    if [ -f "$1" ] && [ -O "$1" ] && [ -z "$(find -L "$1" -perm /022 2>&1)" ]; then
      set -a
      # shellcheck source=/dev/null
      . "$1" >/dev/null
      set +a
    else
      hook_say warning "$1 is not read: others than root could have written it"
    fi
  fi
  hook_limit=${JOBFEATURES_HOOK_TIMEOUT-2}
  hook_limit=${hook_limit%s}
  if ! [[ $hook_limit =~ ^[0-9]{1,3}([.][0-9]{1,3})?$ && $hook_limit =~ [1-9] ]]; then
    [ -z "$hook_limit" ] || hook_say warning "JOBFEATURES_HOOK_TIMEOUT is not a number of seconds, 2 is taken"
    hook_limit=2
    export JOBFEATURES_HOOK_TIMEOUT=2 # the command would refuse the other
  fi
  hook_command=${JOBFEATURES_COMMAND:-}
  if [ -z "$hook_command" ]; then
    for directory in /opt/jobfeatures-exporter/bin /usr/local/bin /usr/bin; do
      [ -x "$directory/jobfeatures" ] && hook_command=$directory/jobfeatures && break
    done
  fi
}

# hook_run ACTION BATCH: run the command for the job, and end it at the limit; 0 if it succeeded.
# The command runs in the background, in a process group of its own (set -m), and holds none of our
# streams, so that nobody who reads those to their end waits for it. Its end is one line in a pipe, for
# which we wait. Where it cannot even be killed, because the kernel holds it, it is left behind.
hook_run() {
  local runner answer go status said
  if ! [ -f "$hook_command" ] || ! [ -x "$hook_command" ]; then
    hook_say err "no command ${hook_command:-jobfeatures} to $1 its features"
    hook_count "$1"
    return 1
  fi
  set -m
  coproc HOOK { # exec, since a redirected { } would keep the old streams to go back to them
    exec 2>/dev/null
    read -r _ # the word to go: until then we take over its pipe, which ends with it
    exec </dev/null
    hook_answer "$@"
  }
  runner=$HOOK_PID
  exec {answer}<&"${HOOK[0]}" {go}>&"${HOOK[1]}"
  disown
  set +m
  echo go >&"$go"
  if ! read -r -t "$hook_limit" -u "$answer" status said; then
    hook_end "$runner"
    kill -KILL -- "-$runner" 2>/dev/null
    hook_say err "$1 took longer than $hook_limit s"
    hook_count "$1"
    return 1
  fi
  if [ "$status" != 0 ]; then
    hook_say err "$1 failed ($status): $said"
    hook_count "$1"
    return 1
  fi
  [ -z "$said" ] || hook_say info "$said"
}

# hook_count ACTION: leave a byte for the daemon, which shows how many there are; nobody waits for it.
# The folder is the daemon's: where it is another user's, or not there, nothing is left.
hook_count() {
  local folder=${JOBFEATURES_FEATURES_ROOT:-/run/jobfeatures}/failures
  { [ -d "$folder" ] && [ -O "$folder" ] && printf . >>"$folder/$1"; } </dev/null >/dev/null 2>&1 &
  disown 2>/dev/null
}

# hook_answer ACTION BATCH: run the command; print its status and the beginning of what it says.
hook_answer() {
  local said status
  said=$("$hook_command" "$1" --batch "$2" 2>&1 >/dev/null | { head -c 1000; cat >/dev/null; }
    exit "${PIPESTATUS[0]}")
  status=$?
  said=${said//[^[:print:]]/ }
  printf '%s %s\n' "$status" "$said"
}

# hook_end PID: kill it and all that descend from it; stopped first, it starts no more.
hook_end() {
  local list children child
  kill -STOP "$1" 2>/dev/null
  for list in "/proc/$1/task/"*/children; do
    read -r -a children <"$list" || true
    for child in "${children[@]}"; do hook_end "$child"; done
  done 2>/dev/null
  kill -KILL "$1" 2>/dev/null
}
