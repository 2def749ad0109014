"""Slurm 26.05 in a virtual machine with control groups v2 alone, where a script of tests/labs/slurm plays jobs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SUITE = Path(__file__).parents[1] / "labs/slurm/suite.sh"


def play_in_machine(lab: Path, script: str, *arguments: str) -> dict[str, Any]:
    """Boot the machine, run the script there, and return what it has seen; `lab` is a folder to be made."""
    if os.geteuid() != 0:
        pytest.skip("a private Slurm needs root: slurmd starts jobs as other users")
    if not shutil.which("debootstrap") or not shutil.which("linux.uml"):
        pytest.skip("needs debootstrap and user-mode-linux")
    for folder in lab.parents[:3]:
        folder.chmod(0o755)  # alice is to reach it
    environ = {**os.environ, "UML_TIMEOUT": "1200"}
    command = [SUITE, "machine", "sid", lab, "python3", f"/opt/lab/slurm/{script}", "/mnt", *arguments]
    try:
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=1400)
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
        print(done.stdout)
        return json.loads((lab / "share/seen.json").read_text())
    finally:
        subprocess.run([SUITE, "down", lab], check=True)
