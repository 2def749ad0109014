#!/bin/bash
# Stop the cell that up.sh started, by recorded process id only.
#   down.sh          keep the cell for the next up.sh
#   down.sh --purge  also delete $SGE_LAB
set -uo pipefail
SGE_LAB=${SGE_LAB:-/tmp/jobfeatures-lab/gridengine}
L=$SGE_LAB
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
[ -d "$L" ] || { echo "no lab at $L"; exit 0; }
# shellcheck source=/dev/null
[ -e "$L/env.sh" ] && . "$L/env.sh"

alive() { kill -0 "$1" 2>/dev/null && [ "$(awk '{print $3}' "/proc/$1/stat" 2>/dev/null)" != Z ]; }
# A recorded id may be old: only a process that runs the program we started is ended.
stop() { # stop PIDFILE PROGRAM: TERM, then KILL after 8 s
  local pid
  pid=$(cat "$1")
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] || return 0
  kill "$pid" 2>/dev/null
  for _ in $(seq 80); do alive "$pid" || return 0; sleep 0.1; done
  echo "killing $2 ($pid)"
  kill -9 "$pid" 2>/dev/null
}
timeout 10 qdel -f -u '*' >/dev/null 2>&1
for _ in $(seq 30); do
  [ -z "$(find "$L"/spool/execd/*/active_jobs -mindepth 1 -print -quit 2>/dev/null)" ] && break
  sleep 0.1
done
for d in execd qmaster; do
  if [ -s "$L/run/$d.pid" ]; then stop "$L/run/$d.pid" "sge_$d"; rm -f "$L/run/$d.pid"; fi
done
rm -f "$L/env.sh"
[ "${1:-}" = --purge ] && rm -rf "$L"
echo "down"
