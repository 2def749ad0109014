#!/bin/bash
# openjdk-17-jre-headless 17.0.21.1+2-1~deb12u1 (Debian 12), Linux with control groups v1. Needs root and two CPUs.
# One would guess: a JVM knows containers, so in a step (a group below the job's) that has no limits of its own it sees both
# limits of the job above it, or neither.
# What happens: it sees the job's memory limit (memory.stat tells the limit of the whole branch) and not its CPU quota (only
# cpu.cfs_quota_us of its own group is read): a step of a job with 1 CPU and 1 GB has a quarter of 1 GB as heap and all CPUs
# of the node. The same JVM directly in the job's group sees 1 CPU.
# Why it matters: threads of garbage collection and of the common pool are made for the whole node and are throttled by the quota.
set -euo pipefail
cpu=/sys/fs/cgroup/cpu memory=/sys/fs/cgroup/memory
if [ "$(id -u)" != 0 ] || [ ! -e $cpu/cgroup.procs ] || [ ! -e $memory/cgroup.procs ] || [ "$(nproc --all)" -lt 2 ]; then
    echo "needs root, two CPUs, $cpu and $memory (control groups v1)" >&2
    exit 77
fi
tmp=$(mktemp -d)
job=finding-$$
trap 'sleep 0.5; rmdir $cpu/$job/step $cpu/$job $memory/$job/step $memory/$job; rm -rf "$tmp"' EXIT
cd "$tmp"
mkdir -p $cpu/$job/step $memory/$job/step
apt-get download -q -o APT::Sandbox::User=root openjdk-17-jre-headless=17.0.21.1+2-1~deb12u1 >/dev/null
dpkg -x openjdk-17-jre-headless_*.deb root
java=root/usr/lib/jvm/java-17-openjdk-amd64
find $java -lname '/etc/*' | while read -r link; do ln -sf "$tmp/root$(readlink "$link")" "$link"; done
$java/bin/java -version 2>&1 | head -1

echo 100000 >$cpu/$job/cpu.cfs_period_us
echo 100000 >$cpu/$job/cpu.cfs_quota_us
echo 1G >$memory/$job/memory.limit_in_bytes
sees() {  # sees GROUP: what the JVM prints there
    (
        echo "$BASHPID" >$cpu/"$1"/cgroup.procs
        echo "$BASHPID" >$memory/"$1"/cgroup.procs
        $java/bin/java -XshowSettings:system -version 2>&1 | sed -n 's/^ *\(Effective CPU Count\|Memory Limit\): *//p' | xargs
    )
}
all=$(nproc)
echo "in the job's own group (CPUs, memory): $(sees $job)"
echo "in its step: $(sees $job/step); the node has $all"
[ "$(sees $job)" = "1 1.00G" ]
[ "$(sees $job/step)" = "$all 1.00G" ]
echo "Holds: of the limits of the job above, the JVM of a step sees the memory and not the CPUs."
