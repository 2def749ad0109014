#!/bin/bash
# Linux 6.18, control groups v1 with the pids controller mounted (seen on 6.1 with v2 too). Needs root and any python3.
# One would guess: pids.current is the number of lines of cgroup.procs or of threads behind them: an empty list means 0, and a
# group that still counts something cannot be removed.
# What happens: a process that has ended and was not waited for is in no list (cgroup.procs and tasks are empty) and is counted:
# pids.current 3 for three of them, against pids.max too, so that a fork in an "empty" group can fail. rmdir succeeds all the same.
# Why it matters: a job whose leader does not wait runs into its limit of processes while every list shows few; and who waits for
# pids.current = 0 before a group is removed may wait for ever.
set -euo pipefail
groups=/sys/fs/cgroup/pids
if [ "$(id -u)" != 0 ] || [ ! -e $groups/cgroup.procs ]; then
    echo "needs root and $groups (control groups v1)" >&2
    exit 77
fi
tmp=$(mktemp -d)
group=$groups/finding-$$
parent=
trap 'if [ -n "$parent" ]; then kill "$parent" || true; wait "$parent" || true; fi; rmdir $group 2>/dev/null || true; rm -rf "$tmp"' EXIT
cd "$tmp"
uname -sr
mkdir $group
cat >parent.py <<'PYTHON'
import os, sys, time
group, children, release = sys.argv[1], [], os.pipe()
for _ in range(3):
    child = os.fork()
    if child == 0:
        os.read(release[0], 1)  # until told to end
        os._exit(0)
    with open(group + "/cgroup.procs", "w") as procs:
        procs.write(str(child))
print("placed", flush=True)
sys.stdin.readline()
os.write(release[1], b"...")
time.sleep(0.5)
print("ended", flush=True)
time.sleep(60)  # and does not wait for them
PYTHON
mkfifo told
python3 parent.py $group <told >said &
parent=$!
exec 3>told
until grep -q placed said; do sleep 0.1; done
show() { echo "$1: pids.current $(cat $group/pids.current), lines of cgroup.procs $(wc -l <$group/cgroup.procs), of tasks $(wc -l <$group/tasks)"; }
show "running"
[ "$(cat $group/pids.current) $(wc -l <$group/cgroup.procs)" = "3 3" ]
echo >&3
until grep -q ended said; do sleep 0.1; done
show "ended, not waited for"
[ "$(cat $group/pids.current) $(wc -l <$group/cgroup.procs) $(wc -l <$group/tasks)" = "3 0 0" ]
echo 3 >$group/pids.max
if (echo "$BASHPID" >$group/cgroup.procs; /bin/true; exit $?) 2>refused; then echo "a fourth process was made"; exit 1; fi
echo "a fork in the empty group with pids.max 3: $(tail -1 refused)"
rmdir $group
echo "rmdir of the group that counts 3: done"
echo "Holds: zombies are counted by pids.current and stand in no list."
