#!/bin/bash
# Bring up a private Slurm cluster on this machine for integration tests: munge, slurmctld,
# one slurmd per emulated node and, unless told otherwise, MariaDB, slurmdbd and slurmrestd.
#
# Packages: see install.sh. Must run as root, because slurmd starts jobs as other users.
# Nothing under /etc or /run is used: everything lives below $SLURM_LAB, and only the TCP
# ports BASEPORT .. BASEPORT+60 are taken. Node names differ from other labs' on the same
# machine, since slurmd names control groups after them. A lab that is up is left alone.
#
# Settings (environment):
SLURM_LAB=${SLURM_LAB:-/tmp/jobfeatures-lab/slurm} # all state; the test users must be able to reach it
SLURM_LAB_NODES=${SLURM_LAB_NODES:-2}              # emulated nodes, one slurmd each
SLURM_LAB_PREFIX=${SLURM_LAB_PREFIX:-lab}          # they are called lab1, lab2, …
SLURM_LAB_CLUSTER=${SLURM_LAB_CLUSTER:-jobfeatureslab}
SLURM_LAB_CPUS=${SLURM_LAB_CPUS:-2}                # CPUs each node claims
SLURM_LAB_MEM=${SLURM_LAB_MEM:-2000}               # MB each node claims
SLURM_LAB_GPUS=${SLURM_LAB_GPUS:-0}                # graphics cards each node claims; their files are /dev/null's
SLURM_LAB_TRES=${SLURM_LAB_TRES:-}                 # AccountingStorageTRES, with accounting
SLURM_LAB_TMP=${SLURM_LAB_TMP:-1000}               # MB of scratch each node claims
SLURM_LAB_CGROUP=${SLURM_LAB_CGROUP:-auto}         # auto | v1 | v2 | none
SLURM_LAB_DB=${SLURM_LAB_DB:-1}                    # 1: accounting (sacct works); 0: none
SLURM_LAB_REST=${SLURM_LAB_REST:-0}                # 1: slurmrestd on a socket and on 127.0.0.1:BASEPORT+20
SLURM_LAB_CRED_EXPIRE=${SLURM_LAB_CRED_EXPIRE:-40} # seconds until a requeued job starts again (Slurm: 120)
SLURM_LAB_AGE=${SLURM_LAB_AGE:-300}                # seconds that slurmctld knows an ended job
SLURM_LAB_EXTRA=${SLURM_LAB_EXTRA:-}               # further lines of slurm.conf
SLURM_LAB_NODE=${SLURM_LAB_NODE:-}                 # further words of each node's line there
SLURM_LAB_BASEPORT=${SLURM_LAB_BASEPORT:-17800}
SLURM_LAB_USERS=${SLURM_LAB_USERS:-"alice:6001:physics bob:6002:atlas"} # name:uid:account
# Hooks: executables in $SLURM_LAB/scripts/{prolog,epilog,taskprolog}.d run in their order.
set -euo pipefail
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
L=$SLURM_LAB P=$SLURM_LAB_BASEPORT N=$SLURM_LAB_PREFIX
H=$(hostname -s)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export SLURM_CONF=$L/etc/slurm.conf
die() { echo "slurm lab: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "must be root"
for b in munged slurmctld slurmd scontrol; do
  command -v "$b" >/dev/null || die "$b is missing; run install.sh"
done
getent hosts "$H" >/dev/null || die "the host name $H does not resolve; add '127.0.0.1 $H' to /etc/hosts"

# wait_for SECONDS COMMAND...: poll until the command succeeds; on failure show the daemons' complaints
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until timeout 10 "$@" >/dev/null 2>&1; do
    if [ "$SECONDS" -ge "$end" ] || grep -qs ' fatal: ' "$L"/log/slurm*.log; then
      grep -hs -e ' fatal: ' -e ' error: ' "$L"/log/slurm*.log | tail -n 5 >&2
      die "gave up waiting for: $*"
    fi
    sleep 0.1
  done
}
alive() { [ -s "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }

tokens=
if [ "$SLURM_LAB_REST" = 1 ] && ls /usr/lib/*/slurm*/auth_jwt.so >/dev/null 2>&1; then tokens=yes; fi # else no slurmrestd on TCP

# One slurmrestd on a UNIX socket serves its own user and root; one on TCP serves whoever has a token of
# `scontrol token username=USER`. Neither may run as root or SlurmUser. A variable SLURM_JWT must be set
# for the second and must not be set for the first.
start_rest() {
  local ruser plugins
  if [ "$SLURM_LAB_REST" != 1 ] || [ -S "$L/run/slurmrestd.sock" ]; then return 0; fi
  if ! command -v slurmrestd >/dev/null; then die "slurmrestd is missing; run install.sh"; fi
  IFS=: read -r ruser _ <<<"${SLURM_LAB_USERS%% *}"
  plugins=openapi/v0.0.37,openapi/v0.0.38
  [ "$SLURM_LAB_DB" = 1 ] && plugins+=,openapi/dbv0.0.37,openapi/dbv0.0.38 # these need slurmdbd
  if ls /usr/lib/*/slurm*/openapi_slurmctld.so >/dev/null 2>&1; then # since 23.11; versions are another kind of plugin there
    plugins=openapi/slurmctld
    [ "$SLURM_LAB_DB" = 1 ] && plugins+=,openapi/slurmdbd
  fi
  # shellcheck disable=SC2016  # the inner shell expands them
  setsid runuser -u "$ruser" -- sh -c 'unset SLURM_JWT; echo $$ >"$1"; shift; exec "$@"' sh \
    "$L/run/slurmrestd.socket.pid" slurmrestd -s "$plugins" -a rest_auth/local "unix:$L/run/slurmrestd.sock" \
    >"$L/log/slurmrestd.socket.log" 2>&1 </dev/null &
  wait_for 120 test -S "$L/run/slurmrestd.sock"
  if [ -z "$tokens" ]; then return 0; fi
  # shellcheck disable=SC2016
  SLURM_JWT=daemon setsid runuser -u "$ruser" -- sh -c 'echo $$ >"$1"; shift; exec "$@"' sh \
    "$L/run/slurmrestd.tcp.pid" slurmrestd -s "$plugins" -a rest_auth/jwt "127.0.0.1:$((P + 20))" \
    >"$L/log/slurmrestd.tcp.log" 2>&1 </dev/null &
  wait_for 120 bash -c "exec 3<>/dev/tcp/127.0.0.1/$((P + 20))"
}

if [ -s "$SLURM_CONF" ] && alive "$L/run/slurmctld.pid" && scontrol ping 2>/dev/null | grep -q ' is UP'; then
  start_rest
  echo "already up: . $L/env.sh"
  exit 0
fi
if [ -e "$L/etc" ]; then SLURM_LAB=$L "$here/down.sh" >/dev/null 2>&1 || true; fi # clear a half-dead lab
rm -f "$L"/log/slurm*.log

# ---------------------------------------------------------------- directories, users
umask 022
mkdir -p "$L"/{etc,log,run,state,spool,munge,scripts,db}
chmod 711 "$L"
chmod 1777 "$L"/{log,run} # written by root, slurm, mysql and the test users
for u in $SLURM_LAB_USERS; do
  IFS=: read -r name uid _ <<<"$u"
  id "$name" >/dev/null 2>&1 || useradd -m -s /bin/bash -u "$uid" "$name" || id "$name" # which another lab has made meanwhile
done
chown slurm:slurm "$L"/{state,run}
[ -s "$L/state/jwt.key" ] || head -c 32 /dev/urandom >"$L/state/jwt.key" # signs the tokens of slurmrestd's users
chown slurm:slurm "$L/state/jwt.key"
chmod 600 "$L/state/jwt.key"

# ---------------------------------------------------------------- munge, with a key and socket of its own
SOCK=$L/munge/munge.socket
chown munge:munge "$L/munge"
chmod 711 "$L/munge"
[ -s "$L/munge/munge.key" ] || head -c 1024 /dev/urandom >"$L/munge/munge.key"
chown munge:munge "$L/munge/munge.key"
chmod 600 "$L/munge/munge.key"
if ! alive "$L/munge/munged.pid"; then
  rm -f "$L/munge/munged.pid" "$SOCK" "$SOCK.lock"
  runuser -u munge -- munged --key-file="$L/munge/munge.key" --socket="$SOCK" --num-threads=4 \
    --pid-file="$L/munge/munged.pid" --log-file="$L/munge/munged.log" --seed-file="$L/munge/munged.seed"
fi
wait_for 120 sh -c "munge -S $SOCK -n | unmunge -S $SOCK"

# ---------------------------------------------------------------- control groups
v1ok() { grep -Eqs '^[^ ]+ /sys/fs/cgroup/[^ ]*freezer[^ ]* cgroup ' /proc/mounts; }
v2ok() { [ "$(wc -l </proc/self/cgroup)" = 1 ] && [ -e /sys/fs/cgroup/cgroup.controllers ]; }
if [ "$SLURM_LAB_CGROUP" = auto ]; then
  if v2ok; then SLURM_LAB_CGROUP=v2; elif v1ok; then SLURM_LAB_CGROUP=v1; else SLURM_LAB_CGROUP=none; fi
fi
case $SLURM_LAB_CGROUP in
none)
  proctrack=proctrack/linuxproc task=task/none acct=jobacct_gather/linux
  rm -f "$L/etc/cgroup.conf"
  ;;
v1 | v2)
  proctrack=proctrack/cgroup task=task/cgroup,task/affinity acct=jobacct_gather/cgroup cores=yes
  # a kernel without the cpuset controller, or nodes bigger than the machine: no core binding
  if [ "$SLURM_LAB_CGROUP" = v2 ] && ! grep -qw cpuset /sys/fs/cgroup/cgroup.controllers; then cores=no; fi
  if [ "$SLURM_LAB_CPUS" -gt "$(nproc)" ]; then cores=no; fi
  if [ $cores = no ]; then task=task/cgroup; fi
  {
    echo "CgroupPlugin=cgroup/$SLURM_LAB_CGROUP"
    echo "CgroupMountpoint=/sys/fs/cgroup"
    if [ "$SLURM_LAB_CGROUP" = v2 ] && [ ! -d /run/systemd/system ]; then echo "IgnoreSystemd=yes"; fi
    echo "ConstrainCores=$cores"
    echo "ConstrainRAMSpace=yes"
  } >"$L/etc/cgroup.conf"
  if [ "$SLURM_LAB_CGROUP" = v2 ] && [ ! -d /run/systemd/system ]; then
    # Slurm 22.05 puts NODE_slurmstepd.scope below system.slice, which has to exist and to pass
    # every controller down
    mkdir -p /sys/fs/cgroup/system.slice
    for d in /sys/fs/cgroup /sys/fs/cgroup/system.slice; do
      read -ra controllers <$d/cgroup.controllers
      for c in "${controllers[@]}"; do echo "+$c" >$d/cgroup.subtree_control 2>/dev/null || true; done
    done
  fi
  ;;
