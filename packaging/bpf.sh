#!/bin/bash
# Compile what sums in the kernel. The object lies in the tree beside its source: neither installing nor building packages
# needs a compiler. What its bytes depend on is the compiler's version, not the machine or the folder. Needs Debian 12's:
#   apt-get install --no-install-recommends clang-14 llvm-14
# packaging/bpf.sh            write the object anew, after a change of its source
# packaging/bpf.sh --check    compare the object with what the compiler makes of its source
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../exporter/jobfeatures_exporter/sampling/bpf"
fail() { printf 'bpf.sh: %s\n' "$1" >&2; exit 1; }
wanted="clang version 14.0.6"
found=$(clang-14 --version | head -n1) || fail "no clang-14 (Debian 12: clang-14, llvm-14)"
[[ $found = *"$wanted"* ]] || fail "$found makes other bytes than $wanted"
made=$(mktemp)
trap 'rm -f "$made"' EXIT
# v3 is what Linux 5.1 understands; the types of the records that are read go into the object by -g.
clang-14 -O2 -g -Wall -Wextra -Werror -target bpfel -mcpu=v3 -fdebug-compilation-dir=. -c sums.bpf.c -o "$made"
llvm-strip-14 -g "$made"
case ${1-} in
  --check) cmp "$made" sums.bpf.o || fail "sums.bpf.o is not what sums.bpf.c gives: run packaging/bpf.sh" ;;
  "") install -m 644 "$made" sums.bpf.o ;;
  *) fail "usage: packaging/bpf.sh [--check]" ;;
esac
