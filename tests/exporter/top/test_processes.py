"""Whose processes are read: those of this machine, for a daemon that is this machine's."""

import os
import socket

import pytest

from jobfeatures.settings import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.top.processes import LocalProcesses


@pytest.fixture
def local(tmp_path):
    flags = {"path.procfs": str(tmp_path), "path.cgroup": str(tmp_path)}
    (tmp_path / "stat").write_text("cpu  1 2 3 4 5 6 7 8\nbtime 1753000000\n")
    made = LocalProcesses(load_config(ExporterConfig, flags=flags, file=None))
    yield made
    made.close()


def test_a_daemon_is_of_this_machine_by_its_address_and_its_time_of_boot(local, tmp_path):
    booted = 1753000001.0
    assert local.is_of("http://127.0.0.1:9819/metrics", booted)
    assert local.is_of(f"http://{socket.gethostname()}:9819/metrics", booted)
    assert local.is_of("http://[::1]:9819/metrics", booted)
    assert not local.is_of("http://other:9819/metrics", booted)
    assert not local.is_of("http://127.0.0.1:9819/metrics", booted + 60)  # a tunnel to another
    assert not local.is_of("http://127.0.0.1:9819/metrics", None)
    (tmp_path / "stat").unlink()
    assert not local.is_of("http://127.0.0.1:9819/metrics", booted)


def test_all_processes_are_listed():
    local = LocalProcesses(load_config(ExporterConfig, flags={}, file=None))
    assert os.getpid() in local.look().processes
    local.close()
