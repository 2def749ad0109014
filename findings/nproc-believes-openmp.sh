#!/bin/bash
# nproc of coreutils 9.1-1 (Debian 12), on Linux.
# One would guess: nproc counts the CPUs that this process may use (its affinity, so the cpuset of a job too); variables of a
# programming interface for threads have no say, or can only lower it.
# What happens: OMP_NUM_THREADS is taken first, whatever the machine has: with 64 nproc says 64 on one CPU, of "4,2" (nested
# levels) it says 4. Only OMP_THREAD_LIMIT is an upper bound; --all is the one way round. What is not a number (0, -1, "2x") is
# passed over without a word, and --ignore takes its part off the 64.
# Why it matters: job scripts say `make -j$(nproc)`, and batch systems and modules set OMP_NUM_THREADS, most often to 1.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
apt-get download -q -o APT::Sandbox::User=root coreutils=9.1-1 util-linux=2.38.1-5+deb12u3 >/dev/null
for package in *.deb; do dpkg -x "$package" root; done
root/usr/bin/nproc --version | head -1
first=$(root/usr/bin/taskset -cp $$ | sed 's/.*: //; s/[-,].*//')

says() {  # says EXPECTED [VARIABLE=VALUE...] [-- OPTION...]: on one CPU alone
    expected=$1; shift
    variables=(); while [ $# -gt 0 ] && [ "$1" != -- ]; do variables+=("$1"); shift; done
    [ $# -eq 0 ] || shift
    answer=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT "${variables[@]}" root/usr/bin/taskset -c "$first" root/usr/bin/nproc "$@")
    echo "one CPU, ${variables[*]:-no variable}, nproc $*: $answer"
    [ "$answer" = "$expected" ]
}
says 1
says 64 OMP_NUM_THREADS=64
says 4 OMP_NUM_THREADS=4,2
says 62 OMP_NUM_THREADS=64 -- --ignore=2
says 1 OMP_NUM_THREADS=0
says 1 OMP_NUM_THREADS=2x
says 8 OMP_NUM_THREADS=64 OMP_THREAD_LIMIT=8
says "$(getconf _NPROCESSORS_CONF)" OMP_NUM_THREADS=64 -- --all
echo "Holds: OMP_NUM_THREADS makes nproc say more CPUs than there are."
