#!/bin/bash
# GNU accounting utilities 6.6.4-5+b1 (Debian 12's acct), Linux 6.18. Needs root, on a machine where process accounting is off:
# it is switched on for a second and off at the end.
# One would guess: /proc/PID/io counts what a process itself asked for, so one that writes nothing ends with wchar 0; and accounting,
# which only looks on, changes no counter of those it accounts.
# What happens: the kernel writes the record of 64 bytes in the name of the process that ends: its wchar grows by 64, its syscw by 1.
# Why it matters: where accounting is on a job of a million short processes has written 64 MB more than
# it did, by each tool that counts to the end of a process; and a test that expects exact bytes fails there alone.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "needs root" >&2; exit 77; }
tmp=$(mktemp -d)
accton=
trap '[ -z "$accton" ] || "$accton" off >/dev/null; rm -rf "$tmp"' EXIT
cd "$tmp"
apt-get download -q acct=6.6.4-5+b1 >/dev/null 2>&1 || { echo "needs apt of Debian 12 with acct 6.6.4-5+b1" >&2; exit 77; }
dpkg -x acct_*.deb package
uname -sr
package/usr/sbin/accton --version | head -1
cat >ends.py <<'PYTHON'
import os

def counters(pid):
    with open(f"/proc/{pid}/io") as file:
        return {name: int(value) for name, value in (line.split(": ") for line in file)}

reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.read(reader, 1)  # until told to end
    os._exit(0)
before = counters(child)
os.write(writer, b".")
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # ended, and still to be read
after = counters(child)
os.waitpid(child, 0)
print(*(after[name] - before[name] for name in ("wchar", "syscw", "rchar")))
PYTHON
off=$(python3 ends.py)
echo "accounting off: wchar, syscw and rchar of a process that reads one byte and ends: $off"
[ "$off" = "0 0 1" ] || { echo "is accounting on already?" >&2; exit 77; }
touch records
accton=$tmp/package/usr/sbin/accton
"$accton" "$tmp/records" >/dev/null
on=$(python3 ends.py)
"$accton" off >/dev/null
accton=
echo "accounting on:  $on"
[ "$on" = "64 1 1" ]
[ "$(python3 ends.py)" = "0 0 1" ]
echo "Holds: the record of process accounting is written by the process that ends, and counted as its own."
