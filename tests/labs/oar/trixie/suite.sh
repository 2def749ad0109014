#!/bin/bash
# A private OAR 2.6.1 of Debian 13 with one node, on control groups v2 alone, which it needs.
#
#   suite.sh MACHINE LAB COMMAND...
#
# MACHINE is none (namespaces here: as quick as this machine is; where its controllers are on v1, v2 has cpu.stat and
# cgroup.freeze alone) or uml (User Mode Linux: one CPU, ten times slower; name a few kinds to kinds.py there; slices have
# every controller but cpuset).
# systemd, which makes OAR's slices, is process 1 of a container. The kept folder
# of the suite lies below and is not written to; above it is a layer of the lab's own with Python's environment
# /opt/jobfeatures-exporter, the hooks, and /opt/lab, whose up.sh starts OAR; above that what is written, in memory.
# COMMAND runs as root there once OAR is up; LAB/seen is its /mnt, its exit status is ours. Must run as root.
set -euo pipefail
export LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin:${PATH:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../../../.." && pwd) labs=$(cd "$here/../.." && pwd)
die() { echo "oar suite: $*" >&2; exit 1; }

if [ "$1" = --inside ]; then # in the machine: files of the lab are below /mnt
    folder=$2
    grep -qw overlay /proc/filesystems || python3 -c 'import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(313, os.open(sys.argv[1], os.O_RDONLY), b"", 0): sys.exit("overlay: " + os.strerror(ctypes.get_errno()))' /mnt/overlay.ko
    mount -t tmpfs -o mode=755,size=80% tmpfs /mnt/own
    mkdir /mnt/own/{upper,work,root}
    mount -t overlay overlay -o "lowerdir=/mnt/layer:$folder,upperdir=/mnt/own/upper,workdir=/mnt/own/work" /mnt/own/root
    CONTAINER_TIMEOUT=3000 exec /mnt/labs/systemd/container.sh -2 /mnt/own/root /mnt/seen bash -c '/opt/lab/up.sh && exec "$@"' sh "${@:3}"
fi

[ "$(id -u)" = 0 ] || die "must be root"
[ $# -ge 3 ] || die "MACHINE LAB COMMAND..."
machine=$1 L=$2
shift 2
folder=$("$labs/suites/folder.sh" trixie oar-server oar-user oar-node oar-server-pgsql oar-user-pgsql openssh-server \
    postgresql libjson-perl hwloc-nox systemd systemd-sysv dbus)
mkdir -p "$L"/{seen,own} "$L"/layer/opt/{lab,jobfeatures-exporter/{bin,oar}} "$L"/layer/etc "$L"/labs
chmod 755 "$L" "$L"/layer{,/opt,/opt/*,/etc}

# --- what the node has of its own
u=$L/layer
"$labs/suites/install.sh" "$u/opt/jobfeatures-exporter" oar 3.13
cp "$here"/{up.sh,kinds.py} "$u/opt/lab/"
mkdir -p "$u"/etc/{default,systemd/system/jobfeatures-controller.service.d,jobfeatures-exporter}
cp "$project"/packaging/systemd/jobfeatures-{exporter,controller}.service "$u/etc/systemd/system/"
cp "$project/packaging/systemd-variants/oar.conf" "$u/etc/systemd/system/jobfeatures-controller.service.d/"
echo JOBFEATURES_HOOK_TIMEOUT=20 >"$u/etc/default/jobfeatures" # what counts is which values there are, not how fast
printf '127.0.0.1 localhost oar1\n' >"$u/etc/hosts"
echo oar1 >"$u/etc/hostname"
cp -r "$labs"/{isolated.sh,systemd} "$L/labs/"
cp "$here/suite.sh" "$L/boot.sh"

case $machine in
none)
    # shellcheck disable=SC2016
    exec unshare --mount --propagation private bash -c 'mount --bind "$0" /mnt; cd /; exec bash /mnt/boot.sh --inside "$@"' \
        "$L" "$folder" "$@"
    ;;
uml) ;;
*) die "no machine $machine" ;;
esac
cp /usr/lib/uml/modules/*/kernel/fs/overlayfs/overlay.ko "$L/"
exec "$labs/uml/run.sh" -m 2500M "$L" bash /mnt/boot.sh --inside "$folder" "$@"
