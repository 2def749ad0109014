"""The package for Red Hat and similar systems."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from makepackages.files import files_of, put, settle
from makepackages.layout import COMMANDS, NAME, PREFIX, metadata_of
from makepackages.release import Release, date_of

ZSH_OF_DEBIAN = "usr/share/zsh/vendor-completions"
ZSH = "usr/share/zsh/site-functions"
GROUP = "jobfeatures"
PRIVATE = f"/etc/{NAME}/web.yml"  # may hold hashes of passwords


def build_rpm(tree: Path, spec: Path, functions: str, release: Release, machine: str, out: Path) -> Path:
    """Build the package of a tree, which is not changed; return the package's file."""
    work = tree.with_name("rpm")
    staged = work / "staged"
    shutil.copytree(tree, staged, symlinks=True)
    (staged / ZSH).parent.mkdir(parents=True, exist_ok=True)
    (staged / ZSH_OF_DEBIAN).rename(staged / ZSH)
    settle(staged, release.epoch)
    libraries = next((staged / PREFIX[1:] / "lib").glob("python*/site-packages"))
    python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    values = {
        "name": NAME,
        "version": release.version,
        "revision": release.revision,
        "summary": release.summary,
        "description": release.description,
        "maintainer": release.maintainer,
        "date": date_of(release.epoch),
        "python": python,
        "staged": str(staged),
        "files": "\n".join(files_section(staged)),
        "bundled": "\n".join(
            f"Provides: bundled(python3-{name.lower()}) = {version}"
            for name, version, _ in metadata_of(libraries)
        ),
        "functions": functions,
    }
    text = spec.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    file = work / f"{NAME}.spec"
    file.write_text(text, encoding="utf-8")
    command = ["rpmbuild", "-bb", "--quiet", "--target", f"{machine}-linux"]
    subprocess.run(
        [*command, "--define", f"_topdir {work}/rpmbuild", str(file)],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(release.epoch)},
    )
    [made] = (work / "rpmbuild/RPMS").rglob("*.rpm")
    return put(made, out)


def files_section(staged: Path) -> list[str]:
    """Return the lines of %files: folders that only this package owns, and single files elsewhere."""
    lines = [PREFIX, *(f"/usr/bin/{command}" for command in COMMANDS), f"%dir /etc/{NAME}"]
    for path in files_of(staged / "etc"):
        name = f"/{path.relative_to(staged)}"
        rights = f"%attr(0640, root, {GROUP}) " if name == PRIVATE else ""
        lines.append(f"%config(noreplace) {rights}{name}")
    lines.append(f"%doc /usr/share/doc/{NAME}")
    for folder in ("fish", "fish/vendor_completions.d", "zsh", "zsh/site-functions"):
        lines.append(f"%dir /usr/share/{folder}")  # of a shell that may not be installed
    for folder in ("lib", "share/man", "share/bash-completion", "share/zsh", "share/fish"):
        lines += [f"/{each.relative_to(staged)}" for each in files_of(staged / "usr" / folder)]
    return lines
