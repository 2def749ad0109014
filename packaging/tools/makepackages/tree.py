"""The files of a package below a staging folder, as they will lie below / where it is installed."""

from __future__ import annotations

import compileall
import gzip
import os
import py_compile
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

from installer import install
from installer.destinations import SchemeDictionaryDestination
from installer.sources import WheelFile

NAME = "jobfeatures-exporter"
PREFIX = f"/opt/{NAME}"
COMMANDS = ("jobfeatures", "jobfeatures-exporter")
HOOKS = ("common", "gridengine", "htcondor", "lsf", "pbs", "slurm", "torque")
# Where files of the project go; what is not there (yet) is left out.
COPIES = {
    "packaging/systemd": "/usr/lib/systemd/system",
    "packaging/etc/sysusers.conf": f"/usr/lib/sysusers.d/{NAME}.conf",
    "packaging/etc/tmpfiles.conf": f"/usr/lib/tmpfiles.d/{NAME}.conf",
    "packaging/etc/web.yml": f"/etc/{NAME}/web.yml",
    "grafana/dashboards": f"{PREFIX}/share/grafana/dashboards",
    "grafana/rules": f"{PREFIX}/share/grafana/rules",
    "docs": f"/usr/share/doc/{NAME}/docs",
    "README.md": f"/usr/share/doc/{NAME}/README.md",
    **{f"packaging/{name}": f"{PREFIX}/{name}" for name in HOOKS},
}
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.py[co]", "generate.py", ".*")


def make_tree(root: Path, checkout: Path, wheels: Sequence[Path], epoch: int) -> None:
    """Fill the folder `root`, which is empty. Every file gets the time `epoch`."""
    libraries = make_environment(root, wheels)
    for source, target in COPIES.items():
        copy(checkout / source, Path(f"{root}{target}"))
    date = time.strftime("%Y-%m-%d", time.gmtime(epoch))
    subprocess.run(
        [sys.executable, "-P", "-m", "makepackages.texts", str(root), date],  # -P: of the tree, not of here
        check=True,
        env={**os.environ, "PYTHONPATH": f"{libraries}:{Path(__file__).parents[1]}"},
    )
    for page in Path(f"{root}/usr/share/man/man1").glob("*.1"):
        compress(page)
    binaries = Path(f"{root}/usr/bin")
    binaries.mkdir(parents=True)
    for command in COMMANDS:
        (binaries / command).symlink_to(f"{PREFIX}/bin/{command}")
    notice = (checkout / "packaging/etc/copyright").read_text(encoding="utf-8")
    Path(f"{root}/usr/share/doc/{NAME}/copyright").write_text(notice + bundled(libraries), encoding="utf-8")
    settle(root, epoch)
    compileall.compile_dir(
        libraries,
        quiet=1,
        stripdir=str(root),
        prependdir="/",
        invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP,
    )
    settle(root, epoch)


def make_environment(root: Path, wheels: Sequence[Path]) -> Path:
    """Install wheels into a virtual environment for PREFIX; return its folder of libraries.

    It is laid out by hand, since `venv` and pip can make one only where they run.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(f"{root}{PREFIX}")
    binaries = base / "bin"
    binaries.mkdir(parents=True)
    (binaries / f"python{version}").symlink_to(f"/usr/bin/python{version}")
    for name in ("python3", "python"):
        (binaries / name).symlink_to(f"python{version}")
    (base / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {version}\n", encoding="ascii"
    )
    libraries = f"{PREFIX}/lib/python{version}/site-packages"
    places = {"purelib": libraries, "platlib": libraries, "scripts": f"{PREFIX}/bin", "data": PREFIX}
    destination = SchemeDictionaryDestination(
        {**places, "headers": f"{PREFIX}/include"},
        interpreter=f"{PREFIX}/bin/python3",
        script_kind="posix",
        destdir=str(root),
    )
    for wheel in wheels:
        with WheelFile.open(wheel) as source:
            install(source, destination, additional_metadata={"INSTALLER": NAME.encode()})
    return Path(f"{root}{libraries}")


def bundled(libraries: Path) -> str:
    """Return what libraries the environment has, and their licences as they state them."""
    lines = []
    for name, version, metadata in metadata_of(libraries):
        classifiers = [each for each in metadata.get_all("Classifier", []) if each.startswith("License ::")]
        stated = metadata["License-Expression"] or ", ".join(each.split(" :: ")[-1] for each in classifiers)
        lines.append(f"  {name} {version}: {stated or metadata['License'] or 'see its files'}\n")
    return "".join(lines)


def metadata_of(libraries: Path) -> list[tuple[str, str, Message]]:
    """Return name, version and metadata of each library but ours."""
    found = []
    for file in sorted(libraries.glob("*.dist-info/METADATA")):
        metadata = HeaderParser().parsestr(file.read_text(encoding="utf-8"))
        if metadata["Name"] != NAME:
            found.append((metadata["Name"], metadata["Version"], metadata))
    return found


def copy(source: Path, target: Path) -> None:
    """Copy a file or folder with the links in it; nothing if it is not there."""
    if source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=LEFT_OUT)
    elif source.is_file():
        shutil.copyfile(source, target)


def compress(file: Path) -> None:
    """Replace a file by its compressed form, without name and time in it."""
    file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))
    file.unlink()


def settle(root: Path, epoch: int) -> None:
    """Give all files plain modes and one time, so that the same source makes the same package."""
    for path in sorted(root.rglob("*"), reverse=True):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if executable else 0o644)
        os.utime(path, (epoch, epoch), follow_symlinks=False)
