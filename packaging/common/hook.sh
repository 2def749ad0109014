#!/bin/bash -p
# Functions shared by the hooks of all batch systems; each system's script sources this file from its
# own directory. A hook always exits with 0 and within a time limit: a script first sets PATH, LC_ALL
# and its traps, sources this file, sets hook_job, and calls hook_settings, then hook_do.

hook_job='?' # the job's name in messages
hook_id= # the job's name in its directory if different from hook_job; [ ] are %5B %5D there
hook_quiet= # set if standard error is the job's own: informational messages then go to syslog only
hook_limit=2 # time limit of the work, in seconds
hook_command= # the command to run if no daemon does the work
hook_root=/run/jobfeatures # where features are published
hook_log=/dev/log # syslog's socket

# hook_say PRIORITY TEXT: write to standard error and to syslog, or without syslog to a file; do not
# wait for either, as it may be stuck.
hook_say() {
  local text="job $hook_job: $2"
  [ -n "$hook_quiet" ] && [ "$1" = info ] || printf 'jobfeatures: %s\n' "$text" >&2
  if [ -S "$hook_log" ] && command -v logger >/dev/null; then
    timeout -s KILL 1 logger -t jobfeatures -p "daemon.$1" -- "$text" </dev/null >/dev/null 2>&1 &
  elif [ "$1" != info ]; then
    hook_note "$1" "$text" </dev/null >/dev/null 2>&1 &
  fi
  disown 2>/dev/null || true # it may have ended already
}

# hook_note PRIORITY TEXT: add a line to the file of messages; it keeps the last thousand or so.
hook_note() {
  local file=$hook_root/failures/messages kept
  [ -d "${file%/*}" ] && [ -O "${file%/*}" ] || return
  mapfile -t kept <"$file"
  [ "${#kept[@]}" -lt 2000 ] || printf '%s\n' "${kept[@]: -1000}" >"$file"
  printf '%(%Y-%m-%dT%H:%M:%S%z)T %s %s\n' -1 "$1" "$2" >>"$file"
}

# hook_settings FILE: read shell assignments into the environment, if the file is owned by the user who
# runs this and nobody else can write to it; set hook_limit, and hook_command if there is one.
hook_settings() {
  local directory
  if [ -r "$1" ]; then
    if [ -f "$1" ] && [ -O "$1" ] && hook_is_safe "$1"; then
      set -a
      # shellcheck source=/dev/null
      . "$1" >/dev/null
      set +a
    else
      hook_say warning "$1 is ignored: users other than root could have written it"
    fi
  fi
  hook_root=${JOBFEATURES_FEATURES_ROOT:-/run/jobfeatures}
  hook_limit=${JOBFEATURES_HOOK_TIMEOUT-2}
  hook_limit=${hook_limit%s}
  if ! [[ $hook_limit =~ ^[0-9]{1,3}([.][0-9]{1,3})?$ && $hook_limit =~ [1-9] ]]; then
    [ -z "$hook_limit" ] || hook_say warning "JOBFEATURES_HOOK_TIMEOUT is not a number of seconds, 2 is used"
    hook_limit=2
    export JOBFEATURES_HOOK_TIMEOUT=2 # the command would refuse the invalid value
  fi
  hook_command=${JOBFEATURES_COMMAND:-}
  if [ -z "$hook_command" ]; then
    for directory in /opt/jobfeatures-exporter/bin /usr/local/bin /usr/bin; do
      [ -x "$directory/jobfeatures" ] && hook_command=$directory/jobfeatures && break
    done
  fi
}

# hook_is_safe FILE: whether it belongs to root or the user who runs this, and nobody else can write to it.
hook_is_safe() {
  [ -n "$(find -L "$1" \( -uid 0 -o -uid "$EUID" \) ! -perm /022 2>/dev/null)" ]
}

# hook_do ACTION BATCH VARIABLE...: have the work done by the daemon, which is given these variables of
# the environment, or by the command if there is no daemon.
hook_do() {
  hook_hand_over "$@"
  case $? in
  0) ;;
  1) hook_run "$1" "$2" ;;
  *) return 1 ;;
  esac
}

