"""`jobfeatures remaining` for other programs; what it knows is tested with the client and the command line."""

import re
import time

import pytest

from jobfeatures.cli import main


@pytest.fixture
def in_job(tmp_path, monkeypatch):
    """Return the folder of a job with a limit that has long passed."""
    monkeypatch.delenv("MACHINEFEATURES", raising=False)
    monkeypatch.setenv("JOBFEATURES", str(tmp_path))
    (tmp_path / "jobstart_secs").write_text("1700000000\n")
    (tmp_path / "wall_limit_secs").write_text("420\n")
    return tmp_path


@pytest.mark.parametrize(
    ("form", "printed"),
    [
        ("secs", r"3[56]\d"),
        ("minutes", "[56]"),
        ("hms", r"0:0[56]:\d\d"),
        ("iso", r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    ],
)
def test_remaining_prints_what_a_program_wants(in_job, capsys, form, printed):
    (in_job / "jobstart_secs").write_text(f"{int(time.time()) - 20}\n")
    assert main(["remaining", "--margin", "40", "--format", form]) == 0
    assert re.fullmatch(printed + "\n", capsys.readouterr().out)


def test_the_end_as_an_epoch_is_the_start_and_the_limit_less_the_margin(in_job, capsys):
    start = int(time.time()) - 20
    (in_job / "jobstart_secs").write_text(f"{start}\n")
    assert main(["remaining", "--margin", "40", "--format", "epoch"]) == 0
    assert start + 420 - 40 - 2 <= int(capsys.readouterr().out) <= start + 420 - 40


@pytest.mark.parametrize("more", [["--margin", "1"], ["--format", "secs"]])
def test_with_a_margin_or_a_format_nothing_is_below_zero(in_job, capsys, more):
    assert main(["remaining", *more]) == 0  # the record's start is long past
    assert capsys.readouterr().out == "0\n"


@pytest.mark.parametrize("limit", [None, "unlimited", "UNLIMITED", "soon"])
def test_where_no_limit_is_known_the_default_is_printed_without_the_margin(in_job, capsys, limit):
    (in_job / "wall_limit_secs").unlink() if limit is None else (in_job / "wall_limit_secs").write_text(limit)
    assert main(["remaining", "--default", "3600", "--margin", "60", "--format", "hms", "--explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    unlimited = ["wall_limit unlimited"] if (limit or "").lower() == "unlimited" else []
    assert lines == ["1:00:00", *unlimited, "default 3600 (no limit is set, or none is known)"]


def test_an_unlimited_wall_limit_does_not_hide_another_end(in_job, capsys):
    (in_job / "wall_limit_secs").write_text("unlimited\n")
    (in_job / "shutdowntime_job").write_text(f"{int(time.time()) + 100}\n")
    assert main(["remaining", "--default", "3600", "--explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 98 <= int(lines[0]) <= 100
    assert lines[1:] == [f"shutdown {lines[0]} (shutdowntime_job)", "wall_limit unlimited"]


def test_where_nothing_can_be_read_the_default_is_printed_and_the_status_tells(monkeypatch, capsys):
    monkeypatch.delenv("MACHINEFEATURES", raising=False)
    monkeypatch.setenv("JOBFEATURES", "/no/such/folder")
    assert main(["remaining", "--default", "3600", "--explain"]) == 3
    shown = capsys.readouterr()
    assert shown.out == "3600\ndefault 3600 (nothing can be read)\n"
    assert "no features can be read" in shown.err


def test_a_place_that_is_none_cannot_be_read_either(monkeypatch, capsys):
    monkeypatch.setenv("JOBFEATURES", "relative")
    assert main(["remaining", "--default", "3600"]) == 3
    assert main(["remaining"]) == 1
    assert capsys.readouterr().out == "3600\n"


@pytest.mark.parametrize("option", ["--default", "--margin"])
def test_what_is_no_number_of_seconds_is_said(capsys, option):
    with pytest.raises(SystemExit):
        main(["remaining", option, "1d"])
    assert f"{option}: '1d' is not a whole number of seconds" in capsys.readouterr().err
