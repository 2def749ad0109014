#!/bin/bash
# isolated.sh [--init] COMMAND...: run it as on a machine of its own, so that two labs and their exporters can run side
# by side: processes, control groups, ports, mounts and the host's name of one are not seen by the other. When COMMAND
# ends, all that it has left running is ended too. With --init it is process 1 itself. Files and users are the
# machine's, but for /tmp/jobfeatures-lab. Must run as root.
set -euo pipefail
groups=/sys/fs/cgroup

if [ "$1" != --inside ]; then
  name=/isolated-$$
  hierarchies=("$groups") # v2 alone
  [ -e $groups/cgroup.procs ] || mapfile -t hierarchies < <(dirname $groups/*/cgroup.procs)
  for each in "${hierarchies[@]}"; do
    mkdir "$each$name"
    for set in "$each"/cpuset.{cpus,mems}; do # v1 has nobody in a group without them
      [ ! -e "$set" ] || cat "$set" >"$each$name/${set##*/}"
    done
    echo $$ >"$each$name/cgroup.procs"
  done
  if [ -e $groups/cgroup.procs ]; then # v2 hands no controllers on from a group with processes: who waits leaves it
    for _ in {1..100}; do
      if unshare=$(pgrep -P $$ -x unshare) && pgrep -P "$unshare" >/dev/null; then
        for each in $$ "$unshare"; do echo "$each" >$groups/cgroup.procs; done
        break
      fi
      sleep 0.1
    done &
  fi
  status=0
  unshare --mount --pid --net --ipc --uts --cgroup --fork --kill-child "$0" --inside "$@" || status=$?
  for each in "${hierarchies[@]}"; do
    echo $$ >"$each/cgroup.procs"
    find "$each$name" -depth -type d -exec rmdir {} +
  done
  exit $status
fi

shift
mount -t proc proc /proc
while read -r source at kind options _; do # again, as they are seen from the group that this is in
  case $kind in cgroup*)
    umount "$at"
    mount -t "$kind" -o "${options#rw,relatime,}" "$source" "$at" ;;
  esac
done < <(grep " $groups" /proc/mounts)
ip link set lo up
ip addr add 192.0.2.1/32 dev lo # glibc's AI_ADDRCONFIG wants one that is not 127
[ "$1" != --init ] || exec "${@:2}"
mkdir -p /tmp/jobfeatures-lab
mount -t tmpfs -o mode=755 tmpfs /tmp/jobfeatures-lab # where labs are, unless told otherwise
"$@" & # this is process 1, which waits for orphans
wait $!
