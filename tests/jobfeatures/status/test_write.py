import os
import stat

import pytest

from jobfeatures.errors import LockTimeoutError, UnsafePathError
from jobfeatures.status.directory import read_status
from jobfeatures.status.jobstatus import StatusViolation
from jobfeatures.status.write import status_etag, write_status

ME = os.geteuid()


def put(folder, owner_uid=ME, **values):
    content = {name: str(value).encode() for name, value in values.items()}
    return write_status(str(folder), lambda _old: content, owner_uid=owner_uid, allocated_cpus=4)


def test_a_set_is_written_in_place_and_only_if_it_differs(tmp_path):
    put(tmp_path, used_CPU=1, priority_factor=-5)
    first = {path.name: path.stat() for path in tmp_path.iterdir()}
    put(tmp_path, used_CPU=1, priority_factor=-5)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == {
        name: found.st_mtime_ns for name, found in first.items()
    }
    put(tmp_path, used_CPU=2)
    assert (tmp_path / "used_CPU").stat().st_ino == first["used_CPU"].st_ino
    assert read_status(str(tmp_path), owner_uid=ME).values == {"used_CPU": b"2\n"}


def test_a_value_that_stays_keeps_its_time(tmp_path):
    put(tmp_path, used_CPU=1, can_postpone_last_job=True, priority_factor=2)
    os.utime(tmp_path / "can_postpone_last_job", (0, 0))
    put(tmp_path, used_CPU=2, can_postpone_last_job=True, priority_factor=3)
    assert (tmp_path / "can_postpone_last_job").stat().st_mtime == 0
    assert (tmp_path / "priority_factor").read_text() == "3\n"


def test_a_wrong_set_touches_nothing(tmp_path):
    with pytest.raises(StatusViolation):
        put(tmp_path, used_CPU=5)
    assert list(tmp_path.iterdir()) == []


def test_a_tag_tells_sets_apart():
    tags = {
        status_etag(each)
        for each in ({}, {"used_CPU": b"1\n"}, {"used_CPU": b"1"}, {"last_job_start": b"1\n"})
    }
    assert len(tags) == 4
    assert status_etag({"used_CPU": b"1", "last_job_start": b"2"}) == status_etag(
        {"last_job_start": b"2", "used_CPU": b"1"}
    )


@pytest.mark.skipif(ME != 0, reason="only root can give files away")
def test_root_writes_files_that_belong_to_the_job(tmp_path):
    folder = tmp_path / "status"
    folder.mkdir()
    os.chown(folder, 6001, 6001)
    put(folder, owner_uid=6001, used_CPU=1, add_uncom_time=5)
    for path in folder.iterdir():
        found = path.stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (6001, 6001, 0o644)


@pytest.mark.skipif(ME != 0, reason="only root has files that the job has not")
def test_root_writes_into_no_file_that_is_not_the_job_s(tmp_path):
    folder = tmp_path / "status"
    folder.mkdir()
    os.chown(folder, 6001, 6001)
    (folder / "used_CPU").write_text("7\n")
    with pytest.raises(UnsafePathError):
        put(folder, owner_uid=6001, used_CPU=1)
    assert (folder / "used_CPU").read_text() == "7\n"


def test_a_file_that_is_swapped_while_it_is_locked_is_left_alone(tmp_path, monkeypatch):
    put(tmp_path, used_CPU=1)
    monkeypatch.setattr("jobfeatures.status.write.is_still", lambda *_: False)
    with pytest.raises(LockTimeoutError):
        put(tmp_path, used_CPU=2)
    assert (tmp_path / "used_CPU").read_text() == "1\n"
