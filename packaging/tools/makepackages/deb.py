"""The package for Debian and similar systems."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from email.utils import formatdate
from pathlib import Path

from makepackages.files import compress, files_of, put, settle
from makepackages.layout import NAME
from makepackages.release import Release
from makepackages.source import NEWEST_GLIBC

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64el", "i686": "i386"}
OVERRIDES = f"""\
# The package brings its own environment and libraries, which is what /opt is for ...
{NAME} binary: dir-or-file-in-opt
{NAME} binary: wrong-path-for-interpreter
{NAME} binary: python3-script-but-no-python3-dep
# ... complete with byte code, since nothing may be written there later ...
{NAME} binary: package-installs-python-pycache-dir
# ... as their authors published them, signed by the hashes in RECORD.
{NAME} binary: unstripped-binary-or-object
{NAME} binary: embedded-library
{NAME} binary: script-not-executable *prometheus_client*
{NAME} binary: unusual-interpreter python *prometheus_client*
# BPF objects run in the kernel and have no machine's architecture.
{NAME} binary: binary-from-other-architecture
# Only if it is installed and systemd runs; the same lines are in the rpm.
{NAME} binary: maintainer-script-calls-systemctl
# Of its own files, in whose stead others stay when it is removed; one by --package spares that package's own.
{NAME} binary: package-uses-local-diversion
# This package is not distributed by Debian.
{NAME} binary: initial-upload-closes-no-bugs
"""


def build_deb(tree: Path, scripts: Path, functions: str, release: Release, machine: str, out: Path) -> Path:
    """Build the package of a tree, which is not changed; return the package's file."""
    architecture = ARCHITECTURES.get(machine, machine)
    staged = tree.with_name("deb")
    shutil.copytree(tree, staged, symlinks=True)
    _add_documents(staged, release)
    control = staged / "DEBIAN"
    control.mkdir()
    (control / "control").write_text(write_control(staged, release, architecture), encoding="utf-8")
    (control / "conffiles").write_text(
        "".join(f"/{each.relative_to(staged)}\n" for each in files_of(staged / "etc")), encoding="ascii"
    )
    installed = [each for each in files_of(staged) if each.parent != control]
    sums = "".join(f"{_md5(each)}  {each.relative_to(staged)}\n" for each in installed)
    (control / "md5sums").write_text(sums, encoding="utf-8")
    for name in ("postinst", "prerm", "postrm"):
        file = control / name
        text = (scripts / name).read_text(encoding="utf-8")
        file.write_text(text.replace("#functions#\n", functions), encoding="utf-8")
        file.chmod(0o755)
    file_name = f"{NAME}_{release.version}-{release.revision}_{architecture}.deb"
    made = tree.with_name(file_name)
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "--build", str(staged), str(made)],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(release.epoch)},
    )
    return put(made, out)


def write_control(staged: Path, release: Release, architecture: str) -> str:
    """Return the text of the control file."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    size = sum((each.stat().st_size + 1023) // 1024 for each in files_of(staged))
    fields = {
        "Package": NAME,
        "Version": f"{release.version}-{release.revision}",
        "Architecture": architecture,
        "Maintainer": release.maintainer,
        "Installed-Size": str(size),
        "Depends": f"{python}, libc6 (>= {NEWEST_GLIBC[0]}.{NEWEST_GLIBC[1]}), passwd",
        "Recommends": "libbpf1 | libbpf0",  # for summing processes' usage in the kernel
        "Section": "admin",
        "Priority": "optional",
        "Description": f"{release.summary}\n" + _indented(release.description),
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def _add_documents(staged: Path, release: Release) -> None:
    """Add what Debian requires: a changelog of the package, and overrides for lintian."""
    changelog = staged / f"usr/share/doc/{NAME}/changelog.Debian"
    changelog.write_text(
        f"{NAME} ({release.version}-{release.revision}) stable; urgency=medium\n\n"
        f"  * Version {release.version}: see docs and CHANGELOG.md.\n\n"
        f" -- {release.maintainer}  {formatdate(release.epoch)}\n",
        encoding="utf-8",
    )
    compress(changelog)
    overrides = staged / f"usr/share/lintian/overrides/{NAME}"
    overrides.parent.mkdir(parents=True)
    overrides.write_text(OVERRIDES, encoding="ascii")
    settle(staged, release.epoch)


def _indented(text: str) -> str:
    return "\n".join(f" {line}" if line.strip() else " ." for line in text.splitlines())


def _md5(file: Path) -> str:
    return hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
