"""Values that are kept between requests: whatever happens to a file or its folder, the next read tells what is there."""

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import UnsafePathError
from jobfeatures.publish.http import remotevalues as reading
from jobfeatures.publish.http.remotevalues import MAX_KEPT_BYTES, FeatureReader, HttpValue, has_changed
from tests.held import count_held

KEY = "allocated_cpu"
MODIFIED_SECS = 784111777  # Sun, 06 Nov 1994 08:49:37 GMT


@pytest.fixture
def job(tmp_path):
    folder = tmp_path / "jobfeatures" / "slurm-1"
    folder.mkdir(parents=True)
    (folder / KEY).write_text("4\n")
    return folder


@pytest.fixture
def reader(tmp_path):
    return FeatureReader(str(tmp_path))


@pytest.fixture
def settled(job):
    """Let the time of the file's change lie in the past, as that of most files does."""
    time.sleep(0.03)
    return job


def read(reader):
    return reader.read("slurm-1", KEY).content


def opened(monkeypatch):
    """Return a list that grows with each file that is opened."""
    names = []
    true = reading.open_inside

    def counting(directory, name, flags, mode=0):
        names.append(name)
        return true(directory, name, flags, mode)

    monkeypatch.setattr(reading, "open_inside", counting)
    return names


def test_a_value_that_has_settled_is_opened_once(reader, settled, monkeypatch):
    names = opened(monkeypatch)
    assert {read(reader) for _ in range(5)} == {b"4\n"}
    assert names.count(KEY) == 1


def test_a_value_that_may_change_within_the_tick_is_opened_each_time(reader, job, monkeypatch):
    names = opened(monkeypatch)
    monkeypatch.setattr(reading, "TICK_NS", 10**18)
    assert {read(reader) for _ in range(3)} == {b"4\n"}
    assert names.count(KEY) == 3


def test_a_large_value_is_not_kept(reader, settled, monkeypatch):
    (settled / KEY).write_text("4" * (MAX_KEPT_BYTES + 1))
    time.sleep(0.03)
    names = opened(monkeypatch)
    read(reader), read(reader)
    assert names.count(KEY) == 2


def replace(folder):
    (folder / "new").write_text("5\n")
    os.replace(folder / "new", folder / KEY)


def rewrite(folder):
    (folder / KEY).write_text("6\n")


def rewrite_and_set_the_old_time(folder):
    before = (folder / KEY).stat()
    (folder / KEY).write_text("7\n")
    os.utime(folder / KEY, ns=(before.st_atime_ns, before.st_mtime_ns))


def make_the_folder_anew(folder):
    os.rename(folder, folder.with_name("old"))
    folder.mkdir()
    (folder / KEY).write_text("8\n")


@pytest.mark.parametrize(
    ("change", "content"),
    [
        (replace, b"5\n"),
        (rewrite, b"6\n"),
        (rewrite_and_set_the_old_time, b"7\n"),
        (make_the_folder_anew, b"8\n"),
    ],
)
def test_what_has_changed_is_read_anew(reader, settled, change, content):
    assert read(reader) == b"4\n"
    change(settled)
    assert read(reader) == content


def link_it_elsewhere(folder):
    os.link(folder / KEY, folder.parent / "second")


def put_a_link_there(folder):
    os.rename(folder / KEY, folder / "true")
    (folder / KEY).symlink_to("true")


def put_a_link_for_the_folder(folder):
    os.rename(folder, folder.with_name("true"))
    folder.symlink_to("true")


@pytest.mark.parametrize("change", [link_it_elsewhere, put_a_link_there, put_a_link_for_the_folder])
def test_what_is_not_to_be_read_is_refused_although_it_was_read_before(reader, settled, change):
    assert read(reader) == b"4\n"
    change(settled)
    with pytest.raises((UnsafePathError, OSError)):
        read(reader)


@pytest.mark.parametrize("gone", ["file", "folder"])
def test_what_is_gone_is_gone(reader, settled, gone):
    before = count_held(reader)
    assert read(reader) == b"4\n"
    (settled / KEY).unlink()
    if gone == "folder":
        settled.rmdir()
    with pytest.raises(FileNotFoundError):
        read(reader)
    assert count_held(reader) == before


def test_no_more_values_are_kept_than_allowed(reader, settled, monkeypatch):
    monkeypatch.setattr(reading, "MAX_KEPT", 3)
    for number in range(10):
        (settled / f"key{number}").write_text("1")
    time.sleep(0.03)
    held = []
    for number in range(10):
        reader.read("slurm-1", f"key{number}")
        held.append(count_held(reader))
    assert held[0] < held[1] < held[2]
    assert max(held) == held[2]


@given(
    st.lists(st.tuples(st.sampled_from(["write", "replace", "remove"]), st.binary(min_size=1, max_size=3)))
)
def test_whatever_happens_a_read_gives_what_the_file_holds(tmp_path_factory, steps):
    root = tmp_path_factory.mktemp("tree")
    folder = root / "jobfeatures" / "slurm-1"
    folder.mkdir(parents=True)
    file, reader = folder / KEY, FeatureReader(str(root))
    for step, content in steps:
        if step == "write":
            file.write_bytes(content)
        elif step == "replace":
            (folder / "new").write_bytes(content)
            os.replace(folder / "new", file)
        else:
            file.unlink(missing_ok=True)
        for _ in range(2):
            if file.exists():
                assert read(reader) == file.read_bytes()
            else:
                with pytest.raises(FileNotFoundError):
                    read(reader)


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Tokyo"])
def _zone(request, set_zone):
    set_zone(request.param)


# RFC 9110, 5.6.7: the present form of a date, and the two obsolete ones, all in GMT.
@pytest.mark.usefixtures("_zone")
@pytest.mark.parametrize(
    "date",
    ["Sun, 06 Nov 1994 08:49:{} GMT", "Sunday, 06-Nov-94 08:49:{} GMT", "Sun Nov  6 08:49:{} 1994"],
)
def test_a_date_of_any_form_is_in_gmt(date):
    found = HttpValue(b"4\n", '"x"', MODIFIED_SECS)
    assert has_changed({"If-Modified-Since": date.format(36)}, found)
    assert not has_changed({"If-Modified-Since": date.format(37)}, found)


@pytest.mark.parametrize("text", ["", "x", "Sun, 06 Nov 99999999 08:49:37 GMT", "0" * 2000])
def test_what_is_no_date_does_not_count(text):
    assert has_changed({"If-Modified-Since": text}, HttpValue(b"4\n", '"x"', MODIFIED_SECS))
