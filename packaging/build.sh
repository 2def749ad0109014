#!/bin/bash
# Build the packages in dist/ (or in --out FOLDER): wheel, source archive, a bundle of all wheels, .deb and .rpm;
# with --repository --key KEY also a signed repository of them for apt and dnf. docs/install.md. Needs dpkg-deb,
# rpmbuild, and the Python that the packages' environment will use, with venv:
#   apt-get install --no-install-recommends python3.11 python3.11-venv dpkg-dev rpm clang llvm
# (without clang, the packages' exporter reads processes from /proc only; llvm makes clang's objects smaller),
# and for the repository gpg and createrepo-c.
# PYTHON chooses another Python, such as /usr/bin/python3.13; the packages then depend on that one. pip's
# configuration determines where libraries come from (PIP_CONSTRAINT pins them).
set -euo pipefail
umask 022
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-/usr/bin/python3.11}
tools=${JOBFEATURES_BUILD_TOOLS:-$here/../build/tools-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')}

# A separate environment for the build tools: four tools from the index, reused the next time.
if ! [ -e "$tools/complete-4" ]; then
  rm -rf "$tools"
  "$python" -m venv "$tools"
  "$tools/bin/pip" install --quiet 'build>=1.2' 'installer>=1.0' 'setuptools>=77' 'cyclonedx-bom>=7'
  touch "$tools/complete-4"
fi
PYTHONPATH=$here/tools PYTHONDONTWRITEBYTECODE=1 exec "$tools/bin/python" -m makepackages "$@"