*) die "bad SLURM_LAB_CGROUP" ;;
esac

# ---------------------------------------------------------------- slurm.conf
if [ -n "$tokens" ]; then
  tokens="AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$L/state/jwt.key"
fi
if [ "$SLURM_LAB_DB" = 1 ]; then
  storage="AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((P + 19))
AccountingStoragePass=$SOCK
AccountingStorageEnforce=associations,limits${SLURM_LAB_TRES:+
AccountingStorageTRES=$SLURM_LAB_TRES}"
else
  storage="AccountingStorageType=accounting_storage/none"
fi
{
  cat <<CONF
ClusterName=$SLURM_LAB_CLUSTER
SlurmctldHost=$H(127.0.0.1)
SlurmctldPort=$((P + 17))
AuthType=auth/munge
AuthInfo=socket=$SOCK,cred_expire=$SLURM_LAB_CRED_EXPIRE
CredType=cred/munge
$tokens
SlurmUser=slurm
SlurmdUser=root
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=$L/state
SlurmdSpoolDir=$L/spool/%n
SlurmctldPidFile=$L/run/slurmctld.pid
SlurmdPidFile=$L/run/slurmd.%n.pid
SlurmctldLogFile=$L/log/slurmctld.log
SlurmdLogFile=$L/log/slurmd.%n.log
SlurmctldDebug=info
SlurmdDebug=info
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=1
ProctrackType=$proctrack
TaskPlugin=$task
JobAcctGatherType=$acct
JobAcctGatherFrequency=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=100000,bf_interval=1,batch_sched_delay=0
SrunPortRange=$((P + 40))-$((P + 60))
DefMemPerCPU=100
InactiveLimit=0
KillWait=2
MinJobAge=$SLURM_LAB_AGE
CompleteWait=0
MaxArraySize=10001
MaxJobCount=30000
SlurmctldTimeout=30
SlurmdTimeout=60
PrologFlags=Alloc,Contain
Prolog=$L/scripts/prolog
Epilog=$L/scripts/epilog
TaskProlog=$L/scripts/taskprolog
$storage
CONF
  gres=""
  if [ "$SLURM_LAB_GPUS" -gt 0 ]; then
    echo "GresTypes=gpu"
    gres="Gres=gpu:$SLURM_LAB_GPUS"
  fi
  for n in $(seq "$SLURM_LAB_NODES"); do
    printf 'NodeName=%s%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%s CPUs=%s Boards=1 SocketsPerBoard=1 ' \
      "$N" "$n" "$H" $((P + 20 + n)) "$SLURM_LAB_CPUS"
    printf 'CoresPerSocket=%s ThreadsPerCore=1 RealMemory=%s TmpDisk=%s %s State=UNKNOWN\n' \
      "$SLURM_LAB_CPUS" "$SLURM_LAB_MEM" "$SLURM_LAB_TMP" "$gres $SLURM_LAB_NODE"
  done
  echo "PreemptType=preempt/partition_prio" # by partitions that tests make: these two are equal
  echo "PreemptMode=REQUEUE"
  echo "PartitionName=batch Nodes=ALL Default=YES MaxTime=01:00:00 DefaultTime=00:10:00 State=UP"
  echo "PartitionName=long Nodes=ALL MaxTime=INFINITE State=UP"
  printf '%s\n' "$SLURM_LAB_EXTRA"
} >"$SLURM_CONF"

