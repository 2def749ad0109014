"""What is in the packages, as a software bill of materials: CycloneDX in JSON, made by cyclonedx-bom."""

from __future__ import annotations

import platform
import subprocess
import sys
import venv
from pathlib import Path

from makepackages.files import put
from makepackages.layout import NAME


def write_sbom(libraries: Path, project: Path, work: Path, out: Path, version: str) -> Path:
    """List the libraries of a package's environment, with licences; the same bytes for the same libraries."""
    venv.create(work, symlinks=True)
    [packages] = work.glob("lib/python3*/site-packages")
    (packages / "libraries.pth").write_text(f"{libraries}\n", encoding="utf-8")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    made = work / f"{NAME}-{version}-{python}-{platform.machine()}.cdx.json"
    command = [
        sys.executable,
        "-m",
        "cyclonedx_py",
        "environment",
        "--output-reproducible",
        "--output-format",
        "JSON",
    ]
    command += [
        "--pyproject",
        str(project),
        "--mc-type",
        "application",
        "--output-file",
        str(made),
        str(work),
    ]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return put(made, out)
