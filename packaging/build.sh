#!/bin/bash
# Build the packages in dist/ (or in --out FOLDER): wheel, source archive, a bundle of all wheels, .deb and .rpm;
# with --repository --key KEY also a signed repository of them for apt and dnf. docs/install.md. Needs:
#   apt-get install --no-install-recommends python3-venv git    for wheel, bundle and .deb
#   apt-get install --no-install-recommends rpm                            for the .rpm
#   apt-get install --no-install-recommends gpg dpkg-dev createrepo-c      for the repository
# The packages depend on the Python that builds them: the system's own, or the newest beside it if that is older
# than 3.11, or PYTHON (/usr/bin/python3.13). pip's configuration determines where libraries come from
# (PIP_CONSTRAINT pins them).
set -euo pipefail
umask 022
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fail() { printf 'build.sh: %s\n' "$1" >&2; exit 1; }
is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
python=${PYTHON:-}
if [ -z "$python" ]; then
  for each in /usr/bin/python3 /usr/bin/python3.{14,13,12,11}; do
    if is_new_enough "$each"; then python=$each && break; fi
  done
fi
[ -n "$python" ] || fail "no Python from 3.11 on in /usr/bin; PYTHON names another"
is_new_enough "$python" || fail "PYTHON=$python is no Python from 3.11 on"
case " $* " in
  *" --help "* | *" -h "*) PYTHONPATH=$here/tools PYTHONDONTWRITEBYTECODE=1 exec "$python" -m makepackages.options --help ;;
esac
"$python" -c 'import ensurepip, venv' 2>/dev/null || fail "$python has no venv (Debian: python3-venv)"
[ ! -e "$here/../.git" ] || command -v git >/dev/null || fail "git is not installed (Debian: git), which a checkout needs"
tools=${JOBFEATURES_BUILD_TOOLS:-$here/../build/tools-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')}

# A separate environment for the build tools: five tools from the index, reused the next time.
if ! [ -e "$tools/complete-5" ]; then
  rm -rf "$tools"
  "$python" -m venv "$tools"
  "$tools/bin/pip" install --quiet 'build>=1.2' 'installer>=1.0' 'setuptools>=77' 'cyclonedx-bom>=7' 'shtab>=1.13'
  touch "$tools/complete-5"
fi
PYTHONPATH=$here/tools PYTHONDONTWRITEBYTECODE=1 exec "$tools/bin/python" -m makepackages "$@"
