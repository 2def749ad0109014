#!/bin/bash
# taskset of util-linux 2.38.1-5+deb12u3 (Debian 12), Linux 6.18, control groups v1 with the cpuset controller. Needs root
# and two CPUs.
# One would guess: taskset shows what a process has asked for, cut to its job's cpuset; so to set what was read changes nothing, and
# of CPUs asked for that the cpuset lacks nothing is kept.
# What happens: the kernel keeps the mask that was asked for and shows it nowhere. In a cpuset of CPU 1 all three of these read
# "1": a process that never asked, one that asked for 1 (what it had read), one that asked for 0 before the cpuset lost it.
# When the cpuset gets CPU 0 back they have {0,1}, {1} and {0}. And `taskset -c 0,1` in {1} has status 0, reads back as 1,
# and becomes {0,1} later.
# Why it matters: libraries that save an affinity and put it back bind a job for good to what its cpuset was then; when a
# batch system gives a running job more CPUs, some of its processes never use them, and nothing tells which.
set -euo pipefail
groups=/sys/fs/cgroup/cpuset
if [ "$(id -u)" != 0 ] || [ ! -e $groups/cgroup.procs ] || [ "$(nproc --all)" -lt 2 ]; then
    echo "needs root, two CPUs and $groups (control groups v1)" >&2
    exit 77
fi
tmp=$(mktemp -d)
group=$groups/finding-$$
processes=()
trap 'kill "${processes[@]}" || true; wait; rmdir $group; rm -rf "$tmp"' EXIT
cd "$tmp"
mkdir $group
apt-get download -q -o APT::Sandbox::User=root util-linux=2.38.1-5+deb12u3 >/dev/null
dpkg -x util-linux_*.deb root
taskset() { root/usr/bin/taskset "$@"; }
taskset --version
uname -sr

echo 0 >$group/cpuset.mems
echo 0-1 >$group/cpuset.cpus
for _ in never same lost more; do
    sleep 100 &
    processes+=($!)
    echo $! >$group/cgroup.procs
done
allowed() { for process in "${processes[@]}"; do taskset -cp "$process" | sed 's/.*: //; s/-/,/'; done | xargs; }
taskset -cp 0 "${processes[2]}" >/dev/null
echo "cpuset {0,1}, the third asked for 0:               $(allowed)"
[ "$(allowed)" = "0,1 0,1 0 0,1" ]
echo 1 >$group/cpuset.cpus
taskset -cp 1 "${processes[1]}" >/dev/null
taskset -cp 0,1 "${processes[3]}" >/dev/null
echo "cpuset {1}, the second asked for 1, the fourth for 0,1: $(allowed)"
[ "$(allowed)" = "1 1 1 1" ]
echo 0-1 >$group/cpuset.cpus
echo "cpuset {0,1} again:                                $(allowed)"
[ "$(allowed)" = "0,1 1 0 0,1" ]
echo "Holds: what was asked for is kept, acts later and cannot be read."
