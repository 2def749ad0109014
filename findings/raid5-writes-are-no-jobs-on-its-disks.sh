#!/bin/bash
# Linux 6.1.176 as one process (user-mode-linux 6.1um4+b13, Debian 12), control groups v2, mdadm 4.2-5. Needs x86_64.
# One would guess: io.stat of a control group has what its processes wrote on each device that it passed; so the sum over disks is what
# a job wrote, and a sum over all devices counts RAID and LVM twice.
# What happens: that holds for RAID 0 and LVM (on RAID 1 each disk has all). On RAID 5 the job's 20 MiB are on the md device alone:
# its disks have 0 bytes written in the job's group, as md's own thread writes there, which is in the root group. Reads are on both.
# Why it matters: monitors that sum disks show 0 bytes for jobs that fill a scratch file system on RAID 5 or 6; those that sum
# all devices double the bytes of every other job. No sum over devices is right for both.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
[ "$(uname -m)" = x86_64 ] || { echo "needs x86_64" >&2; exit 77; }
cd "$tmp"
apt-get download -q -o APT::Sandbox::User=root user-mode-linux=6.1um4+b13 mdadm=4.2-5 \
    kmod=30+20221128-1 libkmod2=30+20221128-1 >/dev/null
for package in *.deb; do dpkg -x "$package" root; done
LIBRARIES=$(echo "$tmp"/root/usr/lib/*-linux-gnu):$(echo "$tmp"/root/lib/*-linux-gnu)
export LD_LIBRARY_PATH=$LIBRARIES
mkdir -p lib && ln -s ../root/usr/lib/uml/modules lib/modules && cp root/bin/kmod modprobe
cat >init <<INIT
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LD_LIBRARY_PATH=$LIBRARIES
exec 2>/dev/null
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo +io >/sys/fs/cgroup/cgroup.subtree_control
load() { $tmp/modprobe -d $tmp -S \$(uname -r) "\$@"; }
load brd rd_nr=5 rd_size=65536; load raid0; load raid456
uname -sr
for raid in "0 /dev/ram0 /dev/ram1" "5 /dev/ram2 /dev/ram3 /dev/ram4"; do
    set -- \$raid; level=\$1; shift
    assume=; [ \$level = 0 ] || assume=--assume-clean
    $tmp/root/sbin/mdadm --create /dev/md\$level --run \$assume --level=\$level --raid-devices=\$# "\$@" >/dev/null
    group=/sys/fs/cgroup/job\$level; mkdir \$group
    bash -c "echo \\\$\\\$ >\$group/cgroup.procs; dd if=/dev/zero of=/dev/md\$level bs=1M count=20 oflag=direct; dd if=/dev/md\$level of=/dev/null bs=1M count=20 iflag=direct"
    awk -v level=\$level '{split(\$1, d, ":"); for (i = 2; i <= NF; i++) {split(\$i, f, "="); n[d[1], f[1]] += f[2]}}
        END {printf "RAID %s: written %d on md, %d on disks; read %d on md, %d on disks\n", level,
        n[9, "wbytes"], n[1, "wbytes"], n[9, "rbytes"], n[1, "rbytes"]}' \$group/io.stat
done
echo o >/proc/sysrq-trigger; sleep 5
INIT
chmod +x init
timeout 120 root/usr/bin/linux.uml mem=512M root=/dev/root rootfstype=hostfs rootflags=/ ro init="$tmp/init" \
    con=null con0=null,fd:1 quiet </dev/null >console 2>&1 || true
told=$(tr -d '\r' <console | grep -aE '^(Linux|RAID) ' || true)
[ "$(grep -c . <<<"$told")" = 3 ] || { tail -5 console >&2; echo "User Mode Linux does not run here" >&2; exit 77; }
echo "$told"
bytes=$((20 * 1024 * 1024))
grep -q "^RAID 0: written $bytes on md, $bytes on disks; read [1-9][0-9]* on md, [1-9][0-9]* on disks" <<<"$told"
grep -q "^RAID 5: written $bytes on md, 0 on disks; read [1-9][0-9]* on md, [1-9][0-9]* on disks" <<<"$told"
echo "Holds: what a group writes to RAID 5 is not the group's on the disks."
