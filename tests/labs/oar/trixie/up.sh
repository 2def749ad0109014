#!/bin/bash
# Start PostgreSQL, OAR's server and its node oar1, as Debian's packages do, in the system that suite.sh has made.
set -euo pipefail
export LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
die() { echo "oar: $*" >&2; exit 1; }
wait_for() { # wait_for SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until timeout 60 "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || { tail -n 20 /var/log/oar.log >&2; die "gave up waiting for: $*"; }
        sleep 0.2
    done
}
conf=/etc/oar/oar.conf cores=32
set_conf() {
    sed -i -e "/^#\?$1=/d" $conf
    echo "$1=\"$2\"" >>$conf
}
product=/opt/jobfeatures-exporter
set_conf DB_TYPE Pg
set_conf DB_HOSTNAME 127.0.0.1
set_conf DB_BASE_PASSWD oar
set_conf DB_BASE_PASSWD_RO oar_ro
set_conf SERVER_HOSTNAME localhost
set_conf SCHEDULER_MIN_TIME_BETWEEN_2_CALLS 1
set_conf SCHEDULER_JOB_SECURITY_TIME 5
set_conf SCHEDULER_GANTT_HOLE_MINIMUM_TIME 5
set_conf COSYSTEM_HOSTNAME oar1
set_conf DEPLOY_HOSTNAME oar1
set_conf WALLTIME_CHANGE_ENABLED yes
set_conf WALLTIME_MAX_INCREASE -1
set_conf OPENSSH_CMD "/usr/bin/ssh -p 6667 -e none"
set_conf JOB_RESOURCE_MANAGER_PROPERTY_DB_FIELD cpuset
set_conf JOB_RESOURCE_MANAGER_FILE /etc/oar/job_resource_manager_systemd.pl
set_conf SUSPEND_RESUME_FILE /etc/oar/suspend_resume_manager_systemd.pl
install -d -m 1777 /var/log/hooks
for hook in prologue epilogue; do # as packaging/oar/README.md has it beside a script of the site's own
    # shellcheck disable=SC2016  # the hook's
    printf '#!/bin/bash\n(echo "$*"; env) >/var/log/hooks/%s.$1.$EUID.env\n%s "$@" || true\n' $hook $product/oar/$hook.sh >/etc/oar/$hook
    chmod 755 /etc/oar/$hook
    set_conf ${hook^^}_EXEC_FILE /etc/oar/$hook
done
cp /usr/share/oar/oar-server/{job_resource,suspend_resume}_manager_systemd.pl /etc/oar/
if ! grep -qw cpuset /sys/fs/cgroup/cgroup.controllers; then # OAR's manager reads it, whatever it has set before
    # shellcheck disable=SC2016  # this is perl's
    sed -i -e 's#^my $Cgroup_\(oar\|job\)_cpus_path *=.*#my $Cgroup_\1_cpus_path = "/sys/devices/system/cpu/online";#' \
        /etc/oar/job_resource_manager_systemd.pl
fi

# --- PostgreSQL
postgres=$(find /usr/lib/postgresql -maxdepth 2 -name bin | sort -V | tail -n 1)
db=/var/lib/postgresql/oar
install -d -o postgres -g postgres -m 2775 /run/postgresql
if [ ! -e $db/PG_VERSION ]; then
    runuser -u postgres -- "$postgres/initdb" -D $db -N --auth=trust --locale=C.UTF-8 >/var/log/initdb.log 2>&1
fi
systemd-run -q --unit=postgres --uid=postgres "$postgres/postgres" -D $db -c fsync=off -c shared_buffers=32MB
wait_for 120 runuser -u postgres -- psql -c "select 1" postgres
oar-database --check >/dev/null 2>&1 ||
    oar-database --create --db-admin-user postgres --db-admin-pass x >/var/log/oar-database.log 2>&1 ||
    { cat /var/log/oar-database.log >&2; die "no database"; }

# --- node and server
systemctl start oar-node.service
systemctl start oar-server.service
{
    oarproperty -c -a host
    oarproperty -a cpu
    oarproperty -a core
    oarnodesetting -a -h oar1 -p host=oar1 -p cpu=1 -p core=1 -p cpuset=0
    # the others at once, not by a second of perl each
    psql -h 127.0.0.1 -U oar oar -c "insert into resources (network_address, state, host, cpu, core, cpuset)
        select 'oar1', 'Alive', 'oar1', 1, n, (n - 1) % $(nproc) from generate_series(2, $cores) n"
} >/var/log/resources.log 2>&1 || { cat /var/log/resources.log >&2; die "no resources"; }
# shellcheck disable=SC2016
wait_for 120 sh -c '[ $(oarnodes -s | grep -c Alive) -ge "$0" ]' $cores
echo "OAR is up after $SECONDS s"
