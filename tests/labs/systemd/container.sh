#!/bin/bash
# Boot the system in a folder, with its systemd as process 1, in namespaces of this machine: in two seconds, and as
# quick as the machine is, which User Mode Linux (tests/labs/uml) is not. It has the kernel, control groups and
# clock of the machine; processes, network (loopback alone), names, devices and mounts of its own.
#
#   container.sh [-2] ROOT SHARED_DIR COMMAND...
# -2: with control groups v2 alone, even where controllers are on v1: v2 then has none. Ends with COMMAND, at once.
# SHARED_DIR is mounted read-write at /mnt, where COMMAND runs as root, as lab.service; its output goes to
# SHARED_DIR/output.log and standard output, systemd's to SHARED_DIR/console.log; the exit status is the command's.
# CONTAINER_TIMEOUT limits it all (default 300 s). Must run as root.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [ "$1" = --inside ]; then
  root=$2 share=$3 groups=$4
  mount --bind "$root" "$root"
  mount -t sysfs sysfs "$root/sys"
  mount -t proc proc "$root/proc"
  cgroup=$root/sys/fs/cgroup
  if [ -e /sys/fs/cgroup/cgroup.procs ]; then
    mount --bind /sys/fs/cgroup "$cgroup"
  elif [ "$groups" = -2 ]; then
    mount -t cgroup2 cgroup2 "$cgroup"
  else # a folder of its own, which systemd makes read-only
    mount -t tmpfs -o mode=755 tmpfs "$cgroup"
    for each in /sys/fs/cgroup/*/; do
      mkdir "$cgroup/$(basename "$each")"
      mount --bind "$each" "$cgroup/$(basename "$each")"
    done
    mount -o remount,ro "$cgroup" # and makes no more hierarchies in
  fi
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  for each in null zero full random urandom tty; do
    : >"$root/dev/$each"
    mount --bind "/dev/$each" "$root/dev/$each"
  done
  mkdir "$root"/dev/{pts,shm}
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
  for each in fd:/proc/self/fd stdin:fd/0 stdout:fd/1 stderr:fd/2 ptmx:pts/ptmx; do ln -s "${each#*:}" "$root/dev/${each%%:*}"; done
  for each in dev/shm tmp var/tmp; do mount -t tmpfs -o mode=1777 tmpfs "$root/$each"; done
  mount -t tmpfs -o mode=755 tmpfs "$root/run"
  mount --bind "$share" "$root/mnt"
  hostname "$(cat "$root/etc/hostname" 2>/dev/null || echo container)"
  # shellcheck source=tests/labs/systemd/lab.sh
  . "$here/lab.sh"
  lab_service "$root/run" "$([ "$groups" = -2 ] && echo poweroff-immediate || echo exit-force)"
  cd "$root"
  pivot_root . . # not chroot, below which services can have no users of their own (PrivateUsers=)
  umount -l .
  exec env -i container=lab /lib/systemd/systemd --unit=lab.service --log-target=console --show-status=false
fi

groups=all
if [ "$1" = -2 ]; then
  groups=$1
  shift
fi
root=$(realpath "$1") share=$(realpath "$2")
shift 2
printf '%q ' "$@" >"$share/.cmd"
rm -f "$share/.rc"
: >"$share/output.log"
timeout -k 5 "${CONTAINER_TIMEOUT:-300}" "$here/../isolated.sh" --init "$here/container.sh" --inside "$root" "$share" "$groups" \
  >"$share/console.log" 2>&1 </dev/null || true
cat "$share/output.log"
[ -s "$share/.rc" ] || { echo "container: no exit status; see $share/console.log" >&2; exit 125; }
exit "$(cat "$share/.rc")"
