#!/bin/bash
# Bring up a private HTCondor 23.9 pool (Debian 13) with this project's daemon beside it, for integration tests.
#
# The kept folder of Debian 13 lies below, all that is written goes into a layer of the lab's own. Namespaces and
# control groups are its own too (isolated.sh). Host wn1, in full wn1.lab; users alice (6001) and bob (6002).
# COLLECTOR, NEGOTIATOR, two SCHEDDs (wn1.lab and schedd2@wn1.lab) that both number from 1, one STARTD with a
# partitionable slot. Must run as root; needs control groups, v1 or v2. A lab that is up is left alone.
#
# Then: $CONDOR_LAB/in COMMAND... runs it on the node as root, $CONDOR_LAB/as USER COMMAND... as a user,
# $CONDOR_LAB/daemon FLAG... the daemon with its unit's rights.
#
#   up.sh machine COMMAND...   runs a command in a virtual machine with control groups v2 alone, in which the pool is up
#                              (machine.sh) and this project's tests are in /opt/lab; $CONDOR_LAB/share is its /mnt
#
# Settings (environment):
CONDOR_LAB=${CONDOR_LAB:-/tmp/jobfeatures-lab/htcondor} # all state
CONDOR_LAB_CPUS=${CONDOR_LAB_CPUS:-8}                   # what the STARTD says it has
CONDOR_LAB_MEMORY=${CONDOR_LAB_MEMORY:-8000}            # MiB
set -euo pipefail
export LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin:${PATH:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../../.." && pwd)
L=$CONDOR_LAB root=$CONDOR_LAB/root
die() { echo "htcondor lab: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "must be root"
answers() { [ "$(timeout 20 "$L/in" condor_status -any -af MyType 2>/dev/null | grep -cE '^(Scheduler|Machine)$')" -ge 3 ]; }
if [ "${1-}" != machine ] && [ -s "$L/init.pid" ] && answers; then
    echo "already up: $L"
    exit 0
fi
[ ! -d "$L" ] || "$here/down.sh"
folder=$("$here/../suites/folder.sh" trixie htcondor openssh-server strace gcc libc6-dev stress-ng prometheus)
mkdir -p "$L"/{upper,work,root}
[ -k "$(dirname "$L")" ] || chmod 755 "$(dirname "$L")" # /tmp stays as it is
chmod 755 "$L" "$L/upper"

# --- what the node has of its own
u=$L/upper
mkdir -p "$u"/etc/condor/config.d "$u"/opt/jobfeatures-exporter/{bin,htcondor} "$u"/etc/jobfeatures-exporter
chmod 755 "$u"/etc "$u"/opt "$u"/opt/*
"$here/../suites/install.sh" "$u/opt/jobfeatures-exporter" htcondor 3.13
printf '127.0.0.1 localhost\n10.9.9.1 wn1.lab wn1\n' >"$u/etc/hosts"
ln -sfn /proc/self/mounts "$u/etc/mtab"
{
    echo 'FEATURES_ROOT = /run/jobfeatures'
    echo 'STARTER_JOB_ENVIRONMENT = "MACHINEFEATURES=$(FEATURES_ROOT)/machinefeatures JOBFEATURES=$(FEATURES_ROOT)/jobfeatures/starter.$(PID) JOBSTATUS=$(FEATURES_ROOT)/jobstatus/starter.$(PID)"'
} >"$u/etc/condor/config.d/90-jobfeatures"
cat >"$u/etc/condor/config.d/50-lab" <<END
CONDOR_HOST = wn1.lab
NETWORK_INTERFACE = 10.9.9.1
UID_DOMAIN = lab
FILESYSTEM_DOMAIN = lab
TRUST_UID_DOMAIN = True
use role:get_htcondor_central_manager
use role:get_htcondor_submit
use role:get_htcondor_execute
DAEMON_LIST = MASTER COLLECTOR NEGOTIATOR SCHEDD SCHEDD2 STARTD
# FS: files in /tmp, between processes of one machine
SEC_DEFAULT_AUTHENTICATION_METHODS = FS
ALLOW_ADMINISTRATOR = root@lab, condor@lab, root@wn1.lab, condor@wn1.lab
ALLOW_DAEMON = root@lab, condor@lab
ALLOW_NEGOTIATOR = root@lab, condor@lab
ALLOW_READ = *
ALLOW_WRITE = *
SCHEDD2 = \$(SCHEDD)
SCHEDD2_ARGS = -local-name schedd2
schedd2.SCHEDD_NAME = schedd2
schedd2.SCHEDD_LOG = \$(LOG)/Schedd2Log
schedd2.SCHEDD_DAEMON_AD_FILE = \$(LOG)/.schedd2_classad
schedd2.SCHEDD_ADDRESS_FILE = \$(LOG)/.schedd2_address
schedd2.SPOOL = /var/lib/condor/schedd2/spool
schedd2.HISTORY = /var/lib/condor/schedd2/spool/history
NUM_CPUS = $CONDOR_LAB_CPUS
MEMORY = $CONDOR_LAB_MEMORY
NUM_SLOTS = 1
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1 = 100%
SLOT_TYPE_1_PARTITIONABLE = True
BASE_CGROUP = htcondor
CGROUP_MEMORY_LIMIT_POLICY = hard
# quick
NEGOTIATOR_INTERVAL = 5
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
SCHEDD_INTERVAL = 5
SCHEDD_MIN_INTERVAL = 1
UPDATE_INTERVAL = 10
STARTER_UPDATE_INTERVAL = 10
STARTER_INITIAL_UPDATE_INTERVAL = 2
PERIODIC_EXPR_INTERVAL = 5
MAX_PERIODIC_EXPR_INTERVAL = 10
CLAIM_WORKLIFE = 0
SHADOW_QUEUE_UPDATE_INTERVAL = 15
JOB_START_DELAY = 0
# a machine's rank, so that a job may preempt another, and retirement, which jobs ask for
RANK = ifThenElse(TARGET.Vip =?= True, 1000, 0)
ALLOW_PSLOT_PREEMPTION = True
MachineMaxVacateTime = 15
MAXJOBRETIREMENTTIME = 600
ENABLE_SSH_TO_JOB = True
# a job asks to be suspended
WANT_SUSPEND = True
SUSPEND = (TARGET.Sleepy =?= True) && (TotalJobRunTime > 5) && (TotalJobRunTime < 25)
CONTINUE = TotalJobRunTime > 25
PREEMPT = False
END
install -d -m 700 "$u"/etc/condor/{passwords.d,tokens.d} "$u/var/lib/jobfeatures-exporter"
mkdir -p "$u/opt/lab"
cat >"$u/opt/lab/prepare" <<'END'
#!/bin/sh
# what is lost with a node's memory
install -d -o condor -g condor -m 775 /run/condor /run/lock/condor /var/lock/condor
install -d -o condor -g condor /var/log/condor /var/lib/condor /var/spool/condor /var/lib/condor/execute \
    /var/lib/condor/schedd2 /var/lib/condor/schedd2/spool /var/lib/condor/schedd2/lock
install -d -m 755 /run/sshd /run/jobfeatures
install -d -m 700 /var/lib/jobfeatures-exporter
END
cat >"$u/opt/lab/as" <<'END'
#!/bin/bash
user=$1
shift
exec "$(dirname "$0")/in" setpriv --reuid="$user" --regid="$user" --init-groups env HOME="/home/$user" USER="$user" LOGNAME="$user" \
    sh -c 'cd && exec "$@"' sh "$@"
END
cat >"$u/opt/lab/daemon" <<'END'
#!/bin/bash
exec "$(dirname "$0")/in" setpriv --bounding-set=-all,+chown,+fowner,+dac_override,+sys_ptrace,+bpf,+perfmon --inh-caps=-all \
    --no-new-privs sh -c 'umask 077; exec env STATE_DIRECTORY=/var/lib/jobfeatures-exporter RUNTIME_DIRECTORY=/run/jobfeatures \
    /opt/jobfeatures-exporter/bin/jobfeatures-exporter serve "$@"' sh "$@"
END
chmod 755 "$u"/opt/lab "$u"/opt/lab/*

if [ "${1-}" = machine ]; then
    mkdir "$u/opt/lab/tests"
    cp -r "$project"/tests/*.py "$project"/tests/{integration,labs} "$u/opt/lab/tests/"
    cp "$project/pyproject.toml" "$u/opt/lab/"
    uv=$project/.venv/bin/uv
    [ -x "$uv" ] || uv=$(command -v uv)
    "$uv" pip install -q --target "$u/opt/lab/site" --python-version 3.13 pytest pytest-aiohttp pytest-asyncio pytest-timeout pytest-xdist \
        hypothesis
    chmod -R a+rX "$u/opt/lab"
    # in a namespace of its own: nothing stays mounted here, whoever kills this
    exec unshare --mount --propagation private bash -c 'mount -t overlay overlay -o "$0" "$1" && exec "${@:2}"' \
        "lowerdir=$folder,upperdir=$u,workdir=$L/work" "$root" \
        "$here/../uml/run.sh" -m 3G -r "$root" "$L/share" /opt/lab/tests/labs/htcondor/machine.sh "${@:2}"
fi

cat >"$L/init.sh" <<END
#!/bin/bash
# process 1 of the lab
set -e
ip addr add 10.9.9.1/32 dev lo # HTCondor does not look up a STARTD whose host is 127.x
hostname wn1
mount -t overlay overlay -o "lowerdir=$folder,upperdir=$u,workdir=$L/work" "$root" # HTCondor makes / private for each job: it is a mount
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
if [ ! -e /sys/fs/cgroup/cgroup.procs ]; then
    # HTCondor wants memory, freezer and cpu,cpuacct; where those two are apart, cpuacct serves (cpu.shares cannot be
    # set then, which it only logs)
    mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
    for each in /sys/fs/cgroup/*/; do
        name=\$(basename "\$each")
        mkdir -p "$root/sys/fs/cgroup/\$name"
        mount --bind "\$each" "$root/sys/fs/cgroup/\$name"
    done
    [ -e "$root/sys/fs/cgroup/cpu,cpuacct" ] || {
        mkdir "$root/sys/fs/cgroup/cpu,cpuacct"
        mount --bind /sys/fs/cgroup/cpuacct "$root/sys/fs/cgroup/cpu,cpuacct"
    }
fi
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
install -d -m 1777 "$root/run/lock"
chroot "$root" /opt/lab/prepare
chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 /usr/sbin/condor_master -f &
master=\$!
trap 'kill -QUIT \$master; wait \$master; exit 0' TERM
while kill -0 \$master 2>/dev/null; do wait \$master || true; done
END
chmod +x "$L/init.sh"

# --- the pool
setsid "$here/../isolated.sh" --init "$L/init.sh" >"$L/init.log" 2>&1 </dev/null &
holder=$!
echo $holder >"$L/holder.pid"
inside() { # the process of init.sh: the child of unshare, which is the child of isolated.sh
    local unshare
    unshare=$(pgrep -P $holder -x unshare) && pgrep -P "$unshare"
}
end=$((SECONDS + 60))
until init=$(inside) && grep -q "$L/init.sh" "/proc/$init/cmdline"; do
    if ! kill -0 $holder 2>/dev/null || [ $SECONDS -ge $end ]; then
        cat "$L/init.log" >&2
        die "not started"
    fi
    sleep 0.05
done
echo "$init" >"$L/init.pid"
clean='env -i HOME=/root LANG=C.UTF-8 TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
cat >"$L/in" <<END
#!/bin/bash
# the group too: what is started here ends with the lab, and is seen by nothing else
for each in /proc/$init/root$root/sys/fs/cgroup/cgroup.procs /proc/$init/root$root/sys/fs/cgroup/*/cgroup.procs; do
    [ ! -e "\$each" ] || echo \$\$ >"\$each"
done
exec nsenter -t $init -m -p -n -u -i -C chroot "$root" $clean "\$@"
END
chmod 755 "$L/in"
cp "$u"/opt/lab/{as,daemon} "$L/"
until answers; do
    if ! kill -0 "$init" 2>/dev/null || [ $SECONDS -ge $((end + 120)) ]; then
        cat "$L/init.log" "$u"/var/log/condor/MasterLog >&2
        die "no answer"
    fi
    sleep 0.3
done
echo "up: $L"
