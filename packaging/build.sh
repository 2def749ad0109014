#!/bin/bash
# Build the packages in dist/ (or in --out FOLDER): wheel, source archive, a bundle of all wheels, .deb and .rpm;
# with --repository --key KEY also a signed repository of them for apt and dnf. docs/install.md. Needs dpkg-deb,
# rpmbuild, and the Python on which the packages' environment will stand, with venv:
#   apt-get install --no-install-recommends python3.11 python3.11-venv dpkg-dev rpm clang llvm
# (without clang, which llvm makes smaller objects for, their exporter reads processes from /proc only), and for
# the repository gpg and createrepo-c.
# PYTHON chooses another, such as /usr/bin/python3.13; the packages then ask for that one. Libraries come
# from where pip finds them, as its configuration says (PIP_CONSTRAINT pins them).
set -euo pipefail
umask 022
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-/usr/bin/python3.11}
tools=${JOBFEATURES_BUILD_TOOLS:-$here/../build/tools-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')}

# An own environment for what builds: four tools from the index, kept for the next time.
if ! [ -e "$tools/complete-4" ]; then
  rm -rf "$tools"
  "$python" -m venv "$tools"
  "$tools/bin/pip" install --quiet 'build>=1.2' 'installer>=1.0' 'setuptools>=77' 'cyclonedx-bom>=7'
  touch "$tools/complete-4"
fi
PYTHONPATH=$here/tools PYTHONDONTWRITEBYTECODE=1 exec "$tools/bin/python" -m makepackages "$@"
