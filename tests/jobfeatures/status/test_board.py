import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import LockTimeoutError
from jobfeatures.records.model import JobKey
from jobfeatures.status import board as module
from jobfeatures.status.board import (
    LOCK_TIMEOUT,
    POSTPONE_REVERTED_EARLY,
    REASONS,
    UNREADABLE,
    UNSAFE,
    StatusBoard,
    StatusTarget,
    StatusView,
)
from jobfeatures.status.directory import StatusFiles, UnreadableError
from jobfeatures.status.jobstatus import QUIET_SECS, STATUS_KEYS, JobStatus, StatusReason, is_unwritten
from tests.running import HandClock

NOW = 1_700_000_000
KEY = JobKey("slurm", "1")
Hold = Callable[[str, Path], AbstractContextManager[None]]


@pytest.fixture
def clock() -> HandClock:
    return HandClock(NOW)


@pytest.fixture
def board(clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> StatusBoard:
    monkeypatch.setattr(module, "LOCK_TIMEOUT_SECS", 0.03)
    return StatusBoard(clock)


def target(path: Path, allocated_cpus: int | None = 8) -> StatusTarget:
    return StatusTarget(str(path), os.geteuid(), allocated_cpus)


def write(directory: Path, written_at: float = NOW, **values: object) -> None:
    for name, value in values.items():
        (directory / name).write_text(f"{value}\n")
        os.utime(directory / name, (written_at, written_at))


def counted(board: StatusBoard) -> dict[str, int]:
    return {reason: count for reason, count in board.violations.items() if count}


def refresh(board: StatusBoard, directory: Path, allocated_cpus: int | None = 8) -> StatusView:
    board.refresh({KEY: target(directory, allocated_cpus)})
    return board.view[KEY]


def test_a_good_set_is_kept_with_its_times(board: StatusBoard, clock: HandClock, directory: Path) -> None:
    write(directory, written_at=NOW - 50, used_CPU=5, add_uncom_time=7)
    view = refresh(board, directory)
    assert view == StatusView(JobStatus(used_cpu=5, add_uncom_time=7), NOW - 50)
    clock.secs = 10
    assert view.age_secs(clock.now_secs()) == 60


def test_an_age_is_never_negative(board: StatusBoard, directory: Path) -> None:
    write(directory, written_at=NOW + 10**6, used_CPU=5)
    view = refresh(board, directory)
    assert view.written_at_secs == NOW
    assert view.age_secs(NOW - 100) == 0


def test_the_last_good_set_outlives_a_bad_one_and_ages(
    board: StatusBoard, clock: HandClock, directory: Path
) -> None:
    write(directory, used_CPU=5)
    good = refresh(board, directory)
    clock.secs = 100
    write(directory, written_at=NOW + 100, used_CPU=9)
    view = refresh(board, directory)
    assert (view.status, view.written_at_secs) == (good.status, NOW)
    assert view.age_secs(clock.now_secs()) == 100
    assert "used_CPU: more than the 8 allocated: '9'" in view.problem
    assert view.problems == {"used_exceeds_allocated": 1}
    write(directory, written_at=NOW + 100, used_CPU=8)
    view = refresh(board, directory)
    assert view.status == JobStatus(used_cpu=8)
    assert view.problem == ""
    assert view.problems == {"used_exceeds_allocated": 1}


def test_a_job_that_has_not_written_yet_has_no_status_and_no_problem(
    board: StatusBoard, directory: Path
) -> None:
    assert refresh(board, directory) == StatusView()
    (directory / "used_CPU").touch()
    assert refresh(board, directory) == StatusView()
    assert refresh(board, directory / "absent") == StatusView()
    assert StatusView().age_secs(NOW) is None
    assert counted(board) == {}


def test_a_job_that_removes_its_files_takes_its_status_back(board: StatusBoard, directory: Path) -> None:
    write(directory, used_CPU=5)
    refresh(board, directory)
    (directory / "used_CPU").unlink()
    assert refresh(board, directory) == StatusView()


@pytest.mark.program
def test_every_reason_is_counted_under_its_own_name(
    board: StatusBoard, directory: Path, held: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(directory, used_CPU="many")
    refresh(board, directory)
    (directory / "used_CPU").unlink()
    (directory / "used_CPU").symlink_to("/etc/passwd")
    assert "used_CPU" in refresh(board, directory).problem
    (directory / "used_CPU").unlink()
    write(directory, used_CPU=5)
    with held("flock", directory / "used_CPU"):
        view = refresh(board, directory)
    assert view.status is None
    for error in (UnreadableError("no"), OSError(24, "Too many open files")):

        def fail(*_arguments: object, failure: Exception = error, **_options: object) -> StatusFiles:
            raise failure

        monkeypatch.setattr(module, "read_status", fail)
        view = refresh(board, directory)
    assert view.problem.endswith("Too many open files")
    expected = {str(StatusReason.NOT_AN_INTEGER): 1, UNSAFE: 1, LOCK_TIMEOUT: 1, UNREADABLE: 2}
    assert view.problems == expected
    assert counted(board) == expected


def test_all_reasons_are_there_before_anything_happens(board: StatusBoard) -> None:
    assert board.violations == dict.fromkeys(REASONS, 0)
    assert all(type(reason) is str for reason in board.violations)


def test_a_problem_is_logged_once_while_it_lasts(
    board: StatusBoard, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    write(directory, used_CPU="many")
    refresh(board, directory)
    refresh(board, directory)
    write(directory, used_CPU=1)
    refresh(board, directory)
    refresh(board, directory)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_jobs_that_have_ended_are_dropped_and_their_violations_stay(
    board: StatusBoard, directory: Path
) -> None:
    write(directory, used_CPU="many")
    refresh(board, directory)
    board.refresh({})
    assert board.view == {}
    assert counted(board) == {"not_an_integer": 1}
    refresh(board, directory)
    assert counted(board) == {"not_an_integer": 2}


@pytest.mark.program
def test_one_bad_job_costs_the_others_nothing(board: StatusBoard, tmp_path: Path, held: Hold) -> None:
    targets = {}
    for number in range(4):
        path = tmp_path / str(number)
        path.mkdir()
        write(path, used_CPU=number)
        targets[JobKey("slurm", str(number))] = target(path)
    (tmp_path / "0" / "used_CPU").write_text("many")
    with held("lockf", tmp_path / "1" / "used_CPU"):
        board.refresh(targets)
    assert [view.status and view.status.used_cpu for view in board.view.values()] == [None, None, 2, 3]
    assert list(board.view) == list(targets)


@given(st.dictionaries(st.sampled_from([key.name for key in STATUS_KEYS]), st.binary(max_size=80)))
def test_whatever_a_job_writes_it_becomes_a_status_or_a_counted_problem(values: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        for key, content in values.items():
            Path(name, key).write_bytes(content)
        board = StatusBoard(HandClock(NOW))
        view = refresh(board, Path(name))
    assert (view.problem == "") == (not counted(board))
    assert view.problem.isprintable()
    assert view.status is None or view.status.used_cpu >= 0
    if is_unwritten(values):
        assert view == StatusView()


def test_a_view_once_taken_never_changes(board: StatusBoard, directory: Path) -> None:
    write(directory, used_CPU=5)
    refresh(board, directory)
    view, violations = board.view, board.violations
    write(directory, used_CPU="many")
    refresh(board, directory)
    assert view[KEY].problem == ""
    assert not any(violations.values())


# --- many stuck jobs ---------------------------------------------------------------------


class FakeJobs:
    """Stands in for `read_status`: jobs by number, some of them stuck for as long as they may be."""

    def __init__(self, clock: HandClock, stuck: set[int]) -> None:
        self.clock = clock
        self.stuck = stuck
        self.asked: list[int] = []

    def read(self, path: str, *, owner_uid: int, lock_timeout_secs: float) -> StatusFiles:
        del owner_uid
        self.asked.append(int(path))
        if int(path) in self.stuck:
            self.clock.secs += lock_timeout_secs
            raise LockTimeoutError(path)
        return StatusFiles({"used_CPU": b"1\n"}, NOW)

    @staticmethod
    def targets(count: int) -> Mapping[JobKey, StatusTarget]:
        return {JobKey("slurm", str(each)): StatusTarget(str(each), 0, 8) for each in range(count)}


def test_stuck_jobs_are_asked_last_the_next_time(clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = FakeJobs(clock, stuck={0, 2})
    monkeypatch.setattr(module, "read_status", jobs.read)
    board = StatusBoard(clock)
    board.refresh(jobs.targets(5))
    board.refresh(jobs.targets(5))
    assert jobs.asked == [0, 1, 2, 3, 4, 1, 3, 4, 0, 2]


@given(st.integers(1, 60), st.sets(st.integers(0, 59)))
def test_held_locks_delay_a_refresh_by_the_budget_at_most_and_nobody_is_skipped(
    count: int, stuck: set[int]
) -> None:
    clock = HandClock(NOW)
    jobs = FakeJobs(clock, stuck)
    board = StatusBoard(clock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LOCK_TIMEOUT_SECS", 0.25)
        patch.setattr(module, "LOCK_BUDGET_SECS", 1.0)
        patch.setattr(module, "read_status", jobs.read)
        board.refresh(jobs.targets(count))
    assert clock.secs <= 1.0
    assert sorted(jobs.asked) == list(range(count))
    for key, view in board.view.items():
        assert (view.status is None) == (int(key.job_id) in stuck)


# --- can_postpone_last_job ------------------------------------------------------------------


def test_a_return_to_true_with_other_changes_is_flagged_and_accepted(
    board: StatusBoard, clock: HandClock, directory: Path
) -> None:
    write(directory, used_CPU=5, can_postpone_last_job=False)
    refresh(board, directory)
    clock.secs = 10_000
    write(directory, used_CPU=6, can_postpone_last_job=True)
    view = refresh(board, directory)
    assert view.status == JobStatus(used_cpu=6, can_postpone_last_job=True)
    assert view.problem == ""
    assert view.problems == {POSTPONE_REVERTED_EARLY: 1}
    write(directory, used_CPU=5)
    assert refresh(board, directory).problems == {POSTPONE_REVERTED_EARLY: 1}
    assert counted(board) == {POSTPONE_REVERTED_EARLY: 1}


@pytest.mark.parametrize(("after", "flagged"), [(1, True), (QUIET_SECS - 1, True), (QUIET_SECS, False)])
def test_changes_soon_after_a_return_to_true_are_flagged(
    board: StatusBoard, clock: HandClock, directory: Path, after: float, flagged: bool
) -> None:
    write(directory, used_CPU=5, can_postpone_last_job=False)
    refresh(board, directory)
    write(directory, can_postpone_last_job=True)
    assert not refresh(board, directory).problems
    clock.secs = after / 2
    assert not refresh(board, directory).problems
    clock.secs = after
    write(directory, priority_factor=3)
    assert bool(refresh(board, directory).problems) is flagged


def test_a_bad_set_in_between_does_not_hide_the_change(board: StatusBoard, directory: Path) -> None:
    write(directory, used_CPU=5, can_postpone_last_job=False)
    refresh(board, directory)
    write(directory, can_postpone_last_job=True)
    refresh(board, directory)
    write(directory, used_CPU=99)
    refresh(board, directory)
    write(directory, used_CPU=6)
    assert refresh(board, directory).problems == {"used_exceeds_allocated": 1, POSTPONE_REVERTED_EARLY: 1}


def test_other_ways_to_true_and_back_are_not_flagged(board: StatusBoard, directory: Path) -> None:
    write(directory, used_CPU=5)
    refresh(board, directory)
    write(directory, used_CPU=4, can_postpone_last_job=True)
    refresh(board, directory)
    write(directory, used_CPU=3, can_postpone_last_job=False)
    refresh(board, directory)
    write(directory, can_postpone_last_job=True)
    refresh(board, directory)
    write(directory, used_CPU=2, can_postpone_last_job=False)
    assert not refresh(board, directory).problems
