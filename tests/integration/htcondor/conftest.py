"""A real HTCondor 23.9 with two schedds, and our daemon on its node: one pool for all tests of this folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.condorpool import PACE, Pool, daemon

LABS = Path(__file__).parents[2] / "labs/htcondor"


@pytest.fixture(scope="session")
def pool():
    """Start HTCondor once; stop it at the end unless it was running before."""
    if os.geteuid() != 0:
        pytest.skip("a private HTCondor needs root: its nodes start jobs as other users")
    up = subprocess.run([LABS / "up.sh"], capture_output=True, text=True, timeout=900)
    assert up.returncode == 0, up.stdout + up.stderr
    yield Pool(Path(up.stdout.split()[-1]))
    if "already up" not in up.stdout:
        subprocess.run([LABS / "down.sh"], capture_output=True, timeout=240, check=False)


@pytest.fixture(scope="session")
def node(pool, tmp_path_factory):
    """Return our daemon on its node."""
    log = tmp_path_factory.mktemp("daemon") / "log"
    flags = (
        "--jobs.retain",
        f"{20 * PACE}s",
        "--sample.interval",
        "1s",
        "--batch.interval",
        "5s",
        "--batch.refresh",
        "5s",
    )
    with daemon(pool, log, *flags, "--web.own-socket", "/run/jobfeatures-own.sock") as found:
        yield found


@pytest.fixture(autouse=True)
def empty(request, pool):
    """Leave no job to the next test."""
    yield
    pool.clear()
