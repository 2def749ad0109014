"""What commands say of a flag or a key that they cannot use: in words for the person who typed it; time limits."""

import argparse
import contextlib
import math
import os
import time

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.cli import main
from jobfeatures.commands.common import TimeIsUpError, number_flag, time_limit
from jobfeatures.errors import CommandError
from jobfeatures.system.command import run_command
from tests.running import until


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["schedule", "--heatmap", "1.5", "log"], "--heatmap: must be a whole number from 1 to 1000000, not '1.5'"),
        (["check", "--timeout", "soon"], "--timeout: must be seconds above 0, not 'soon'"),
        (["drain", "set", "--at", "yesterday"], "jobfeatures: --at: must be a time (epoch seconds, +3600, +2h or "),
        (["drain", "set", "--at", "2026-13-01T08:00"], "--at: must be a valid calendar date and time, not '2026-13-01T08:00'"),
        (["expect", "1", "--log", "/dev/null", "--at", "later"], "--at: must be epoch seconds or a time such as"),
    ],
)  # fmt: skip
def test_a_flag_that_cannot_be_read_says_what_it_must_be(words, said, capsys):
    try:
        status = main(words)
    except SystemExit as end:  # argparse's
        status = end.code
    assert status == 2
    error = capsys.readouterr().err
    assert said in error
    assert "invalid _" not in error
    assert error.count("\n") == 1


@given(st.text(max_size=30))
def test_any_text_is_a_number_within_bounds_or_refused(text):
    read = number_flag(float, "a share", 0, 1)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if 0 <= value <= 1:
        assert read(text) == value
    else:
        with pytest.raises(argparse.ArgumentTypeError, match=r"\Amust be a share, not "):
            read(text)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("total_cpu", "total_cpu is unknown or unlimited here; jobfeatures show lists what is known"),
        ("total_cpus", "'total_cpus' is not a machine/job features key; did you mean total_cpu?"),
        ("nonsense", "'nonsense' is not a machine/job features key"),
    ],
)
def test_a_key_that_is_none_is_not_told_like_one_without_a_value(key, said, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MACHINEFEATURES", str(tmp_path))
    monkeypatch.setenv("JOBFEATURES", str(tmp_path))
    assert main(["get", key]) == 1
    assert capsys.readouterr().err == f"jobfeatures: {said}\n"


@pytest.fixture
def sleeper():
    """Return a program that does not end, and a function that fails if it lives on."""
    before = set(psutil.Process().children())

    def assert_gone():
        for child in set(psutil.Process().children()) - before:
            with contextlib.suppress(ChildProcessError):  # killed, but on a busy machine not gone yet
                until(lambda child=child: os.waitpid(child.pid, os.WNOHANG)[0])

    return ["sleep", "1000"], assert_gone


@pytest.fixture
def slow_start(monkeypatch):
    """Return a function that makes it take longer until a program is known to have started."""
    read = os.read

    def slow(secs):
        monkeypatch.setattr("os.read", lambda *arguments: time.sleep(secs) or read(*arguments))

    return slow


def test_time_that_is_up_while_a_program_starts_leaves_none_behind(slow_start, sleeper):
    program, assert_gone = sleeper
    slow_start(0.3)
    with pytest.raises(TimeIsUpError), time_limit(0.1):
        run_command(program, timeout_secs=20)
    assert_gone()


def test_time_that_is_up_while_a_program_is_ended_leaves_none_behind(sleeper, monkeypatch):
    program, assert_gone = sleeper
    kill = os.killpg
    monkeypatch.setattr("os.killpg", lambda *arguments: time.sleep(0.4) or kill(*arguments))
    with pytest.raises((TimeIsUpError, CommandError)), time_limit(0.4):
        run_command(program, timeout_secs=0.2)
    assert_gone()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_a_program_whose_start_hangs_is_given_up(slow_start):
    slow_start(60)
    with pytest.raises(TimeIsUpError), time_limit(0.1):
        run_command(["true"], timeout_secs=120)


class Deaf:
    """Takes its time to go, and loses the exceptions of that time."""

    def __del__(self):
        time.sleep(0.3)


def wait_after_something_deaf():
    Deaf()
    time.sleep(60)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_first_exception_that_is_lost_is_followed_by_another():
    with pytest.raises(TimeIsUpError), time_limit(0.1):
        wait_after_something_deaf()
