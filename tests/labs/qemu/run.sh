#!/bin/bash
# Run a command in an emulated machine with the kernel of Debian 13 and nothing but cgroup v2.
#
# qemu (Debian packages qemu-system-x86 and qemu-system-common) without KVM is slow: only ratios within one run mean
# anything. Other than User Mode Linux it has every controller, PSI, eBPF with BTF and several CPUs. This machine's root
# file system is mounted read-only through virtiofs, which that kernel has built in: no image, no initrd, no network but
# loopback. What is installed here is there, with node_exporter of Debian 13 before others; /tmp, /run and /home are empty.
#
#   run.sh [-m MEM] [-c CPUS] SHARED_DIR COMMAND...      (as root: virtiofsd)
# SHARED_DIR is mounted read-write at /mnt, where COMMAND runs as root. The console goes to SHARED_DIR/console.log, the
# command's output to SHARED_DIR/output.log and standard output; the exit status is the command's. QEMU_TIMEOUT limits
# it all (default 600 s). QEMU_ACCEL is what to emulate with (default tcg,thread=multi).
set -u
mem=2G cpus=2
while getopts m:c: o; do case $o in m) mem=$OPTARG ;; c) cpus=$OPTARG ;; *) exit 2 ;; esac; done
shift $((OPTIND - 1))
share=$(mkdir -p "$1" && cd "$1" && pwd) || exit 2
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$("$here/../suites/folder.sh" trixie prometheus-node-exporter linux-image-cloud-amd64) || exit 2
printf '%q ' "$@" >"$share/.cmd"
rm -f "$share/.rc"
: >"$share/output.log"
cat >"$share/.init" <<INIT
#!/bin/bash
export PATH=/run/first:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs tmpfs /run; mkdir -p /run/lock /run/first
ln -s $folder/usr/bin/prometheus-node-exporter /run/first
INIT
cat >>"$share/.init" <<'INIT'
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for c in $(cat /sys/fs/cgroup/cgroup.controllers); do echo +$c >/sys/fs/cgroup/cgroup.subtree_control; done
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
mkdir -p /dev/pts /dev/shm; mount -t devpts devpts /dev/pts; mount -t tmpfs -o mode=1777 tmpfs /dev/shm
for d in /tmp /var/tmp; do mount -t tmpfs -o mode=1777 tmpfs $d; done
homes=$(awk -F: '$6 ~ "^/home/" {print $1":"$6}' /etc/passwd); mount -t tmpfs -o mode=755 tmpfs /home
for h in $homes; do mkdir -p "${h#*:}"; chown "${h%%:*}:" "${h#*:}"; done
mount -t virtiofs xchg /mnt
hostname qemu; ip link set lo up; ip addr add 192.0.2.1/32 dev lo   # glibc AI_ADDRCONFIG wants one non-127 address
{ cat /etc/hosts; echo "127.0.0.1 qemu"; } >/run/hosts; mount --bind /run/hosts /etc/hosts
mkdir -p /sys/fs/cgroup/init.scope; echo $$ >/sys/fs/cgroup/init.scope/cgroup.procs
ulimit -n 524288
cd /mnt; bash -c "$(cat /mnt/.cmd)" >/mnt/output.log 2>&1 </dev/null; echo $? >/mnt/.rc
sync; echo o >/proc/sysrq-trigger; sleep 5
INIT
chmod +x "$share/.init"
run=$(mktemp -d) pids=()
trap 'for each in "${pids[@]}"; do kill "$each" 2>/dev/null; done; wait; rm -rf "$run"' EXIT
boot() {
    rm -f "$run"/*.sock
    pids=() # virtiofsd ends with its machine
    for each in root:/ "xchg:$share"; do
        /usr/lib/qemu/virtiofsd --socket-path="$run/${each%%:*}.sock" -o "source=${each#*:}" -o sandbox=chroot \
            -o cache=auto >"$run/${each%%:*}.log" 2>&1 &
        pids+=($!)
    done
    for _ in $(seq 100); do [ -S "$run/root.sock" ] && [ -S "$run/xchg.sock" ] && break; sleep 0.1; done
    timeout -k 5 "${QEMU_TIMEOUT:-600}" qemu-system-x86_64 -accel "${QEMU_ACCEL:-tcg,thread=multi}" -cpu max \
        -smp "$cpus" -m "$mem" -nodefaults -nographic -no-reboot -serial stdio \
        -object "memory-backend-memfd,id=mem,size=$mem,share=on" -numa node,memdev=mem \
        -chardev "socket,id=c0,path=$run/root.sock" -device vhost-user-fs-pci,chardev=c0,tag=root \
        -chardev "socket,id=c1,path=$run/xchg.sock" -device vhost-user-fs-pci,chardev=c1,tag=xchg \
        -kernel "$folder"/boot/vmlinuz-* -append "console=ttyS0 quiet panic=-1 random.trust_cpu=on \
            root=root rootfstype=virtiofs ro init=$share/.init" </dev/null >"$share/console.log" 2>&1
}
# Emulated with several threads, one kernel in a few stumbles over the code that it has just patched.
for _ in 1 2 3; do
    boot
    if [ -s "$share/.rc" ] || ! grep -q "Kernel panic" "$share/console.log"; then break; fi
done
cat "$share/output.log"
[ -s "$share/.rc" ] || { echo "qemu: no exit status; see $share/console.log" >&2; exit 125; }
exit "$(cat "$share/.rc")"
