#!/bin/bash
# procps 2:4.0.2-3 (Debian 12: ps), Linux 6.18 with the v1 freezer and a v2 hierarchy mounted beside it. Needs root.
# One would guess: a job that the batch system has frozen (a control group with freezer.state FROZEN or cgroup.freeze 1) shows
# in ps as stopped (T), as one that was stopped by SIGSTOP does; and SIGKILL ends it.
# What happens: nothing says T. A process that computes is D (waits for a disk) in v1's freezer and S (asleep) in v2's. SIGKILL ends
# the one of v2 at once, though its group stays frozen; the one of v1 goes on being there until the group is thawed.
# Why it matters: counts of states per job take suspended jobs for a hung file system or for idle ones, by the version of control
# groups; a clean-up that kills and then waits ends on one half of a cluster alone.
set -euo pipefail
v1=/sys/fs/cgroup/freezer
v2=$(sed -n 's/^[^ ]* \([^ ]*\) cgroup2 .*/\1/p' /proc/mounts | head -1)
if [ "$(id -u)" != 0 ] || [ ! -e $v1/cgroup.procs ] || [ -z "$v2" ]; then
    echo "needs root, $v1 (control groups v1) and a cgroup2 mount" >&2
    exit 77
fi
tmp=$(mktemp -d)
one=$v1/finding-$$ two=$v2/finding-$$
made=()
clean() {
    echo THAWED >"$one/freezer.state" || true
    echo 0 >"$two/cgroup.freeze" || true
    kill -KILL "${made[@]}" 2>/dev/null || true
    wait || true
    rmdir "$one" "$two" || true
    rm -rf "$tmp"
}
trap clean EXIT
cd "$tmp"
mkdir "$one" "$two"
apt-get download -q -o APT::Sandbox::User=root procps=2:4.0.2-3 libproc2-0=2:4.0.2-3 >/dev/null
for package in *.deb; do dpkg -x "$package" root; done
ps() { LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu) root/bin/ps "$@"; }
state() { ps -o state= -p "$1" | tr -d ' ' || true; }  # nothing where the process has ended
ps --version
uname -sr

compute() { while :; do :; done; }
for _ in frozen1 frozen2 stopped; do compute & made+=($!); done
echo "${made[0]}" >"$one/cgroup.procs"
echo "${made[1]}" >"$two/cgroup.procs"
echo FROZEN >"$one/freezer.state"
echo 1 >"$two/cgroup.freeze"
kill -STOP "${made[2]}"
sleep 1
states="v1 $(state "${made[0]}"), v2 $(state "${made[1]}"), SIGSTOP $(state "${made[2]}")"
echo "states: $states"
[ "$states" = "v1 D, v2 S, SIGSTOP T" ]

kill -KILL "${made[0]}" "${made[1]}"
sleep 1
left=
for pid in "${made[@]:0:2}"; do left+="$(state "$pid")/"; done
echo "a second after SIGKILL, v1/v2: $left"
[ "$left" = "D/Z/" ] || [ "$left" = "D//" ]
echo THAWED >"$one/freezer.state"
sleep 1
echo "v1 after thawing: '$(state "${made[0]}")'"
case $(state "${made[0]}") in Z | "") ;; *) exit 1 ;; esac
echo "Holds: frozen is D or S, never T, and SIGKILL passes one freezer alone."
