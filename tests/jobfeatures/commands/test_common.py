"""What commands say of a flag or a key that they cannot use: in words for the person who typed it."""

import argparse
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.cli import main
from jobfeatures.commands.common import number_flag


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["replay", "--speed", "fast", "log"], "--speed: must be a number above 0, not 'fast'"),
        (["replay", "--speed", "0", "log"], "--speed: must be a number above 0, not '0'"),
        (["replay", "--cpus", "0", "log"], "--cpus: must be a whole number, 1 or more, not '0'"),
        (["schedule", "--tau", "nan", "log"], "--tau: must be seconds, 0 or more, not 'nan'"),
        (["schedule", "--top", "1.5", "log"], "--top: must be a whole number from 1 to 1000000, not '1.5'"),
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
