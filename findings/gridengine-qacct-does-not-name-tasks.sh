#!/bin/bash
# Son of Grid Engine 8.1.9 (Debian 12: gridengine-client 8.1.9+dfsg-10+b1), `qacct -j` of a parallel job whose tasks are accounted.
# One would guess: accounting(5) has a field pe_taskid, so qacct shows which record is the job and which are its tasks;
# or the job's record has what the whole job used.
# What happens: with control_slaves TRUE and accounting_summary FALSE, the job and each task that qrsh -inherit started
# is a record with the same jobnumber, "taskid undefined", all slots of the job and its submission. No row is another
# for a task. The CPU time of the job's own record is that of its master task alone.
# Why it matters: who takes the first record, or the last, has a part of what the job used; who adds up slots and
# wall-clock time counts the job once more for each task.
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
python3 - >accounting <<'PYTHON'
def line(host, cpu, task):
    """An hour of one line of accounting(5), 45 fields."""
    start = 1_700_000_000
    fields = ["all.q", host, "users", "alice", "job", 3, "sge", 0, start, start, start + 3600, 0, 0, 3600, cpu, 0.0]
    fields += [0] * 15
    fields += ["NONE", "defaultdepartment", "mpi", 8, 0, cpu, 1.0, 0.0, "-", 0.0, task, 0, 0, 0]
    print(*fields, sep=":")


line("n1", 9000.0, "1.n1")
line("n2", 9000.0, "1.n2")
line("n1", 5.0, "NONE")
PYTHON
cut -d: -f2,42 accounting | sed 's/^/accounting, host and pe_taskid: /'
"$work/root/usr/lib/gridengine/qacct" -j 3 -f accounting >told
echo "guess: three records, of which two name their task; or one with 18005 s"
grep -E '^(hostname|jobnumber|taskid|slots|cpu|pe_taskid) ' told
names() { grep -o '^[a-z_]*' "$1" | sort -u | tr '\n' ' '; }
count() { grep -cE "^$1 *\$" told || true; }
if [ "$(count 'jobnumber +3') $(count 'taskid +undefined') $(count 'slots +8')" != "3 3 3" ] ||
  [ "$(count 'cpu +5\.000s')" != 1 ] || grep -qE 'pe_taskid|1\.n[12]' told; then
  echo "changed: rows $(names told)" >&2
  exit 1
fi
