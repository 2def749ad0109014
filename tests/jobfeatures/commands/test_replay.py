"""A log in a spool folder, with a clock that only moves when the player sleeps."""

import os
import signal

import pytest

from jobfeatures.batch.spool.source import SpoolSource
from jobfeatures.cli import main
from jobfeatures.commands import replay
from jobfeatures.commands.replay import Player
from jobfeatures.config import Config
from jobfeatures.formats.swf.fields import SwfJob
from jobfeatures.formats.swf.lines import format_job
from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.joblogs.replaying import plan_replay

NOW = 1_800_000_000


def job(job_id, start, end, **more):
    return JobRecord(batch_system="swf", job_id=job_id, start_secs=start, end_secs=end, total_cpus=2, **more)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "spool"


def play(folder, clock, records, at_rest):
    """Play records at 60 times their speed; `at_rest` is called whenever the player waits."""

    def sleep(secs):
        at_rest()
        clock.advance(secs)

    player = Player(str(folder), clock, sleep, speed=60, node="n1")
    folder.mkdir(exist_ok=True)
    player.play(plan_replay(records, speed=60))
    return player


def test_jobs_come_are_told_in_time_of_the_wall_and_go(folder, clock):
    source = SpoolSource(Config(spool_directory=str(folder)), clock, None)
    seen = []

    def look():
        table = source.poll_jobs(())
        assert table.rejected == ()
        seen.append(
            (
                clock.now - NOW,
                {k.job_id: (j.start_secs - NOW, j.end_limit_secs) for k, j in table.jobs.items()},
            )
        )

    records = [job("1", 100, 700, user="ann", wall_limit_secs=1200), job("2", 400, 1000)]
    play(folder, clock, records, look)
    assert seen == [
        (0, {"1": (0, NOW + 20)}),
        (5, {"1": (0, NOW + 20), "2": (5, None)}),
        (10, {"2": (5, None)}),
    ]
    assert list(folder.iterdir()) == []


def test_a_clock_that_is_set_changes_nothing(folder, clock):
    slept = []

    def jump():
        clock.now -= 10_000
        slept.append(clock.monotonic)

    play(folder, clock, [job("1", 0, 600)], jump)
    assert slept == [1000.0]


def test_a_job_that_cannot_be_told_is_named_and_the_others_are_shown(folder, clock, capsys):
    seen = []
    records = [job("1", 0, 600, name="a\x01b"), job("2", 0, 600)]
    play(folder, clock, records, lambda: seen.append(len(list(folder.iterdir()))))
    assert seen == [1]
    assert "job '1' is not shown" in capsys.readouterr().err


def test_what_lies_aside_already_is_not_followed(folder, clock, tmp_path):
    folder.mkdir()
    target = tmp_path / "target"
    target.write_text("as it was")
    (folder / f".replay-{os.getpid()}-1.xml").symlink_to(target)
    play(folder, clock, [job("1", 0, 60)], lambda: None)
    assert target.read_text() == "as it was"


@pytest.fixture
def log(tmp_path):
    lines = [
        SwfJob._make([1, 0, 5, 120, 4, -1, -1, 4, 600, -1, 1, 1, 1, -1, -1, -1, -1, -1]),
        SwfJob._make([2, 60, 5, 60, 4, -1, -1, 4, 600, -1, 1, 1, 1, -1, -1, -1, -1, -1]),
        SwfJob._make([3, 70, -1, -1, 0, -1, -1, 4, 600, -1, 5, 1, 1, -1, -1, -1, -1, -1]),
    ]
    path = tmp_path / "log.swf"
    path.write_text("\n".join(map(format_job, lines)) + "\noops\n")
    return path


@pytest.fixture(autouse=True)
def _same_handler():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_dry_run_writes_nothing(log, folder, capsys):
    assert main(["replay", str(log), "--spool", str(folder), "--dry-run", "--cpus", "4", "--speed", "1"]) == 0
    output = capsys.readouterr()
    assert output.out == "+0.000s start 1 4 CPUs\n+120.000s end 1 4 CPUs\n"
    assert "1 jobs are not shown: never ran" in output.err
    assert "1 jobs are not shown: no room on the node" in output.err
    assert "log.swf:4" in output.err
    assert not folder.exists()


def test_a_value_that_cannot_be_read_is_named_and_its_job_is_shown(tmp_path, capsys):
    path = tmp_path / "log"
    rows = ["JobID|User|Submit|Start|End|State|AllocCPUS|ReqMem", "5|ann|100|100|160|COMPLETED|1|4Q?"]
    path.write_text("\n".join(rows) + "\n")
    assert main(["replay", str(path), "--dry-run"]) == 0
    said = capsys.readouterr()
    assert "unreadable ReqMem, such as '4Q?': unknown in 1" in said.err
    assert "start 5 1 CPUs" in said.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_removes_the_documents(log, folder, monkeypatch, number):
    seen = []

    def sleep(secs):
        seen.append(sorted(path.suffix for path in folder.iterdir()))
        os.kill(os.getpid(), number)

    monkeypatch.setattr(replay.time, "sleep", sleep)
    assert main(["replay", str(log), "--spool", str(folder)]) == 0
    assert seen == [[".xml"]]
    assert list(folder.iterdir()) == []


def test_what_cannot_be_replayed_is_said(tmp_path, capsys, monkeypatch):
    text = tmp_path / "notes.txt"
    text.write_text("nothing of the sort\n")
    assert main(["replay", str(text)]) == 2
    assert main(["replay", str(tmp_path / "absent")]) == 2
    log = tmp_path / "log.swf"
    log.write_text("1 0 5 120 4 -1 -1 4 600 -1 1 1 1 -1 -1 -1 -1 -1\n")
    monkeypatch.setenv("JOBFEATURES_CONFIG", os.devnull)
    assert main(["replay", str(log)]) == 2
    assert main(["replay", str(log), "--spool", str(text)]) == 2
    said = capsys.readouterr().err
    for words in (
        "is of no known kind",
        "absent: cannot read",
        "--spool: is needed",
        "notes.txt:",
    ):
        assert words in said


@pytest.mark.parametrize("wrong", [["--speed", "0"], ["--speed", "nan"], ["--speed", "x"], ["--cpus", "0"]])
def test_numbers_that_make_no_sense_are_refused(log, wrong, capsys):
    with pytest.raises(SystemExit):
        main(["replay", str(log), *wrong])
    assert "argument" in capsys.readouterr().err
