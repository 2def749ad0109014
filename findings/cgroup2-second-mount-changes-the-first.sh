#!/bin/bash
# Linux 6.18, mount of util-linux 2.38. Needs root in the initial control group namespace, and control groups v2 mounted without
# options (as beside v1, at /sys/fs/cgroup/unified), so that nothing has to be put back.
# One would guess: the options of a mount of control groups v2 (nsdelegate, memory_localevents, memory_recursiveprot) are those of
# that mount; another mount elsewhere leaves them alone, and its end takes along what it brought.
# What happens: the last mount decides for all, earlier ones included. A second one with an option sets it on the first, where it
# stays after umount; a second one without options clears those of the first. No message says so.
# Why it matters: systemd mounts with nsdelegate,memory_recursiveprot. One `mount -t cgroup2 none /mnt` of a script, a rescue shell
# or a monitor on the host takes both away from all jobs and containers; one with memory_localevents takes the OOM kills of steps
# out of memory.events of their jobs, for everybody, until the next mount or boot.
set -euo pipefail
options() { awk -v at="$1" '$2 == at && $3 == "cgroup2" { print $4 }' /proc/mounts; }
first=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
if [ "$(id -u)" != 0 ] || [ -z "$first" ] || [ "$(readlink /proc/self/ns/cgroup)" != 'cgroup:[4026531835]' ] ||
    options "$first" | grep -qE 'nsdelegate|memory_|favordynmods|pids_'; then
    echo "needs root, the initial control group namespace, and control groups v2 mounted without options of their own" >&2
    exit 77
fi
tmp=$(mktemp -d)
trap 'umount "$tmp" 2>/dev/null || true; rmdir "$tmp"' EXIT
uname -sr
mount --version
before=$(options "$first")
echo "the first mount, $first: $before"
mount -t cgroup2 -o memory_recursiveprot none "$tmp" || { echo "mounts are not allowed here" >&2; exit 77; }
beside=$(options "$first")
umount "$tmp"
after=$(options "$first")
echo "a second one with memory_recursiveprot is mounted elsewhere; the first: $beside"
echo "the second one is gone; the first: $after"
mount -t cgroup2 none "$tmp"
plain=$(options "$first")
umount "$tmp"
echo "a third one without options was mounted elsewhere; the first: $plain"
[ "$beside" = "$before,memory_recursiveprot" ]
[ "$after" = "$beside" ]
[ "$plain" = "$before" ]
echo "Holds: the last mount of control groups v2 decides the options of all."
