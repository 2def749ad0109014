#!/bin/bash
# A private Slurm of a later Debian suite, with this project's copy in it, as on a machine of its own.
#
#   suite.sh up SUITE LAB           bring it up (trixie: 24.11, sid: 26.05), state and commands in LAB; one that is up is left alone
#   suite.sh machine SUITE LAB COMMAND...   run a command in a virtual machine with control groups v2 alone; LAB/share is its /mnt
#   suite.sh down LAB               end either and remove LAB
#
# The kept folder of the suite lies below and is not written to; above it is a layer of the lab's own with Python's
# environment /opt/jobfeatures-exporter, the hooks, and /opt/lab, whose up.sh starts Slurm there. Namespaces and control
# groups are its own (isolated.sh). Then LAB/in COMMAND... runs it there as root, LAB/as USER COMMAND... as a user.
# Settings for up.sh are those of the environment. Must run as root.
set -euo pipefail
export LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin:${PATH:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
die() { echo "slurm suite: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "must be root"

down() {
    local init holder
    init=$(cat "$L/init.pid" 2>/dev/null) holder=$(cat "$L/holder.pid" 2>/dev/null) || true # a machine has neither
    ours() { [ -n "$1" ] && tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | grep -q "$L/init.sh"; } # numbers are used again
    if ours "$init"; then kill -KILL "$init"; fi # the kernel ends all others of its namespace
    find "/sys/fs/cgroup/freezer/isolated-$holder" -name freezer.state -exec sh -c 'echo THAWED >"$1"' sh {} \; 2>/dev/null || true # v1 kills nobody who is suspended
    for _ in $(seq 200); do ours "$holder" || break; sleep 0.1; done # which removes the control groups
    ! ours "$holder" || echo "slurm suite: process $holder still has its control groups" >&2
    rm -rf --one-file-system "$L"
}

make_layer() { # what the node has of its own, in $L/upper
    local u=$L/upper version
    [ ! -e "$L/complete" ] || return 0
    mkdir -p "$L"/{work,root} "$u"/opt/jobfeatures-exporter/{bin,slurm} "$u"/opt/lab/{slurm,systemd}
    chmod a+rx "$(dirname "$L")" "$L" "$u" "$u"/opt "$u"/opt/*
    version=$(basename "$(readlink "$folder/usr/bin/python3")")
    "$here/../suites/install.sh" "$u/opt/jobfeatures-exporter" slurm "${version#python}"
    cp "$here"/{up.sh,down.sh,*.py} "$u/opt/lab/slurm/"
    chmod 755 "$u"/opt/lab/slurm/*
    mkdir -p "$u/etc"
    printf '127.0.0.1 localhost wn uml\n' >"$u/etc/hosts"
    ln -sfn /proc/self/mounts "$u/etc/mtab"
    mkdir -p "$u/etc/default" # what counts is which values there are, not how fast on a busy machine
    echo JOBFEATURES_HOOK_TIMEOUT=20 >"$u/etc/default/jobfeatures"
    touch "$L/complete"
}

settings() { # for up.sh and for Slurm's commands; none has blanks
    env | grep '^SLURM_LAB_[A-Z]*=[^ ]*$' || true
    echo SLURM_CONF=/tmp/jobfeatures-lab/slurm/etc/slurm.conf
}
mounted() { # the command that mounts it
    echo "mount -t overlay overlay -o 'lowerdir=$folder,upperdir=$L/upper,workdir=$L/work' '$L/root'"
}

if [ "${1-}" = down ]; then
    L=$2
    down
    exit 0
fi
[ $# -ge 3 ] || die "up SUITE LAB, machine SUITE LAB COMMAND... or down LAB"
suite=$2 L=$3
if [ "$1" = up ] && [ -s "$L/init.pid" ] && timeout 20 "$L/in" /opt/lab/slurm/up.sh >/dev/null 2>&1; then
    echo "already up: $L"
    exit 0
fi
if [ -s "$L/init.pid" ]; then down; fi
folder=$("$here/../suites/folder.sh" "$suite" munge jq slurmctld slurmd slurmdbd slurm-client slurmrestd slurm-wlm-mysql-plugin mariadb-server)
mkdir -p "$L"
make_layer
if [ "$1" = machine ]; then
    echo JOBFEATURES_HOOK_TIMEOUT=200 >"$L/upper/etc/default/jobfeatures" # far slower
    # in a namespace of its own: nothing stays mounted here, whoever kills this
    # compiled before: there the product cannot be written to, and each start would compile all of it
    # shellcheck disable=SC2016,SC2046
    exec unshare --mount --propagation private bash -c "$(mounted)"' && { chroot "$0" python3 -m compileall -q /opt/jobfeatures-exporter/lib >/dev/null || true; } && exec "$@"' "$L/root" \
        "$here/../uml/run.sh" -m 3G -r "$L/root" "$L/share" env $(settings) "${@:4}"
fi

cat >"$L/init.sh" <<END
#!/bin/bash
# process 1 of the lab
set -e
hostname wn
$(mounted)
mount -t proc proc "$L/root/proc"
mount --rbind /sys "$L/root/sys"
mount --rbind /dev "$L/root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$L/root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$L/root/run"
mkdir -m 1777 "$L/root/run/lock"
touch "$L/started"
while :; do wait -n || true; sleep 1; done
END
chmod +x "$L/init.sh"
setsid "$here/../isolated.sh" --init "$L/init.sh" >"$L/init.log" 2>&1 </dev/null &
holder=$!
echo $holder >"$L/holder.pid"
end=$((SECONDS + 60))
until [ -e "$L/started" ]; do
    if ! kill -0 $holder 2>/dev/null || [ $SECONDS -ge $end ]; then
        cat "$L/init.log" >&2
        die "not started"
    fi
    sleep 0.05
done
init=$(pgrep -P "$(pgrep -P $holder -x unshare)")
echo "$init" >"$L/init.pid"
cat >"$L/in" <<END
#!/bin/bash
# the group too: what is started here ends with the lab, and is seen by nothing else
for each in /proc/$init/root$L/root/sys/fs/cgroup/cgroup.procs /proc/$init/root$L/root/sys/fs/cgroup/*/cgroup.procs; do
    [ ! -e "\$each" ] || echo \$\$ >"\$each"
done
exec nsenter -t $init -m -p -n -u -i -C chroot "$L/root" env -i HOME=/root LANG=C.UTF-8 TERM=dumb \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \$(cat "$L/settings") "\$@"
END
cat >"$L/as" <<'END'
#!/bin/bash
user=$1
shift
exec "$(dirname "$0")/in" setpriv --reuid="$user" --regid="$user" --init-groups env HOME="/home/$user" USER="$user" LOGNAME="$user" \
    sh -c 'cd && exec "$@"' sh "$@"
END
chmod 755 "$L"/{in,as}
settings >"$L/settings"
"$L/in" /opt/lab/slurm/up.sh >"$L/up.log" 2>&1 || { cat "$L/up.log" >&2; die "Slurm is not up"; }
echo "up: $L"
