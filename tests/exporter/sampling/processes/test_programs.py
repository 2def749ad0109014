"""The paths of programs: of this process, and of made-up ones."""

import os
import sys
from pathlib import Path

import pytest

from jobfeatures_exporter.model.snapshot import ProcessSample
from jobfeatures_exporter.sampling.processes.programs import MAX_BYTES, read_program


def process(pid, command):
    return ProcessSample(
        pid=pid, ppid=1, pgid=pid, session=pid, start_ticks=7, command=command, state="S", user_ticks=0,
        system_ticks=0, children_user_ticks=0, children_system_ticks=0, threads=1, resident_bytes=0, virtual_bytes=0,
    )  # fmt: skip


def test_this_process_runs_its_python():
    command = Path("/proc/self/comm").read_text().rstrip("\n")
    assert read_program("/proc", process(os.getpid(), command)) == os.path.realpath(sys.executable)


@pytest.mark.parametrize(
    ("link", "path"),
    [
        (b"/opt/a b/x", "/opt/a b/x"),
        (b"/opt/x (deleted)", "/opt/x"),
        (b'/opt/\xff\n"', '/opt/\ufffd\n"'),
        (b"/" + b"x" * MAX_BYTES, None),  # a user chooses it, and each page would have it
    ],
)
def test_a_path_is_a_text_of_bounded_length(tmp_path, link, path):
    folder = os.fsencode(tmp_path) + b"/9"
    os.mkdir(folder)
    os.symlink(link, folder + b"/exe")
    (tmp_path / "9/comm").write_text("x\n")
    assert read_program(str(tmp_path), process(9, "x")) == path
    assert read_program(str(tmp_path), process(9, "sh")) is None  # it has become another program meanwhile
    assert read_program(str(tmp_path), process(10, "x")) is None
