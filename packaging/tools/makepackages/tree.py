"""Lays out a package's files below a staging folder, as they will be below / once installed."""

from __future__ import annotations

import compileall
import io
import os
import py_compile
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from installer import install
from installer.destinations import SchemeDictionaryDestination
from installer.records import RecordEntry
from installer.sources import WheelFile
from installer.utils import Scheme

from makepackages.files import compress, copy, settle
from makepackages.layout import COMMANDS, COPIES, NAME, PREFIX, bundled


def make_tree(root: Path, checkout: Path, wheels: Sequence[Path], epoch: int) -> Path:
    """Fill the empty folder `root` with files of the timestamp `epoch`; return its folder of libraries."""
    libraries = make_environment(root, wheels)
    for source, target in COPIES.items():
        copy(checkout / source, Path(f"{root}{target}"))
    date = time.strftime("%Y-%m-%d", time.gmtime(epoch))
    subprocess.run(
        [sys.executable, "-P", "-m", "makepackages.texts", str(root), date],  # -P: import from the tree only
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
    return libraries


class Destination(SchemeDictionaryDestination):
    """A folder for wheels. Their commands ignore PYTHONHOME and PYTHONPATH, which modules set in jobs."""

    def write_to_fs(self, scheme: Scheme, path: str, stream: BinaryIO, is_executable: bool) -> RecordEntry:
        """Write a file; a script's first line starts Python in isolated mode."""
        if scheme == "scripts":
            start = f"#!{self.interpreter}".encode()
            stream = io.BytesIO(stream.read().replace(start + b"\n", start + b" -I\n", 1))
        return super().write_to_fs(scheme, path, stream, is_executable)


def make_environment(root: Path, wheels: Sequence[Path]) -> Path:
    """Install wheels into a virtual environment for PREFIX; return its folder of libraries.

    It is built by hand, since `venv` and pip can create one only at the path where it will be used.
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
    destination = Destination(
        {**places, "headers": f"{PREFIX}/include"},
        interpreter=f"{PREFIX}/bin/python3",
        script_kind="posix",
        destdir=str(root),
    )
    for wheel in wheels:
        with WheelFile.open(wheel) as source:
            install(source, destination, additional_metadata={"INSTALLER": NAME.encode()})
    return Path(f"{root}{libraries}")
