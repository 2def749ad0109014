#!/bin/bash
# Bring up a private one-host Grid Engine (Son of Grid Engine 8.1.9) for integration tests: qmaster,
# execd, one queue all.q, one parallel environment smp.
#
# Packages: see install.sh. Must run as root, because execd starts jobs as other users. Nothing of
# Debian's own cell (/var/lib/gridengine/default) is used: everything lives below $SGE_LAB, and only the
# TCP ports BASEPORT+4 and BASEPORT+5 are taken. A lab that is up is left alone.
#
# Settings (environment):
SGE_LAB=${SGE_LAB:-/tmp/jobfeatures-lab/gridengine} # all state; the test users must be able to reach it
SGE_LAB_BASEPORT=${SGE_LAB_BASEPORT:-16940}
SGE_LAB_SLOTS=${SGE_LAB_SLOTS:-4}
SGE_LAB_USERS=${SGE_LAB_USERS:-"alice:6001 bob:6002"} # name:uid
set -euo pipefail
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
L=$SGE_LAB
H=$(hostname)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export SGE_ROOT=$L SGE_CELL=default
export SGE_QMASTER_PORT=$((SGE_LAB_BASEPORT + 4)) SGE_EXECD_PORT=$((SGE_LAB_BASEPORT + 5))
die() { echo "gridengine lab: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "must be root"
for b in sge_qmaster sge_execd; do
  [ -x "/usr/lib/gridengine/$b" ] || die "$b is missing; run install.sh"
done

# wait_for SECONDS COMMAND...: poll until the command succeeds; on failure show the daemons' messages
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until timeout 10 "$@" >/dev/null 2>&1; do
    if [ "$SECONDS" -ge "$end" ]; then
      tail -n 5 "$L"/spool/qmaster/messages "$L"/spool/execd/*/messages >&2
      die "gave up waiting for: $*"
    fi
    sleep 0.1
  done
}
alive() { [ -s "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }
if alive "$L/run/qmaster.pid" && alive "$L/run/execd.pid" && timeout 5 qhost >/dev/null 2>&1; then
  echo "already up: . $L/env.sh"
  exit 0
fi
if [ -d "$L/run" ]; then "$here/down.sh" >/dev/null 2>&1 || true; fi
for p in $SGE_QMASTER_PORT $SGE_EXECD_PORT; do
  if (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null; then die "port $p is in use"; fi
done
for u in $SGE_LAB_USERS; do
  id "${u%%:*}" >/dev/null 2>&1 || useradd -m -s /bin/bash -u "${u##*:}" "${u%%:*}" || id "${u%%:*}" # which another lab has made meanwhile
done

# ---------------------------------------------------------------- the cell
arch=$(/usr/share/gridengine/util/arch)
mkdir -p "$L"/{bin,lib,utilbin,run,default/common,spool/{qmaster/job_scripts,execd}}
[ -k "$(dirname "$L")" ] || chmod 755 "$(dirname "$L")" # /tmp stays as it is
chmod 755 "$L"
for d in bin lib utilbin; do ln -sfn /usr/lib/gridengine "$L/$d/$arch"; done
for d in util mpi scripts; do ln -sfn "/usr/share/gridengine/$d" "$L/$d"; done
C=$L/default/common
echo "$H" >"$C/act_qmaster"
# 127.0.0.1 usually resolves back to "localhost": tell Grid Engine that it is the same host
echo "$H localhost $(hostname -s)" |
  awk '{n=$1; o=n; for(i=2;i<=NF;i++) if($i!=n && !s[$i]++) o=o" "$i; print o}' >"$C/host_aliases"
sed -e "s#^spooling_params.*#spooling_params $L/spooldb#" \
  -e "s#^qmaster_spool_dir.*#qmaster_spool_dir $L/spool/qmaster#" \
  /usr/share/gridengine/default-bootstrap >"$C/bootstrap"
chown -R sgeadmin:sgeadmin "$L"
as() { runuser -u sgeadmin -- "$@"; }
if [ ! -e "$L/spooldb/sge" ]; then
  mkdir -p "$L/spooldb"
  chown sgeadmin: "$L/spooldb"
  sed -e "s#^execd_spool_dir.*#execd_spool_dir $L/spool/execd#" \
    -e 's#^load_report_time.*#load_report_time 00:00:05#' -e 's#^mailer.*#mailer /bin/true#' \
    -e 's#flush_time=00:00:15#flush_time=00:00:01#' -e 's#^finished_jobs.*#finished_jobs 1000#' \
    /usr/share/gridengine/default-configuration >"$L/conf.global"
  {
    as /usr/lib/gridengine/spoolinit berkeleydb libspoolb "$L/spooldb" init
    defaults=/usr/lib/gridengine/spooldefaults
    as $defaults configuration "$L/conf.global"
    as $defaults complexes /usr/share/gridengine/util/resources/centry
    as $defaults usersets /usr/share/gridengine/util/resources/usersets
    as $defaults managers sgeadmin
    as $defaults managers root
  } >"$L/init.log" 2>&1
fi

# ---------------------------------------------------------------- qmaster
# Daemons get a clean environment: execd hands its own on to every job.
clean=(env -i PATH="$PATH" SGE_ROOT="$SGE_ROOT" SGE_CELL="$SGE_CELL"
  SGE_QMASTER_PORT="$SGE_QMASTER_PORT" SGE_EXECD_PORT="$SGE_EXECD_PORT")
"${clean[@]}" SGE_QMASTER_PIDFILE="$L/run/qmaster.pid" sge_qmaster
wait_for 120 test -s "$L/run/qmaster.pid"
wait_for 120 qconf -sh
alive "$L/run/qmaster.pid" || die "qmaster has ended; is there another one on port $SGE_QMASTER_PORT?"
export EDITOR=true
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
{
  qconf -ah "$H" || true
  qconf -as "$H" || true
  qconf -ssconf | sed -e 's/^schedule_interval.*/schedule_interval 0:0:1/' \
    -e 's/^flush_submit_sec.*/flush_submit_sec 1/' -e 's/^flush_finish_sec.*/flush_finish_sec 1/' >"$tmp/sched"
  qconf -Msconf "$tmp/sched"
  if ! qconf -shgrp @allhosts >/dev/null 2>&1; then
    printf 'group_name @allhosts\nhostlist %s\n' "$H" >"$tmp/hg"
    qconf -Ahgrp "$tmp/hg"
  fi
  if ! qconf -sp smp >/dev/null 2>&1; then
    cat >"$tmp/pe" <<PE
pe_name smp
slots 999
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule \$pe_slots
control_slaves TRUE
job_is_first_task TRUE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
PE
    qconf -Ap "$tmp/pe"
  fi
} >"$L/qconf.log" 2>&1