rm -f "$L/etc/gres.conf"
if [ "$SLURM_LAB_GPUS" -gt 0 ]; then
  mkdir -p "$L/gpu"
  for n in $(seq 0 $((SLURM_LAB_GPUS - 1))); do [ -e "$L/gpu/gpu$n" ] || mknod "$L/gpu/gpu$n" c 1 3; done
  echo "Name=gpu File=$L/gpu/gpu[0-$((SLURM_LAB_GPUS - 1))]" >"$L/etc/gres.conf"
fi

# ---------------------------------------------------------------- hooks
# Each writes its environment to $L/log/HOOK.JOB.NODE.env, then runs what tests have dropped beside it.
# A TaskProlog's standard output is an instruction to slurmstepd and is passed on.
for hook in prolog epilog taskprolog; do
  mkdir -p "$L/scripts/$hook.d"
  cat >"$L/scripts/$hook" <<HOOK
#!/bin/bash
/usr/bin/env | /usr/bin/sort >"$L/log/$hook.\${SLURM_JOB_ID:-0}.\${SLURMD_NODENAME:-x}.env" 2>/dev/null
for f in "$L/scripts/$hook.d"/*; do [ -x "\$f" ] && { "\$f" || exit \$?; }; done
exit 0
HOOK
  chmod 755 "$L/scripts/$hook"
done

# ---------------------------------------------------------------- MariaDB and slurmdbd
if [ "$SLURM_LAB_DB" = 1 ]; then
  DB=$L/db DBSOCK=$L/run/mysqld.sock
  chown mysql:mysql "$DB"
  chmod 750 "$DB"
  [ -d "$DB/mysql" ] || mariadb-install-db --no-defaults --user=mysql --datadir="$DB" \
    --auth-root-authentication-method=socket --skip-test-db >"$L/log/mariadb-install.log" 2>&1
  if ! alive "$L/run/mysqld.pid"; then
    setsid mariadbd --no-defaults --user=mysql --datadir="$DB" --socket="$DBSOCK" \
      --pid-file="$L/run/mysqld.pid" --bind-address=127.0.0.1 --port=$((P + 6)) --skip-name-resolve \
      --skip-log-bin --innodb-buffer-pool-size=64M --innodb-log-file-size=16M \
      --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=0 --innodb-flush-method=nosync \
      --performance-schema=OFF >"$L/log/mariadb.log" 2>&1 </dev/null &
  fi
  wait_for 120 mariadb --no-defaults -S "$DBSOCK" -e 'select 1'
  mariadb --no-defaults -S "$DBSOCK" -e "create database if not exists slurm_acct_db;
    create user if not exists slurm@'127.0.0.1' identified by 'slurmdb';
    grant all on slurm_acct_db.* to slurm@'127.0.0.1';"
  cat >"$L/etc/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$SOCK
CommunicationParameters=NoInAddrAny
$tokens
DbdHost=$H
DbdAddr=127.0.0.1
DbdPort=$((P + 19))
SlurmUser=slurm
DebugLevel=info
LogFile=$L/log/slurmdbd.log
PidFile=$L/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((P + 6))
StorageUser=slurm
StoragePass=slurmdb
StorageLoc=slurm_acct_db
CONF
  chown slurm:slurm "$L/etc/slurmdbd.conf"
  chmod 600 "$L/etc/slurmdbd.conf"
  alive "$L/run/slurmdbd.pid" || slurmdbd
  wait_for 120 sacctmgr -nP show cluster
  # the cluster, its accounts and users must exist before slurmctld starts
  accounts() {
    sacctmgr -nP show cluster format=cluster | grep -x "$SLURM_LAB_CLUSTER" || sacctmgr -i add cluster "$SLURM_LAB_CLUSTER" || return
    parent=root
    for u in $SLURM_LAB_USERS; do
      IFS=: read -r name _ account <<<"$u"
      sacctmgr -nP show account format=account | grep -x "$account" ||
        sacctmgr -i add account "$account" Cluster="$SLURM_LAB_CLUSTER" Parent="$parent" Description="$account" Organization=lab || return
      parent=$account # accounts nest
      sacctmgr -nP show user format=user | grep -x "$name" || sacctmgr -i add user "$name" Account="$account" || return
    done
  }
  for try in 1 2 3 4 5; do # slurmdbd may not answer in time on a busy machine
    if accounts >"$L/log/sacctmgr.log" 2>&1; then break; fi
    [ "$try" -lt 5 ] || { cat "$L/log/sacctmgr.log" >&2; die "gave up making accounts"; }
    sleep 2
  done
fi

# ---------------------------------------------------------------- slurmctld, slurmd
alive "$L/run/slurmctld.pid" || slurmctld
wait_for 120 sh -c 'scontrol ping | grep -q " is UP"'
for n in $(seq "$SLURM_LAB_NODES"); do
  mkdir -p "$L/spool/$N$n"
  alive "$L/run/slurmd.$N$n.pid" || slurmd -N "$N$n"
done
# a kept state may say down or drained
scontrol update nodename="${N}[1-$SLURM_LAB_NODES]" state=resume >/dev/null 2>&1 || true
wait_for 120 sh -c "[ \$(sinfo -h -N -p batch -o '%N %T' | grep -c ' idle\$') -ge $SLURM_LAB_NODES ]"
start_rest
cat >"$L/env.sh" <<ENV
# client settings of the lab
export SLURM_CONF=$SLURM_CONF SLURM_LAB=$L SLURM_LAB_CGROUP=$SLURM_LAB_CGROUP
ENV
echo "up ($SLURM_LAB_CGROUP control groups): . $L/env.sh"
