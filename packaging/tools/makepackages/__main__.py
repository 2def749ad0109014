"""``packaging/build.sh``: build wheel, source archive, .deb and .rpm, and a list of their contents."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from makepackages.deb import build_deb
from makepackages.files import put, write_checksums
from makepackages.options import CHECKOUT, KINDS, PROGRAMS, make_parser
from makepackages.release import Release, maintainer_of
from makepackages.repository import PROGRAMS as REPOSITORY_PROGRAMS
from makepackages.repository import build_bundle, build_repository
from makepackages.rpm import build_rpm
from makepackages.sbom import write_sbom
from makepackages.source import build_distributions, collect_wheels, copy_checkout, note_revision
from makepackages.tree import make_tree


def main() -> int:
    """Build the requested packages."""
    parser = make_parser()
    arguments = parser.parse_args()
    try:
        maintainer = maintainer_of(os.environ, for_others=arguments.release or arguments.repository)
    except ValueError as error:
        parser.error(str(error))
    kinds = arguments.only.split(",")
    if unknown := [each for each in kinds if each not in KINDS]:
        parser.error(f"--only: {unknown[0]} is not one of {', '.join(KINDS)}")
    for kind in kinds:
        if kind in PROGRAMS and not shutil.which(PROGRAMS[kind]):
            parser.error(
                f"{PROGRAMS[kind]} is not installed; install it, or leave out the {kind} with --only"
            )
    if arguments.repository:
        if not arguments.key:
            parser.error("--repository needs --key: nobody should install what nobody has signed")
        for program, package in REPOSITORY_PROGRAMS.items():
            if not shutil.which(program):
                parser.error(f"{program} is not installed (Debian: {package}), which --repository needs")
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="jobfeatures-packages-") as work:
        made = build(
            Path(work), arguments.out.resolve(), kinds, arguments.revision, maintainer, arguments.extras
        )
    if arguments.repository:
        packages = [each for each in made if each.suffix in {".deb", ".rpm"}]
        made += build_repository(packages, arguments.out.resolve() / "repository", arguments.key)
    for file in [*made, write_checksums(arguments.out)]:
        print(f"{file} {file.stat().st_size}")
    return 0


def build(work: Path, out: Path, kinds: list[str], revision: str, maintainer: str, extras: str) -> list[Path]:
    """Build packages of these kinds; return their files."""
    source, distributions, wheels, tree = (work / name for name in ("source", "dist", "wheels", "tree"))
    for folder in (distributions, wheels, tree):
        folder.mkdir()
    epoch = source_date()
    copy_checkout(CHECKOUT, source)
    if (CHECKOUT / ".git").exists():
        note_revision(CHECKOUT, source)
    wheel, archive = build_distributions(source, distributions, epoch)
    made = [put(each, out) for each in (wheel, archive)] if "wheel" in kinds else []
    if kinds == ["wheel"]:
        return made
    release = release_of(source, revision, maintainer, epoch)
    collected = collect_wheels(wheel, extras, wheels)
    machine = platform.machine()
    if "bundle" in kinds:
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        name = f"jobfeatures-exporter-{release.version}-wheels-{python}-{machine}"
        made.append(build_bundle(collected, name, out, epoch))
    if not set(kinds) & set(PROGRAMS):
        return made
    libraries = make_tree(tree, source, collected, epoch)
    made.append(write_sbom(libraries, source / "pyproject.toml", work / "sbom", out, release.version))
    packaging = source / "packaging"
    functions = (packaging / "scripts/functions.sh").read_text(encoding="utf-8")
    if "deb" in kinds:
        made.append(build_deb(tree, packaging / "deb", functions, release, machine, out))
    if "rpm" in kinds:
        made.append(build_rpm(tree, packaging / "rpm/package.spec", functions, release, machine, out))
    return made


def release_of(source: Path, revision: str, maintainer: str, epoch: int) -> Release:
    """Return the release that a source tree describes."""
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    description = (source / "packaging/etc/description").read_text(encoding="utf-8").strip()
    summary, _, description = description.partition("\n\n")
    return Release(project["version"], revision, summary, description, maintainer, epoch)


def source_date() -> int:
    """Return the timestamp of all files: SOURCE_DATE_EPOCH, else the last commit's, else pyproject.toml's."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    command = ["git", "-C", str(CHECKOUT), "log", "-1", "--format=%ct"]
    if (CHECKOUT / ".git").exists() and shutil.which("git"):
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return int((CHECKOUT / "pyproject.toml").stat().st_mtime)


if __name__ == "__main__":
    sys.exit(main())