# ---------------------------------------------------------------- execd and its queue
# Hooks find their settings by a variable of execd, which no job can set.
"${clean[@]}" JOBFEATURES_SETTINGS="$L/hook-settings" SGE_EXECD_PIDFILE="$L/run/execd.pid" sge_execd
wait_for 120 sh -c "qconf -sel | grep -q ."
if ! qconf -sq all.q >/dev/null 2>&1; then
  cat >"$tmp/q" <<Q
qname all.q
hostlist @allhosts
seq_no 0
load_thresholds NONE
suspend_thresholds NONE
nsuspend 1
suspend_interval 00:05:00
priority 0
min_cpu_interval 00:05:00
processors UNDEFINED
qtype BATCH INTERACTIVE
ckpt_list NONE
pe_list smp
rerun FALSE
slots $SGE_LAB_SLOTS
tmpdir /tmp
shell /bin/bash
prolog NONE
epilog NONE
shell_start_mode unix_behavior
starter_method NONE
suspend_method NONE
resume_method NONE
terminate_method NONE
notify 00:00:60
owner_list NONE
user_lists NONE
xuser_lists NONE
subordinate_list NONE
complex_values NONE
projects NONE
xprojects NONE
calendar NONE
initial_state default
s_rt INFINITY
h_rt INFINITY
s_cpu INFINITY
h_cpu INFINITY
s_fsize INFINITY
h_fsize INFINITY
s_data INFINITY
h_data INFINITY
s_stack INFINITY
h_stack INFINITY
s_core INFINITY
h_core INFINITY
s_rss INFINITY
h_rss INFINITY
s_vmem INFINITY
h_vmem INFINITY
Q
  qconf -Aq "$tmp/q" >>"$L/qconf.log" 2>&1
fi
wait_for 120 sh -c "qstat -f -q all.q | awk '/^all.q/{exit !(\$4!=\"-NA-\" && NF<6)}'"
cat >"$L/env.sh" <<ENV
# client settings of the lab
export SGE_ROOT=$SGE_ROOT SGE_CELL=$SGE_CELL SGE_LAB=$L
export SGE_QMASTER_PORT=$SGE_QMASTER_PORT SGE_EXECD_PORT=$SGE_EXECD_PORT
ENV
echo "up: . $L/env.sh"
