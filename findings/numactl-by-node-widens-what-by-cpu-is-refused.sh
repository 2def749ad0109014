#!/bin/bash
# numactl 2.0.16-1 (Debian 12), taskset of util-linux 2.38.1-5+deb12u3, on a machine with two CPUs or more.
# One would guess: within an affinity that a batch system has set (CPU 1 alone of a node of the machine), numactl either keeps to it
# or passes over it, by --physcpubind and by --cpunodebind alike.
# What happens: --physcpubind 0 is refused ("<0> is invalid", status 1), since CPU 0 is not in the affinity it was started with, and
# "all" means those of the affinity; --cpunodebind of the node gives all CPUs of the node, also those that were refused one by one.
# --show names the one CPU and the whole node.
# Why it matters: where jobs are kept apart by affinity and not by cpusets, `numactl -N 0 program`, the advice of many
# manuals, puts a job on its neighbours' CPUs, and the cautious form is the one that fails.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
apt-get download -q -o APT::Sandbox::User=root numactl=2.0.16-1 libnuma1=2.0.16-1 util-linux=2.38.1-5+deb12u3 >/dev/null
for package in *.deb; do dpkg -x "$package" root; done
echo "numactl $(dpkg-deb -f numactl_*.deb Version)"
LD_LIBRARY_PATH=$(echo "$tmp"/root/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH
PATH=$tmp/root/usr/bin:$PATH

last=$(taskset -cp $$ | sed 's/.*: //; s/.*[-,]//')
node=$(basename /sys/devices/system/cpu/cpu"$last"/node*)
on_node=$(cat /sys/devices/system/node/"$node"/cpulist)
first=${on_node%%[-,]*}
if [ "$first" = "$last" ]; then
    echo "needs a node with two CPUs that may be used" >&2
    exit 77
fi
bound() {  # bound OPTION VALUE: the CPUs that a program gets, started with the last CPU alone
    # shellcheck disable=SC2016  # $$ is the started shell's
    taskset -c "$last" numactl "$1" "$2" sh -c 'taskset -cp $$' 2>/dev/null | sed 's/.*: //' || echo "status $?"
}
by_cpu=$(bound --physcpubind "$first"); by_all=$(bound --physcpubind all); by_node=$(bound --cpunodebind "${node#node}")
echo "affinity: $last; $node has $on_node"
echo "--physcpubind $first: $by_cpu"
echo "--physcpubind all: $by_all"
echo "--cpunodebind ${node#node}: $by_node"
taskset -c "$last" numactl --show | grep cpubind
[ "$by_cpu" = "<$first> is invalid
status 1" ]
[ "$by_all" = "$last" ]
# The whole node, as taskset writes it ("0,1" where the kernel's file says "0-1").
[ "$by_node" = "$on_node" ] || [ "$by_node" = "${on_node/-/,}" ]
echo "Holds: by node numactl goes beyond the affinity that it keeps to by CPU."
