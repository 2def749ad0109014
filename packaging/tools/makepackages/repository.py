"""A signed repository for apt and dnf in one folder, and a bundle of wheels for pip without an index."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
import tarfile
import time
from collections.abc import Sequence
from email.utils import formatdate
from pathlib import Path

from makepackages.layout import NAME

PROGRAMS = {
    "gpg": "gpg",
    "dpkg-scanpackages": "dpkg-dev",
    "createrepo_c": "createrepo-c",
    "rpmsign": "rpm",
}
REPO = """\
[{name}]
name={name}
# The URL of this folder; on a shared file system, file:///srv/repository/rpm will do.
baseurl=https://repository.example.org/rpm
enabled=1
gpgcheck=1
repo_gpgcheck=1
gpgkey=file:///etc/pki/rpm-gpg/{name}.asc
"""
SOURCES = """\
Types: deb
# The URL of this folder; on a shared file system, file:/srv/repository/deb will do.
URIs: https://repository.example.org/deb
Suites: ./
Signed-By: /etc/apt/keyrings/{name}.asc
"""


def build_repository(packages: Sequence[Path], folder: Path, key: str) -> list[Path]:
    """Add packages to the repository in a folder, which is created if necessary, and sign it.

    `key` is an id, fingerprint or address of a secret key in the builder's own keyring. Earlier packages
    stay in the repository, so that nodes can go back to an earlier version.
    """
    debs, rpms = folder / "deb", folder / "rpm"
    for place in (debs, rpms):
        place.mkdir(parents=True, exist_ok=True)
    for file in packages:
        shutil.copyfile(file, (rpms if file.suffix == ".rpm" else debs) / file.name)
    public = folder / f"{NAME}.asc"
    public.write_bytes(_gpg("--armor", "--export", key))
    _sign_debs(debs, key)
    _sign_rpms(rpms, key, [rpms / each.name for each in packages if each.suffix == ".rpm"])
    (debs / f"{NAME}.sources").write_text(SOURCES.format(name=NAME), encoding="ascii")
    (rpms / f"{NAME}.repo").write_text(REPO.format(name=NAME), encoding="ascii")
    return [public, debs / "InRelease", rpms / "repodata/repomd.xml"]


def _sign_debs(folder: Path, key: str) -> None:
    scan = ["dpkg-scanpackages", "--multiversion", "."]
    index = subprocess.run(scan, check=True, cwd=folder, capture_output=True).stdout
    (folder / "Packages").write_bytes(index)
    (folder / "Packages.gz").write_bytes(gzip.compress(index, mtime=0))
    sums = [
        f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}"
        for name in ("Packages", "Packages.gz")
        for data in [(folder / name).read_bytes()]
    ]
    head = [f"Origin: {NAME}", f"Label: {NAME}", f"Date: {formatdate(time.time(), usegmt=True)}", "SHA256:"]
    release = "\n".join([*head, *sums, ""]).encode()
    (folder / "Release").write_bytes(release)
    for name, flags in (("Release.gpg", ["--armor", "--detach-sign"]), ("InRelease", ["--clear-sign"])):
        (folder / name).write_bytes(_gpg(*flags, "--local-user", key, data=release))


def _sign_rpms(folder: Path, key: str, added: Sequence[Path]) -> None:
    if added:
        defined = ("--define", f"_gpg_name {key}", "--define", f"__gpg {shutil.which('gpg')}")
        command = ["rpmsign", *defined, "--addsign", *map(str, added)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["createrepo_c", "--quiet", str(folder)], check=True)
    index = folder / "repodata/repomd.xml"
    signature = _gpg("--armor", "--detach-sign", "--local-user", key, data=index.read_bytes())
    index.with_name("repomd.xml.asc").write_bytes(signature)


def _gpg(*flags: str, data: bytes = b"") -> bytes:
    command = ["gpg", "--batch", "--yes", *flags]
    return subprocess.run(command, check=True, input=data, stdout=subprocess.PIPE).stdout


def build_bundle(wheels: Sequence[Path], name: str, out: Path, epoch: int) -> Path:
    """Put wheels into one archive; once unpacked, `pip install --no-index --find-links` uses its folder."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime, member.mode = epoch, 0o644
        return member

    partial = out / f".{name}.tar.part"
    with tarfile.open(partial, "w") as archive:
        for wheel in sorted(wheels):
            archive.add(wheel, f"{name}/{wheel.name}", filter=plain)
    return partial.replace(out / f"{name}.tar")
