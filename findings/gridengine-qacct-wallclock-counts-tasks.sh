#!/bin/bash
# Son of Grid Engine 8.1.9 (Debian 12: gridengine-client 8.1.9+dfsg-10+b1), qacct's sums of WALLCLOCK on an accounting file.
# One would guess: WALLCLOCK of a user or of a parallel environment is the time of its jobs, or slots x time.
# What happens: it is the sum over the lines of the file. A job of one hour on four slots of one node counts one hour, as
# one on a single slot does; a job of one hour on eight slots with two tasks started by qrsh (control_slaves TRUE and
# accounting_summary FALSE: a line for the job, one for each task) counts three. `qacct -slots` sums in the same way;
# -m leaves the lines of tasks out: one hour, still without the slots.
# Why it matters: neither a share of the cluster nor the time of jobs can be taken from it; how often a program
# calls qrsh decides what its user is charged.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -qq -o APT::Sandbox::User=root download \
  gridengine-client=8.1.9+dfsg-10+b1 gridengine-common=8.1.9+dfsg-10 libmunge2 libtirpc3 libjemalloc2 || { echo "needs Debian 12's packages" >&2; exit 77; }
for deb in *.deb; do dpkg -x "$deb" root; done
export SGE_ROOT=$work SGE_CELL=default SGE_QMASTER_PORT=6444 SGE_EXECD_PORT=6445
mkdir -p default/common
hostname >default/common/act_qmaster
cp root/usr/share/gridengine/default-bootstrap default/common/bootstrap
export LD_LIBRARY_PATH=$work/root/usr/lib/x86_64-linux-gnu:$work/root/lib/x86_64-linux-gnu
qacct() { "$work/root/usr/lib/gridengine/qacct" "$@" -f accounting; }
python3 - >accounting <<'PYTHON'
def line(owner, number, environment, slots, task="NONE", host="n1"):
    """One hour of one line of accounting(5), 45 fields."""
    start = 1_700_000_000
    fields = ["all.q", host, "users", owner, "job", number, "sge", 0, start, start, start + 3600, 0, 0, 3600, 90.0, 10.0]
    fields += [0] * 15
    fields += ["NONE", "defaultdepartment", environment, slots, 0, 100.0, 1.0, 0.0, "-", 0.0, task, 0, 0, 0]
    print(*fields, sep=":")


line("serial", 1, "NONE", 1)
line("threads", 2, "smp", 4)
line("mpi", 3, "mpi", 8)
line("mpi", 3, "mpi", 8, "1.n1")
line("mpi", 3, "mpi", 8, "1.n2", "n2")
PYTHON
qacct -help | head -n 1
echo "guess: jobs of one hour on 1, 4 and 8 slots: 3600 s each, or 3600, 14400 and 28800"
wall() { qacct "$@" | awk 'NR > 2 {printf "%s%s=%s", sep, $1, $2; sep = " "}'; }
check() {
  local expected=$1 got
  shift
  got=$(wall "$@")
  echo "qacct $*: $got"
  [ "$got" = "$expected" ] || { echo "changed: $expected was seen" >&2; exit 1; }
}
check "mpi=10800 serial=3600 threads=3600" -o
check "1=3600 4=3600 8=10800" -slots
check "mpi=3600 serial=3600 threads=3600" -o -m
