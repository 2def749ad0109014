"""Changes are looked at when the kernel reports them, and otherwise at intervals."""

import os
import threading
import time

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures.status import keeper as module
from jobfeatures.status.board import StatusBoard, StatusTarget
from jobfeatures.status.keeper import StatusKeeper
from jobfeatures.system import inotify
from jobfeatures.system.clock import SystemClock
from tests.running import NO_INOTIFY, count_watches, until

HOUR = 3600.0
ONE, TWO = JobKey("slurm", "1"), JobKey("slurm", "2")


@pytest.fixture
def jobs(tmp_path):
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
    return {key: StatusTarget(str(tmp_path / key.job_id), os.getuid(), 8) for key in (ONE, TWO)}


class CountingBoard(StatusBoard):
    """Counts the rounds of its keeper."""

    rounds = 0

    def refresh(self, *targets, **rest):
        super().refresh(*targets, **rest)
        self.rounds += 1


@pytest.fixture
def board():
    return CountingBoard(SystemClock())


@pytest.fixture
def run(board, jobs, monkeypatch):
    """Return a function that runs a keeper in a thread."""
    running = []

    def start(interval_secs=HOUR, min_interval_secs=0.01, clock=None):
        monkeypatch.setattr(module, "MIN_INTERVAL_SECS", min_interval_secs)
        clock = clock or SystemClock()
        keeper = StatusKeeper(board, lambda: dict(jobs), clock, interval_secs=interval_secs)
        thread = threading.Thread(target=keeper.run)
        thread.start()
        running.append((keeper, thread))
        until(lambda: board.rounds)
        return keeper

    yield start
    for keeper, thread in running:
        keeper.stop()
        thread.join(60)
        assert not thread.is_alive()


def used(board, key):
    status = board.view[key].status if key in board.view else None
    return status.used_cpu if status is not None else None


def test_a_change_is_seen_long_before_the_next_interval(run, board, tmp_path):
    run()
    for number in ("1", "2", "3"):
        (tmp_path / "1/used_CPU").write_text(f"{number}\n")
        until(lambda number=number: used(board, ONE) == int(number))
    assert used(board, TWO) is None


def test_a_change_is_seen_at_intervals_where_the_kernel_tells_nothing(run, board, tmp_path, monkeypatch):
    before = count_watches()
    monkeypatch.setattr(inotify, "_libc", NO_INOTIFY)
    run(interval_secs=0.05)
    (tmp_path / "1/used_CPU").write_text("4\n")
    until(lambda: used(board, ONE) == 4)
    assert count_watches() == before
    monkeypatch.undo()  # others have freed theirs: from the next look on the kernel tells
    until(lambda: count_watches() > before)


def test_a_new_job_and_a_directory_made_late_are_watched_after_a_word(run, board, jobs, tmp_path):
    three = JobKey("slurm", "3")
    keeper = run()
    jobs[three] = StatusTarget(str(tmp_path / "3"), os.getuid(), 8)
    keeper.refresh()
    until(lambda: three in board.view)
    (tmp_path / "3").mkdir()
    keeper.refresh()
    (tmp_path / "3/used_CPU").write_text("3\n")
    until(lambda: used(board, three) == 3)
    del jobs[three]
    keeper.refresh()
    until(lambda: three not in board.view)


def test_a_change_of_the_allocation_alone_is_a_reason_to_look(run, board, jobs, tmp_path):
    (tmp_path / "1/used_CPU").write_text("6\n")
    keeper = run()
    until(lambda: used(board, ONE) == 6)
    jobs[ONE] = StatusTarget(str(tmp_path / "1"), os.getuid(), 4)
    keeper.refresh()
    until(lambda: board.violations["used_exceeds_allocated"])


def test_only_what_has_changed_is_read(run, board, jobs, tmp_path, monkeypatch, clock):
    read = []

    def note(path, **rest):
        read.append(path)
        return real(path, **rest)

    real = module.StatusBoard.refresh.__globals__["read_status"]
    monkeypatch.setitem(module.StatusBoard.refresh.__globals__, "read_status", note)
    run(clock=clock)
    assert read == [jobs[ONE].path, jobs[TWO].path]
    (tmp_path / "new").write_text("1\n")
    os.rename(tmp_path / "new", tmp_path / "2/used_CPU")  # one change
    until(lambda: used(board, TWO) == 1)
    assert read == [jobs[ONE].path, jobs[TWO].path, jobs[TWO].path]
    clock.advance(HOUR)
    (tmp_path / "2/used_CPU").write_text("2\n")
    until(lambda: len(read) == 5)
    until(lambda: used(board, TWO) == 2)


def test_a_word_without_news_wakes_nobody(board, jobs, monkeypatch):
    woken = []
    monkeypatch.setattr(module.DirectoryWatch, "wake", lambda _: woken.append(1))
    keeper = StatusKeeper(board, lambda: dict(jobs), SystemClock(), interval_secs=HOUR)
    keeper.refresh()
    assert woken == [1]  # no round has been
    keeper.check()
    keeper.refresh()
    assert woken == [1]
    del jobs[ONE]
    keeper.refresh()
    assert woken == [1, 1]


@pytest.mark.parametrize(("where", "is_read"), [("here", False), ("no watches", True), ("remote", True)])
def test_all_is_read_at_each_interval_only_where_the_kernel_may_not_tell_all_changes(
    board, jobs, monkeypatch, clock, where, is_read
):
    if where == "no watches":
        monkeypatch.setattr(inotify, "_libc", NO_INOTIFY)
    if where == "remote":
        monkeypatch.setattr(module, "file_system_of", lambda path: "nfs4")
    refreshed = []
    monkeypatch.setattr(board, "refresh", lambda targets, only: refreshed.append(only))
    keeper = StatusKeeper(board, lambda: jobs, clock, interval_secs=10)
    for pause_secs in (0, 11, 60):
        clock.advance(pause_secs)
        keeper.check()
    assert refreshed == [{ONE, TWO}, {ONE, TWO} if is_read else set(), {ONE, TWO}]


def test_a_job_that_writes_in_a_loop_is_looked_at_once_an_interval(run, board, tmp_path):
    """The loop never ends while the keeper runs: what bounds the looks is the least interval alone."""
    run(min_interval_secs=HOUR)
    for number in range(2000):
        (tmp_path / "1/used_CPU").write_text(f"{number % 8}\n")
    assert board.rounds == 1


def test_a_clock_that_jumps_stops_no_looking(run, board, tmp_path, monkeypatch):
    run()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 10 * 365 * 86400)
    (tmp_path / "1/used_CPU").write_text("5\n")
    until(lambda: used(board, ONE) == 5)
    assert board.view[ONE].age_secs(time.time()) == 0


def test_a_bad_round_does_not_end_the_looking(board, jobs, caplog, monkeypatch):
    monkeypatch.setattr(module, "MIN_INTERVAL_SECS", 0.01)
    answers = [OSError("no jobs"), jobs]

    def targets():
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    keeper = StatusKeeper(board, targets, SystemClock(), interval_secs=0.01)
    thread = threading.Thread(target=keeper.run)
    thread.start()
    until(lambda: board.view)
    keeper.stop()
    thread.join(60)
    assert "reading the jobs' statuses failed" in caplog.text
