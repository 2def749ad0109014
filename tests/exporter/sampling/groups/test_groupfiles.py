import errno
import itertools
import os
from pathlib import Path

import pytest

from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.groups.groupfiles import (
    ABSENT,
    MAX_GAP_SAMPLES,
    GroupFiles,
    read_processes,
)
from jobfeatures_exporter.sampling.parsers.cgroupfiles import parse_number


@pytest.fixture
def unreadable():
    return Unreadable()


@pytest.fixture
def files(unreadable):
    files = GroupFiles(DescriptorBudget(), unreadable, first_number=1)
    yield files
    files.close()


def number(text):
    return parse_number(text, source="x")


def test_a_file_is_read_again_at_every_look_and_parsed_when_it_has_changed(files, tmp_path):
    path = tmp_path / "memory.current"
    path.write_text("1\n")
    parsed = []

    def parse(text):
        parsed.append(text)
        return number(text)

    file = files.file(str(path), parse)
    for text in ("1\n", "1\n", "2\n", "1\n"):
        path.write_text(text)
        assert file.value_or_absent() == int(text)
    assert parsed == ["1\n", "2\n", "1\n"]


def test_a_file_that_is_not_there_is_asked_for_more_and_more_rarely(files, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "jobfeatures_exporter.sampling.groups.groupfiles.GroupFile.read",
        lambda file, **_: (
            asked.append(file.path) or (_ for _ in ()).throw(FileNotFoundError(errno.ENOENT, "x"))
        ),
    )
    looks = []
    file = files.file("/nowhere", number)
    for look in range(1, 300):
        assert file.value_or_absent() is ABSENT
        if len(asked) > len(looks):
            looks.append(look)
        files.number += 1
    assert looks == [1, 2, 4, 8, 16, 32, 64, 128, 192, 256]
    assert max(after - before for before, after in itertools.pairwise(looks)) == MAX_GAP_SAMPLES


def test_a_controller_that_is_enabled_later_is_noticed(files, tmp_path, unreadable):
    path = tmp_path / "io.stat"
    file = files.file(str(path), number)
    for _ in range(10):
        assert file.value_or_absent() is ABSENT
        files.number += 1
    path.write_text("7\n")
    found = []
    for _ in range(MAX_GAP_SAMPLES):
        found.append(file.value_or_absent())
        files.number += 1
    assert found[-1] == 7
    assert unreadable.counts == {}


@pytest.mark.parametrize(
    ("number_", "kinds"),
    [
        (errno.EACCES, {"job_cpu_pressure_eacces": 1}),
        (errno.EIO, {"job_cpu_pressure_eio": 1}),
        (errno.EOPNOTSUPP, {}),  # a kernel that was started without pressure
        (errno.ENODEV, {}),
    ],
)
def test_what_cannot_be_read_is_counted_and_what_is_not_offered_is_not(
    files, tmp_path, unreadable, fail_opening, number_, kinds
):
    (tmp_path / "cpu.pressure").write_text("1\n")
    fail_opening("cpu.pressure", number_)
    assert files.file(str(tmp_path / "cpu.pressure"), number).value_or_absent() is (None if kinds else ABSENT)
    assert files.file(str(tmp_path / "nothing"), number).known() is None
    assert unreadable.counts == kinds


def test_files_of_a_directory_that_has_gone_are_closed(tmp_path, unreadable):
    budget = DescriptorBudget()
    files = GroupFiles(budget, unreadable)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("1\n")
        files.file(str(tmp_path / name / "x"), number).value_or_absent()
    files.forget(str(tmp_path / "a"))
    assert budget.open == 1
    files.close()
    assert budget.open == 0


def test_the_real_kernel_tells_no_processes_of_a_threaded_group(tmp_path):
    """Nor does it of `domain invalid` beside it; the leader stands in the group above."""
    group = Path(f"/sys/fs/cgroup/unified/jobfeatures-test-{os.getpid()}-{tmp_path.name}")
    try:
        (group / "threads").mkdir(parents=True)
        (group / "threads/cgroup.type").write_text("threaded")
    except OSError:
        pytest.skip("no control group can be made here: needs root and a mounted hierarchy")
    try:
        with pytest.raises(OSError, match="not supported"):
            (group / "threads/cgroup.procs").read_bytes()
        assert read_processes(str(group / "threads")) == read_processes(str(group)) == b""
        with pytest.raises(OSError, match="No such file"):
            read_processes(str(group / "other"))
    finally:
        (group / "threads").rmdir()
        group.rmdir()
