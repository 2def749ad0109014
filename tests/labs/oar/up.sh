#!/bin/bash
# Bring up a private OAR 2.5 with two nodes on this machine, for integration tests: PostgreSQL on a
# socket, the server, and an sshd for each node, oar1 and oar2, at 127.0.0.61 and 127.0.0.62.
#
# Packages: see install.sh. Must run as root, with control groups of v1, the only ones that OAR 2.5 knows.
# State lives below $OAR_LAB, but for what is compiled into OAR's programs: down.sh --purge puts back
# /etc/oar/oar.conf and /etc/hosts, and empties /var/lib/oar.
# The jobs of oar1 are /oar/USER_ID in the machine's own control groups, as on a cluster. oar2 has namespaces
# and a /var/lib/oar of its own; seen from here its jobs are /oarlab_oar2/oar/USER_ID.
# A lab that is up is left alone.
#
# Settings (environment):
OAR_LAB=${OAR_LAB:-/tmp/jobfeatures-lab/oar} # all state; the test users must be able to reach it
OAR_LAB_BASEPORT=${OAR_LAB_BASEPORT:-16960} # +6 the server, on all addresses; +7 the nodes; +8 names PostgreSQL's socket
OAR_LAB_USERS=${OAR_LAB_USERS:-"alice:6001 bob:6002"} # name:uid
set -euo pipefail
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
L=$OAR_LAB P=$OAR_LAB_BASEPORT CORES=4
controllers="cpuset cpu cpuacct devices freezer"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd /
die() { echo "oar lab: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "must be root"
[ -x /usr/sbin/Almighty ] || die "OAR is missing; run install.sh"
[ -r /sys/fs/cgroup/cpuset/tasks ] || die "needs control groups of v1"

# wait_for SECONDS COMMAND...: poll until the command succeeds; on failure show the last of the logs
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until timeout 10 "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || { tail -n 5 "$L"/log/*.log >&2; die "gave up waiting for: $*"; }
    sleep 0.1
  done
}
alive() { [ -s "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null && [ "$(awk '{print $3}' "/proc/$(cat "$1")/stat")" != Z ]; }
listens() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }
export -f listens
if alive "$L/run/almighty.pid" && alive "$L/run/sshd.oar1.pid" && timeout 10 oarnodes -s 2>/dev/null | grep oar1 >/dev/null; then
  echo "already up: . $L/env.sh"
  exit 0
fi
[ -d "$L/run" ] && "$here/down.sh" >/dev/null 2>&1
for port in $((P + 6)) $((P + 7)); do ! listens 127.0.0.1 "$port" || die "port $port is in use"; done
postgres=$(find /usr/lib/postgresql -maxdepth 2 -name bin | sort -V | tail -n 1)

# --- users, folders, names
for user in $OAR_LAB_USERS; do
  id "${user%%:*}" >/dev/null 2>&1 || useradd -m -s /bin/bash -u "${user##*:}" "${user%%:*}" || id "${user%%:*}" # which another lab has made meanwhile
done
mkdir -p "$L"/{etc,log,run,db,node,scratch,hooks} /run/sshd
[ -k "$(dirname "$L")" ] || chmod 755 "$(dirname "$L")" # /tmp stays as it is
chmod 755 "$L" "$L"/{etc,hooks,node}
chmod 1777 "$L"/{log,run,scratch} # root, oar and postgres write there
touch "$L/log/oar.log"
chown oar: "$L/log/oar.log"
grep -v '# oar lab$' /etc/hosts >"$L/hosts" || true
for n in 1 2; do echo "127.0.0.$((60 + n)) oar$n # oar lab" >>"$L/hosts"; done
cat "$L/hosts" >/etc/hosts # which may be mounted here, and cannot be replaced then

# --- configuration
conf=/etc/oar/oar.conf
[ -e $conf.before-lab ] || cp -a $conf $conf.before-lab
cp $conf.before-lab "$L/etc/oar.conf"
chown oar:root "$L/etc/oar.conf"
chmod 600 "$L/etc/oar.conf"
set_conf() {
  sed -i -e "/^#\?$1=/d" "$L/etc/oar.conf"
  echo "$1=\"$2\"" >>"$L/etc/oar.conf"
}
set_conf DB_TYPE Pg
set_conf DB_HOSTNAME "$L/run"
set_conf DB_PORT $((P + 8))
set_conf DB_BASE_PASSWD oar
set_conf DB_BASE_PASSWD_RO oar_ro
set_conf SERVER_HOSTNAME localhost
set_conf SERVER_PORT $((P + 6))
set_conf OPENSSH_CMD "/usr/bin/ssh -p $((P + 7)) -e none"
set_conf LOG_FILE "$L/log/oar.log"
set_conf SCHEDULER_MIN_TIME_BETWEEN_2_CALLS 1
set_conf SCHEDULER_JOB_SECURITY_TIME 5
set_conf SCHEDULER_GANTT_HOLE_MINIMUM_TIME 5
set_conf COSYSTEM_HOSTNAME oar1
set_conf DEPLOY_HOSTNAME oar1
set_conf WALLTIME_CHANGE_ENABLED yes
set_conf WALLTIME_MAX_INCREASE -1
set_conf JOB_RESOURCE_MANAGER_PROPERTY_DB_FIELD cpuset
set_conf JOB_RESOURCE_MANAGER_FILE "$L/etc/job_resource_manager_cgroups.pl"
for hook in prologue epilogue; do
  set_conf "${hook^^}_EXEC_FILE" "$L/hooks/$hook.sh"
  [ -e "$L/hooks/$hook.sh" ] || printf '#!/bin/sh\nexit 0\n' >"$L/hooks/$hook.sh"
  chmod 755 "$L/hooks/$hook.sh"
done
# shellcheck disable=SC2016  # these are perl's
# OAR's own manager, but that it wipes no user's files in /tmp after a job: this is a shared machine
sed -e "s#^my @Tmp_dir_to_clear = .*#my @Tmp_dir_to_clear = ('$L/scratch/.');#" \
  -e 's#^my $Fstrim_cmd = .*#my $Fstrim_cmd = "/nonexistent";#' -e 's#if ($ipcrm_args) {#if (0) {#' \
  /etc/oar/job_resource_manager_cgroups.pl >"$L/etc/job_resource_manager_cgroups.pl"
ln -sfn "$L/etc/oar.conf" $conf
cat >"$L/etc/sshd_config" <<CONF
Port $((P + 7))
HostKey /etc/oar/oar_ssh_host_rsa_key
PermitRootLogin no
PasswordAuthentication no
MaxStartups 1024
UseDNS no
AcceptEnv OAR_CPUSET OAR_USER_CPUSET OAR_USER_GPUDEVICE OAR_JOB_USER
PermitUserEnvironment yes
AllowUsers oar
CONF

# --- PostgreSQL, on a socket only
pg() { runuser -u postgres -- "$@"; }
chown postgres: "$L/db"
chmod 700 "$L/db"
[ -e "$L/db/PG_VERSION" ] ||
  pg "$postgres/initdb" -D "$L/db" -N --auth=trust --locale=C.UTF-8 >"$L/log/initdb.log" 2>&1
rm -f "$L/db/postmaster.pid"
setsid env -i PATH="$PATH" LC_ALL=C.UTF-8 runuser -u postgres -- "$postgres/postgres" -D "$L/db" -p $((P + 8)) \
  -c listen_addresses= -c unix_socket_directories="$L/run" -c fsync=off -c shared_buffers=32MB \
  >"$L/log/pg.log" 2>&1 </dev/null &
wait_for 120 psql -h "$L/run" -p $((P + 8)) -U postgres -c "select 1" postgres
head -n 1 "$L/db/postmaster.pid" >"$L/run/postgres.pid"
oar-database --check >/dev/null 2>&1 ||
  oar-database --create --db-admin-user postgres --db-admin-pass x >"$L/log/oar-database.log" 2>&1 ||
  die "no database: $(tail -n 1 "$L/log/oar-database.log")"

# --- nodes. The manager makes these links at a node's first job; both share /dev and would race
mkdir -p /dev/oar_cgroups_links
ln -sfn /sys/fs/cgroup/cpuset /dev/cpuset
for each in $controllers; do ln -sfn "/sys/fs/cgroup/$each" "/dev/oar_cgroups_links/$each"; done
clean=(env -i PATH="$PATH" LANG=C)
serve() { echo "exec /usr/sbin/sshd -D -e -f $L/etc/sshd_config -o ListenAddress=$1 -o PidFile=none"; }
setsid "${clean[@]}" unshare -u sh -c "hostname oar1; $(serve 127.0.0.61)" >"$L/log/sshd1.log" 2>&1 </dev/null &
echo $! >"$L/run/sshd.oar1.pid"
rm -rf "$L/node/oar2"
mkdir -p "$L/node/oar2"
cp -a /var/lib/oar "$L/node/oar2/lib"
move='' bind=''
for each in $controllers; do
  group=/sys/fs/cgroup/$each
  mkdir -p "$group/oarlab_oar2"
  move+="echo \$\$ >$group/oarlab_oar2/cgroup.procs; " bind+="mount --bind $group/oarlab_oar2 $group; "
done
for each in cpus mems; do cat /sys/fs/cgroup/cpuset/cpuset.$each >/sys/fs/cgroup/cpuset/oarlab_oar2/cpuset.$each; done
inside="set -e; hostname oar2; mount --bind $L/node/oar2/lib /var/lib/oar; $bind $(serve 127.0.0.62)"
setsid "${clean[@]}" sh -c "set -e; $move exec unshare -u -m -C sh -c '$inside'" >"$L/log/sshd2.log" 2>&1 </dev/null &
echo $! >"$L/run/sshd.oar2.pid"
for n in 1 2; do wait_for 120 bash -c "listens 127.0.0.$((60 + n)) $((P + 7))"; done

# --- the server; not by oar-server, which writes into /var/run
setsid "${clean[@]}" /usr/sbin/Almighty >"$L/log/almighty.log" 2>&1 </dev/null &
echo $! >"$L/run/almighty.pid"
wait_for 120 bash -c "listens 127.0.0.1 $((P + 6))"
if [ "$(psql -qAt -h "$L/run" -p $((P + 8)) -U oar oar -c 'select count(*) from resources')" = 0 ]; then
  {
    oarproperty -c -a host
    oarproperty -a cpu
    oarproperty -a core
    for n in 1 2; do
      for core in $(seq 0 $((CORES - 1))); do
        oarnodesetting -a -h "oar$n" -p "host=oar$n" -p "cpu=$n" -p "core=$(((n - 1) * CORES + core + 1))" \
          -p "cpuset=$((core % $(nproc)))"
      done
    done
  } >"$L/log/resources.log" 2>&1
else
  for n in 1 2; do oarnodesetting -s Alive -h "oar$n"; done >"$L/log/resources.log" 2>&1
fi
wait_for 120 sh -c "[ \$(oarnodes -s | grep -c Alive) -ge $((2 * CORES)) ]"
echo "export OAR_LAB=$L" >"$L/env.sh"
echo "up: . $L/env.sh"
