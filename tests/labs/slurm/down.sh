#!/bin/bash
# Stop the lab that up.sh started, by recorded process id only, and remove its control groups.
#   down.sh          keep the state (database, job history) for the next up.sh
#   down.sh --purge  also delete $SLURM_LAB
set -uo pipefail
SLURM_LAB=${SLURM_LAB:-/tmp/jobfeatures-lab/slurm}
SLURM_LAB_PREFIX=${SLURM_LAB_PREFIX:-lab}
L=$SLURM_LAB
export SLURM_CONF=$L/etc/slurm.conf PATH=/usr/sbin:/usr/bin:/sbin:/bin
[ -d "$L" ] || { echo "no lab at $L"; exit 0; }

alive() { kill -0 "$1" 2>/dev/null && [ "$(awk '{print $3}' "/proc/$1/stat" 2>/dev/null)" != Z ]; }
# A recorded id may be old: only a process that runs the program we started is ended.
stop() { # stop PIDFILE: TERM, then KILL after 5 s
  local pid name
  pid=$(cat "$1") name=$(basename "$1" .pid)
  case "$(cat "/proc/$pid/comm" 2>/dev/null)" in slurm* | munged | mariadbd) ;; *) return 0 ;; esac
  kill "$pid" 2>/dev/null
  for _ in $(seq 50); do alive "$pid" || return 0; sleep 0.1; done
  echo "killing $name ($pid)"
  kill -9 "$pid" 2>/dev/null
}
if timeout 5 scontrol ping 2>/dev/null | grep -q ' is UP'; then
  squeue -h -o %A 2>/dev/null | sort -u | xargs -r timeout 20 scancel -Q 2>/dev/null
  for _ in $(seq 60); do [ -z "$(timeout 5 squeue -h 2>/dev/null)" ] && break; sleep 0.1; done
fi
for f in "$L"/run/slurmrestd.*.pid "$L"/run/slurmd.*.pid "$L/run/slurmctld.pid" "$L/run/slurmdbd.pid" "$L/run/mysqld.pid" "$L/munge/munged.pid"; do
  if [ -s "$f" ]; then stop "$f"; rm -f "$f"; fi
done
# what Slurm leaves behind: slurm_NODE (v1), NODE_slurmstepd.scope (v2)
find /sys/fs/cgroup -depth -type d \( -path "*/slurm_${SLURM_LAB_PREFIX}[0-9]*" \
  -o -path "*/${SLURM_LAB_PREFIX}[0-9]*_slurmstepd.scope*" \) -exec rmdir {} \; 2>/dev/null
rm -f "$L/env.sh" "$L/run/"*.sock
[ "${1:-}" = --purge ] && rm -rf "$L"
echo "down"
