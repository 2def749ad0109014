#!/bin/bash
# Stop the OAR that up.sh started, by recorded process ids and in its own control groups only.
#   down.sh          keep its state for the next up.sh
#   down.sh --purge  also delete $OAR_LAB, and put the system's files back
set -uo pipefail
OAR_LAB=${OAR_LAB:-/tmp/jobfeatures-lab/oar}
L=$OAR_LAB
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
[ -d "$L" ] || { echo "no lab at $L"; exit 0; }
alive() { [ -n "$1" ] && kill -0 "$1" 2>/dev/null && [ "$(awk '{print $3}' "/proc/$1/stat" 2>/dev/null)" != Z ]; }
stop() { # stop PID [SIGNAL]: then KILL after 10 s
  alive "$1" || return 0
  kill "-${2:-TERM}" "$1" 2>/dev/null
  for _ in $(seq 100); do alive "$1" || return 0; sleep 0.1; done
  kill -9 "$1" 2>/dev/null
}
pid() { [ -s "$L/run/$1.pid" ] && cat "$L/run/$1.pid"; }
unfinished() { timeout 10 oarstat 2>/dev/null | awk '$1 ~ /^[0-9]+$/ {print $1}'; }
if alive "$(pid almighty)" && alive "$(pid postgres)"; then
  # shellcheck disable=SC2046
  timeout 20 oardel $(unfinished) >/dev/null 2>&1
  for _ in $(seq 60); do
    [ -z "$(unfinished)" ] && break
    sleep 0.3
  done
fi
server=$(pid almighty)
stop "$server"
[ -z "$server" ] || for each in $(ps -o pid= -s "$server" 2>/dev/null); do kill -9 "$each" 2>/dev/null; done
for node in oar1 oar2; do
  sshd=$(pid "sshd.$node")
  [ -z "$sshd" ] || for each in $(ps -o pid= --ppid "$sshd" 2>/dev/null); do kill "$each" 2>/dev/null; done
  stop "$sshd"
done
for group in /sys/fs/cgroup/cpuset/oar /sys/fs/cgroup/cpuset/oarlab_oar2; do # what jobs have left
  [ -d "$group" ] || continue
  find "$group" -name tasks -exec cat {} + 2>/dev/null | sort -u | while read -r each; do kill -9 "$each"; done 2>/dev/null
done
sleep 0.2
for group in /sys/fs/cgroup/*/oar /sys/fs/cgroup/*/oarlab_oar2; do
  [ -d "$group" ] && find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
done
stop "$(pid postgres)" INT
rm -f "$L"/run/*.pid "$L/env.sh"
if [ "${1:-}" = --purge ]; then
  [ -e /etc/oar/oar.conf.before-lab ] && mv -f /etc/oar/oar.conf.before-lab /etc/oar/oar.conf
  [ -L /dev/cpuset ] && rm -f /dev/cpuset
  rm -rf /dev/oar_cgroups_links /var/lib/oar/{[0-9]*,*.env,cpuset.lock.*,job_manager_lock_file,pid_of_*}
  hosts=$(grep -v '# oar lab$' /etc/hosts)
  printf '%s\n' "$hosts" >/etc/hosts
  rm -rf "$L"
fi
echo "down"
