import errno
import os
import resource

import pytest

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.descriptors import (
    CALM_SAMPLES,
    RESERVE,
    STEP,
    DescriptorBudget,
    KeptFile,
    Unreadable,
    read_file,
    read_text,
)


@pytest.fixture
def limits(monkeypatch):
    """Return the limits [soft, hard], which setrlimit changes instead of the real ones."""
    state = [4096, 16384]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(state))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: state.__setitem__(slice(None), list(new)))
    return state


def taken(budget: DescriptorBudget, most: int = 10_000) -> int:
    count = 0
    while count < most and budget.take():
        count += 1
    return count


def test_the_soft_limit_is_raised_no_further_than_needed(limits):
    budget = DescriptorBudget()
    assert taken(budget, 4096 - RESERVE) == 4096 - RESERVE
    assert limits == [4096, 16384]
    assert budget.take()
    assert 4096 < limits[0] <= 5120


def test_a_reserve_is_left_below_the_hard_limit(limits):
    budget = DescriptorBudget()
    assert taken(budget, 20_000) == 16384 - RESERVE
    assert limits == [16384, 16384]
    assert budget.refused == 1
    assert not budget.take()
    assert budget.refused == 2


def test_at_the_limit_files_that_are_read_at_each_look_take_the_place_of_those_that_are_read_rarely(tmp_path):
    budget = DescriptorBudget(max_open=3)
    files = {}
    for name in ("limit", "cpuset", "usage", "stat", "quota", "io"):
        (tmp_path / name).write_text("1\n")
        files[name] = KeptFile(str(tmp_path / name), budget)
    for name in ("limit", "cpuset"):
        files[name].read(rarely=True)
    files["usage"].read()
    assert budget.kept == {"always": 1, "rarely": 2}
    files["stat"].read()  # in the place of the limit
    assert (budget.kept, budget.refused) == ({"always": 2, "rarely": 1}, 0)
    files["quota"].read(rarely=True)  # among equals who came first stays
    assert (budget.kept, budget.refused) == ({"always": 2, "rarely": 1}, 1)
    files["limit"].close()
    assert budget.open == 3
    files["io"].read()
    assert budget.kept == {"always": 3, "rarely": 0}
    files["cpuset"].read(rarely=True)
    assert (budget.kept, budget.refused) == ({"always": 3, "rarely": 0}, 2)
    for file in files.values():
        assert file.read() == b"1\n"
        file.close()
    assert budget.kept == {"always": 0, "rarely": 0}


def test_a_file_that_is_read_rarely_by_now_gives_way_too(tmp_path):
    budget = DescriptorBudget(max_open=1)
    for name in ("io", "stat"):
        (tmp_path / name).write_text("1\n")
    sleeper, other = (KeptFile(str(tmp_path / name), budget) for name in ("io", "stat"))
    sleeper.read()
    other.read()
    assert (budget.kept, budget.refused) == ({"always": 1, "rarely": 0}, 1)
    sleeper.read(rarely=True)
    other.read()
    assert (budget.kept, budget.refused) == ({"always": 1, "rarely": 0}, 1)
    assert sleeper.read() == b"1\n"
    assert budget.refused == 2
    other.close()


def test_a_small_limit_is_shared_by_halves(limits):
    limits[:] = [64, 64]
    assert taken(DescriptorBudget()) == 32


def test_the_reserve_is_there_before_the_first_file_is_kept(limits):
    limits[0] = 1024  # as systemd gives it to a service
    assert DescriptorBudget().take()
    assert limits[0] > RESERVE


def test_an_unlimited_hard_limit_is_no_number(limits):
    limits[1] = resource.RLIM_INFINITY
    assert taken(DescriptorBudget()) == 10_000
    assert limits[1] == resource.RLIM_INFINITY


def test_max_open_bounds_and_raises_nothing(limits):
    budget = DescriptorBudget(5)
    assert taken(budget) == 5
    budget.give(2)
    assert taken(budget) == 2
    assert limits == [4096, 16384]


def test_where_raising_is_forbidden_the_soft_limit_counts(limits, monkeypatch):
    def forbidden(*_):
        raise ValueError

    monkeypatch.setattr(resource, "setrlimit", forbidden)
    assert taken(DescriptorBudget()) == 4096 // 2