# hook_alive: whether the daemon serves requests: the time until which it has promised to is not over,
# and its process still exists.
hook_alive() {
  local until pid now
  read -r until pid <"$hook_root/intake/alive" || return
  printf -v now '%(%s)T' -1
  [[ $until =~ ^[0-9]{11}$ && $pid =~ ^[0-9]{10}$ ]] && ((10#$until > now)) && [ -d "/proc/$((10#$pid))" ]
} 2>/dev/null

# hook_hand_over ACTION BATCH VARIABLE...: 0 if the daemon has done the work, 1 if there is no daemon,
# 2 if the daemon has failed or not finished in time. What the daemon queries the batch system for is waited
# for as well (NAME.asked), but not insisted on. The shell does this without starting a program.
# The request is a file of NUL-terminated fields; an incomplete one is ignored. The daemon removes it once
# the work is done. To sleep, we read from a pipe that nobody writes to, with growing timeouts.
hook_hand_over() {
  local action=$1 batch=$2 intake=$hook_root/intake name request variable value pipe millis pause=2 waited=0
  shift 2
  name=${hook_id:-$hook_job}
  name=${name//'['/%5B}
  name=$batch-${name//']'/%5D}
  request=$intake/$name.$action
  [[ $name =~ ^[a-z]+-[A-Za-z0-9][A-Za-z0-9_.%-]{0,127}$ && -d $intake && -O $intake && ! -L $intake ]] || return 1
  hook_alive && { exec {pipe}<>"$intake/wait"; } 2>/dev/null || return 1
  {
    printf 'jobfeatures 1\0%s\0%s\0' "$action" "$batch"
    for variable; do
      value=${!variable-}
      [ -z "$value" ] || [ "${#value}" -gt 65536 ] || printf '%s=%s\0' "$variable" "$value"
    done
    printf 'end\0'
  } 2>/dev/null >"$request" || return 1 # the daemon ignores an incomplete request
  millis=${hook_limit#*.}000
  [ "$hook_limit" != "${hook_limit#*.}" ] || millis=000
  millis=$((10#${hook_limit%%.*} * 1000 + 10#${millis:0:3}))
  SECONDS=0 # waits last longer on a busy machine, so the clock is checked as well
  while [ -e "$request" ]; do
    if ((waited >= millis || SECONDS * 1000 > millis)); then
      hook_say warning "$action is left to the daemon, which has not done it in $hook_limit s"
      hook_count "$action" daemon
      return 2
    fi
    hook_alive || return 1
    hook_pause
  done
  [ "$action" != publish ] || [ -d "$hook_root/jobfeatures/$name" ] || {
    hook_say err "the daemon could not publish its features: see the daemon's log"
    return 2
  }
  while [ -e "$intake/$name.asked" ] && ((waited < millis && SECONDS * 1000 <= millis)) && hook_alive; do hook_pause; done
  return 0
}

# hook_pause: for hook_hand_over, sleep a little longer each time.
hook_pause() {
  printf -v value '%d.%03d' $((pause / 1000)) $((pause % 1000))
  read -r -t "$value" -u "$pipe" _
  ((waited += pause, pause < 64 && (pause *= 2)))
}

# hook_run ACTION BATCH: run the command for the job, and kill it at the time limit; 0 if it succeeded.
# The command runs in the background, in its own process group (set -m), and has none of our streams
# open, so that whoever reads those until end of file does not wait for it. When it ends, it writes a line
# to a pipe, for which we wait. If it is stuck in the kernel and cannot be killed, it is left behind. If the
# batch system kills this script, the command ends too: late, its work would be done to the job's next run.
# Its output is log lines: a level in them sets the priority, and each reason in them is counted.
hook_run() {
  local runner answer go status said rest level=info
  if ! [ -f "$hook_command" ] || ! [ -x "$hook_command" ]; then
    hook_say err "no command ${hook_command:-jobfeatures} to $1 its features"
    hook_count "$1" command
    return 1
  fi
  if ! hook_is_safe "$hook_command"; then
    hook_say err "$hook_command is not run: users other than root could have written it"
    hook_count "$1" command
    return 1
  fi
  set -m
  coproc HOOK { # exec, since a redirected { } would keep the old streams open to restore them
    exec 2>/dev/null
    read -r _ || exit # wait for "go": until then the parent duplicates the pipes, which end with the coprocess
    { read -r _; kill -KILL 0; } <&0 & # the pipe's end is the script's end; <&0 as & reads from /dev/null
    exec </dev/null
    hook_answer "$@"
    kill "$!"
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
    hook_count "$1" timeout
    return 1
  fi
  rest=$said
  while [[ $rest =~ ' reason='([a-z]+)(.*) ]]; do
    hook_count "$1" "${BASH_REMATCH[1]}"
    rest=${BASH_REMATCH[2]}
  done
  if [ "$status" != 0 ]; then
    hook_say err "$1 failed ($status): $said"
    case $status in
    126 | 127) hook_count "$1" command ;;
    *) [ "$rest" != "$said" ] || hook_count "$1" other ;;
    esac
    return 1
  fi
  case $said in
  *level=error*) level=err ;;
  *level=warning*) level=warning ;;
  esac
  [ -z "$said" ] || hook_say "$level" "$said"
}

# hook_count ACTION REASON: append a byte to a file whose length the daemon reports as the number of
# failures; do not wait for that. If the folder belongs to another user or does not exist, do nothing. The
# daemon has preallocated space for the byte, so that a failure due to a full disk is counted too.
hook_count() {
  local folder=$hook_root/failures file=$1.$2
  { [ -d "$folder" ] && [ -O "$folder" ] && { [ -e "$folder/$file" ] || file=$1.other; } &&
    printf . >>"$folder/$file"; } </dev/null >/dev/null 2>&1 &
  disown 2>/dev/null
}

# hook_answer ACTION BATCH: run the command; print its exit status and the beginning of its output.
hook_answer() {
  local said status
  said=$("$hook_command" "$1" --batch "$2" --strict 2>&1 >/dev/null | { head -c 2000; cat >/dev/null; }
    exit "${PIPESTATUS[0]}")
  status=$?
  said=${said//[^[:print:]]/ }
  printf '%s %s\n' "$status" "$said"
}

# hook_end PID: kill a process and all its descendants; each is stopped first, so that it starts no more.
hook_end() {
  local list children child
  kill -STOP "$1" 2>/dev/null
  for list in "/proc/$1/task/"*/children; do
    read -r -a children <"$list" || true
    for child in "${children[@]}"; do hook_end "$child"; done
  done 2>/dev/null
  kill -KILL "$1" 2>/dev/null
}