def test_a_shrunk_budget_stays_small_and_grows_back_when_all_has_been_calm(limits):
    budget = DescriptorBudget()
    assert taken(budget, 10) == 10
    budget.shrink()
    assert not budget.take()
    budget.give()
    assert budget.take()
    for _ in range(CALM_SAMPLES):
        budget.begin_sample()
        assert not budget.take()
    budget.begin_sample()
    assert taken(budget) == STEP
    budget.shrink()
    for _ in range(CALM_SAMPLES):
        budget.begin_sample()
    assert not budget.take()
    for _ in range(16384 // STEP):
        budget.begin_sample()
    taken(budget, 20_000)
    assert budget.open == 16384 - RESERVE


def test_failures_are_counted_by_kind_and_vanishing_is_none():
    unreadable = Unreadable()
    for number in (errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.EACCES, errno.EIO, errno.EIO):
        unreadable.add("thing", OSError(number, "x"))
    unreadable.add("thing", ParseError("x"))
    assert unreadable.counts == {"thing_eacces": 1, "thing_eio": 2, "thing_garbage": 1}


def test_a_kept_file_shows_its_changes_and_survives_replacement(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"one")
    budget = DescriptorBudget()
    kept = KeptFile(str(path), budget)
    assert kept.read() == b"one"
    assert budget.open == 1
    path.write_bytes(b"two")
    assert kept.read() == b"two"
    kept.close()
    kept.close()
    assert budget.open == 0
    path.unlink()
    with pytest.raises(FileNotFoundError):
        kept.read()


def test_a_kept_file_may_be_longer_than_its_first_read(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10_000)
    assert KeptFile(str(path), DescriptorBudget(0)).read() == b"x" * 10_000


def test_a_kept_file_whose_group_was_made_anew_is_opened_again(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"one")
    kept = KeptFile(str(path), DescriptorBudget())
    kept.read()
    path.unlink()
    path.write_bytes(b"two")
    real = os.pread

    def fake(_descriptor, *_):
        monkeypatch.setattr(os, "pread", real)
        raise OSError(errno.ENODEV, "gone")

    monkeypatch.setattr(os, "pread", fake)
    assert kept.read() == b"two"
    kept.close()


def test_beyond_the_budget_nothing_stays_open(tmp_path, open_descriptors):
    path = tmp_path / "file"
    path.write_bytes(b"one")
    before = open_descriptors()
    assert KeptFile(str(path), DescriptorBudget(0)).read() == b"one"
    assert open_descriptors() == before


def test_pipes_links_directories_and_giants_are_errors_and_nothing_hangs(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "target").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "directory").mkdir()
    (tmp_path / "giant").write_bytes(b"x" * 100)
    assert read_file(str(tmp_path / "pipe")) == b""
    for name, number in (("link", errno.ELOOP), ("directory", errno.EISDIR), ("giant", errno.EFBIG)):
        with pytest.raises(OSError) as error:  # noqa: PT011  # the number is checked below
            read_file(str(tmp_path / name), max_bytes=99)
        assert error.value.errno == number
    with pytest.raises(OSError, match="seek"):
        KeptFile(str(tmp_path / "pipe"), DescriptorBudget()).read()


def test_what_comes_short_is_read_to_the_end_of_its_line(tmp_path, monkeypatch):
    """Half a number is another number; the kernel's texts end with a newline."""
    path = tmp_path / "memory.current"
    path.write_bytes(b"4096\n")
    kept, reads, pread = KeptFile(str(path), DescriptorBudget()), [], os.pread

    def come_short(descriptor, size, offset):
        reads.append(offset)
        return pread(descriptor, min(size, 3), offset)

    assert kept.read() == b"4096\n"
    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", come_short)
        assert kept.read() == b"4096\n"
        assert reads[-1] == 3
        path.write_bytes(b"no end of a line")
        assert kept.read() == b"no end of a line"
    kept.close()


def test_what_fails_is_none_and_counted_but_for_what_has_gone(tmp_path):
    unreadable = Unreadable()
    assert unreadable.tried("x", read_text, f"{tmp_path}/none") is None
    assert unreadable.tried("x", read_text, str(tmp_path)) is None
    (tmp_path / "file").write_bytes(b"a\xff\n")
    assert unreadable.tried("x", read_text, f"{tmp_path}/file") == "a\ufffd\n"
    assert unreadable.counts == {"x_eisdir": 1}
