"""SWF through the records and back: byte for byte, and anew where that is asked for."""

import io
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.cli import main
from jobfeatures.formats.swf.lines import SwfReader
from jobfeatures.joblogs.loggedjob import JobRecord, LastLine, Notes, Passage
from jobfeatures.logkinds import read_log, write_log
from jobfeatures.records.model import JobState

# Constructed: what archives have that others do not: indented comments, columns beyond 18, CRLF, runs of blanks, times
# with decimals, CPU time and memory without processors, a wait of -1, a submit time of -5, comments in between.
LOG = """\
; Version: 2.2
;\tComputer: an old one
; UnixStartTime: 1000
; Queue: 3 night
; Note: user 7 is ann

  12   50  -1  100.5  4 0.333 512 4 3600 -1 1 7 2 2 3 1 -1 -1   99 98
   3    0  10  60 -1 25 1024 2 60 -1 0 9 2 2 0 1 -1 -1\r
; between
 7 -5 0 1 1 1 -1 1 -1 -1 1 7 -1 -1 1 -1 12 30
8 100 0 1 1 1 -1 1 -1 -1 1 7 -1 -1 1 -1 -1 -1"""


def read(text, **more):
    return list(read_log(text.splitlines(keepends=True), "swf", source="log", keep_text=True, **more))


def text_of(lines):
    return "".join(line if isinstance(line, LastLine) else f"{line}\n" for line in lines)


def written(records, **options):
    notes = Notes()
    return text_of(write_log(records, "swf", notes, **options)), notes


def test_a_log_comes_back_byte_for_byte():
    assert written(read(LOG)) == (LOG, Notes())


@pytest.mark.parametrize("words", [[], ["--from", "swf"]])
@pytest.mark.parametrize("through", ["stdin", "fifo"])
def test_a_log_comes_back_byte_for_byte_through_a_pipe_too(tmp_path, capsys, monkeypatch, through, words):
    data = LOG.encode()
    if through == "stdin":
        name = "-"
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    else:
        name = str(tmp_path / "fifo")
        os.mkfifo(name)
        threading.Thread(target=lambda: Path(name).write_bytes(data), daemon=True).start()
    assert main(["convert", name, str(tmp_path / "out.swf"), *words]) == 0
    assert (tmp_path / "out.swf").read_bytes() == data


def test_comments_with_separators_that_are_no_line_ends_come_back():
    lines = [
        "; Version: 2.2\n",
        "; one\f12 or\u2028 7 -5 0\x1c two\n",
        "1 0 10 60 2 25 1024 2 60 -1 1 9 2 2 0 1 -1 -1\n",
    ]
    found = list(read_log(lines, "swf", source="log", keep_text=True))
    changed = [replace(each, user="bob") if isinstance(each, JobRecord) else each for each in found]
    for records in (found, changed):
        assert written(records)[0].startswith("".join(lines[:2]))


def test_with_one_job_dropped_all_other_lines_keep_their_bytes():
    found = read(LOG)
    lines = LOG.splitlines(keepends=True)
    for place, each in enumerate(found):
        if isinstance(each, JobRecord):
            gone = each.source_text.text
            assert written(found[:place] + found[place + 1 :])[0] == "".join(x for x in lines if x != gone)


def test_a_record_that_was_changed_is_formatted_and_the_others_stay():
    found = [
        replace(each, user="bob", end_secs=each.end_secs + 6, run_secs=7)
        if isinstance(each, JobRecord) and each.job_id == "8"
        else each
        for each in read(LOG)
    ]
    text, notes = written(found)
    last = "; Note: user 8 is bob\n8 100 0 7 1 1 -1 1 -1 -1 1 8 -1 -1 1 -1 -1 -1\n"
    assert text == LOG[: LOG.rindex("8 100")] + last
    assert notes.lost == {}


numbers = st.integers(-1, 10**6).map(str) | st.sampled_from(["0.5", "007", "+3", "-5", "1e3"])
jobs = st.lists(numbers, min_size=5, max_size=20).map("  ".join)
comments = st.sampled_from(["", "; note", ";Version: 2.2", "; UnixStartTime: 5", "; Preemption: Yes", " \t"])


@given(st.lists(jobs | comments, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_any_log_without_rejected_lines_comes_back(lines, ending, is_ended):
    text = ending.join(lines) + (ending if is_ended and lines else "")
    found = read(text)
    if found and all(isinstance(each, JobRecord | Passage) for each in found):
        assert written(found)[0] == text


def data_of(text):
    return list(SwfReader(text.splitlines()))


def test_times_begin_at_the_first_submission_where_that_is_asked_for():
    text, _ = written(read(LOG.replace(" 7 -5", " 7 5")), rebase=True)
    assert "; Computer: an old one\n" in text
    assert "; UnixStartTime: 1000\n" in text
    found = {job.number: job for job in data_of(text)}
    assert [found[number].submit_secs for number in (3, 7, 12, 8)] == [0, 5, 50, 100]
    assert (found[12].user, found[12].queue, found[3].user, found[3].queue) == (7, 3, 9, 0)
    assert (found[12].wait_secs, found[12].run_secs, found[12].cpu_secs) == (-1, 100.5, 0.333)
    shifted, _ = written(read(LOG.replace(" 3    0", " 3    40").replace(" 7 -5", " 7 45")), rebase=True)
    assert "; UnixStartTime: 1040\n" in shifted


def test_users_are_numbered_anew_where_that_is_asked_for():
    text, _ = written(read(LOG.replace(" 7 -5", " 7 5")), renumber=True)
    found = data_of(text)
    assert [(job.number, job.user, job.submit_secs) for job in found] == [
        (1, 1, 0),
        (2, 2, 5),
        (3, 2, 50),
        (4, 2, 100),
    ]
    assert found[1].preceding == 3
    assert "; Note: user 2 is ann\n" in text


@pytest.mark.parametrize("wait", [-1, 3])
def test_a_run_time_is_kept_with_and_without_a_wait(wait, tmp_path, capsys):
    (tmp_path / "a.swf").write_text(f"1 5 {wait} 100 4 50 -1 4 3600 -1 1 7 2 2 3 1 -1 -1\n")
    for there, back in (("b.jsonl", "c.swf"), ("b.xml", "d.swf")):
        assert main(["convert", str(tmp_path / "a.swf"), str(tmp_path / there)]) == 0
        assert main(["convert", str(tmp_path / there), str(tmp_path / back)]) == 0
        [job] = data_of((tmp_path / back).read_text())
        assert (job.wait_secs, job.run_secs) == (wait, 100)
    assert "run_secs" not in capsys.readouterr().err


def test_interactive_jobs_stay_in_queue_0(tmp_path):
    (tmp_path / "a.swf").write_text("1 5 0 100 4 50 -1 4 3600 -1 1 7 2 2 0 1 -1 -1\n")
    for name, following in (("a.swf", "b.xml"), ("b.xml", "c.jsonl"), ("c.jsonl", "d.swf")):
        assert main(["convert", str(tmp_path / name), str(tmp_path / following)]) == 0
    assert "<Interactive>True</Interactive>" in (tmp_path / "b.xml").read_text()
    assert data_of((tmp_path / "d.swf").read_text())[0].queue == 0


def test_interactive_jobs_are_in_queue_0_whatever_queue_they_share():
    """ "we suggest the convention of denoting interactive jobs by 0" """
    records = [
        JobRecord(batch_system="sss", job_id=str(place), submit_secs=place, queue=queue, is_interactive=said)
        for place, (queue, said) in enumerate(
            [("fast", True), ("fast", None), ("login", True), ("login", True), (None, True), ("x", True)], 1
        )
    ]
    text, notes = written(records)
    assert [job.queue for job in data_of(text)] == [0, 1, 0, 0, 0, 0]
    assert "; Queue: 0 login\n" in text
    assert notes.lost == {"queue": 2}  # of the first, and of the last
    again = list(read_log(text.splitlines(keepends=True), "swf", source="log"))
    assert [(each.queue, each.is_interactive) for each in again] == [
        ("login", True), ("fast", None), ("login", True), ("login", True), ("login", True), ("login", True),
    ]  # fmt: skip
    text, _ = written(read(text), renumber=True)
    assert [job.queue for job in data_of(text)] == [0, 1, 0, 0, 0, 0]


@pytest.mark.parametrize("there", ["b.jsonl", "b.xml", "b.swf"])
def test_a_model_keeps_its_run_times_and_who_follows_whom(tmp_path, capsys, there):
    """ "models do not contain data about wait times in queues" """
    model = (
        "; Version: 2.2\n"
        "1 0 -1 50 4 -1 -1 4 60 -1 -1 1 1 1 1 1 -1 -1\n"
        "2 -1 -1 7 4 -1 -1 4 60 -1 -1 1 1 1 1 1 1 10\n"
        "3 5 -1 9 4 -1 -1 4 60 -1 -1 2 1 1 1 1 2 -1\n"
        "4 5 -1 8 4 -1 -1 4 60 -1 -1 2 1 1 1 1 -1 -1\n"
    )
    (tmp_path / "a.swf").write_text(model)
    assert main(["convert", str(tmp_path / "a.swf"), str(tmp_path / there)]) == 0
    words = ["--renumber"] if there == "b.swf" else []
    assert main(["convert", str(tmp_path / there), str(tmp_path / "c.swf"), *words]) == 0
    assert "lost" not in capsys.readouterr().err
    assert data_of((tmp_path / "c.swf").read_text()) == data_of(model)
    assert main(["check", "--as", "swf", str(tmp_path / "c.swf")]) == 0
    assert "note: model" in capsys.readouterr().out


def test_who_follows_a_job_that_is_lost_and_has_no_submit_time_is_lost_too():
    lines, notes = written(
        [
            JobRecord(batch_system="x", job_id="a", run_secs=1),
            JobRecord(batch_system="x", job_id="b", run_secs=2, preceding_job_id="a"),
            JobRecord(
                batch_system="x", job_id="c", run_secs=3, submit_secs=7, preceding_job_id="a", think_secs=4
            ),
            JobRecord(batch_system="x", job_id="d", run_secs=4, preceding_job_id="c"),
        ]
    )
    assert notes.lost == {"job without submit time": 2, "job_id": 2, "preceding_job_id": 1, "think_secs": 1}
    assert [(job.number, job.run_secs, job.preceding, job.think_secs) for job in data_of(lines)] == [
        (1, 3, -1, -1),
        (2, 4, 1, -1),
    ]


REQUESTS = "; Note: requested times are average CPU times per processor\n1 0 5 100 4 9 -1 2 30 64 1 1 1 1 1 1 -1 -1\n"


def test_requested_times_are_what_the_header_or_the_option_says(tmp_path, capsys):
    """ "the exact meaning is determined by a header comment" """
    (tmp_path / "a.swf").write_text(REQUESTS)

    def records(*words):
        assert main(["convert", str(tmp_path / "a.swf"), str(tmp_path / "b.jsonl"), *words]) == 0
        with open(tmp_path / "b.jsonl") as stream:
            [found] = read_log(stream, "records", source="b")
        return found.cpu_limit_secs, found.wall_limit_secs, found.requested_memory_bytes

    assert records() == (60, None, 2 * 64 * 1024)
    assert records("--swf", "wall-time,bytes,per-job") == (None, 30, 64)
    (tmp_path / "a.swf").write_text(REQUESTS.partition("\n")[2])
    assert records() == (None, 30, 2 * 64 * 1024)
    assert records("--swf", "cpu-time") == (60, None, 2 * 64 * 1024)
    assert main(["convert", str(tmp_path / "b.jsonl"), str(tmp_path / "c.swf")]) == 0
    text = (tmp_path / "c.swf").read_text()
    assert REQUESTS.partition("\n")[0] in text
    assert data_of(text)[0].requested_secs == 30
    same, notes = written(read(REQUESTS))
    assert (same, notes.lost) == (REQUESTS, {})
    [_, changed] = read(REQUESTS)
    assert data_of(written([read(REQUESTS)[0], replace(changed, user="2")])[0])[0].requested_secs == 30


def test_a_log_of_an_odd_encoding_comes_back(tmp_path):
    data = b"\xef\xbb\xbf; Computer: caf\xe9\r\n1 5 0 100 4 50 -1 4 3600 -1 1 7 2 2 0 1 -1 -1"
    (tmp_path / "a.swf").write_bytes(data)
    assert main(["convert", str(tmp_path / "a.swf"), str(tmp_path / "b.swf")]) == 0
    assert (tmp_path / "b.swf").read_bytes() == data


def test_what_is_repaired_and_what_is_not_taken_is_told(tmp_path, capsys):
    (tmp_path / "a.swf").write_text(LOG)
    assert main(["convert", str(tmp_path / "a.swf"), str(tmp_path / "b.jsonl")]) == 0
    told = capsys.readouterr().err
    for words in (
        "repaired: submit_secs: a negative number other than -1: it was taken as unknown (1)",
        "repaired: more than 18 fields: the first 18 were taken (1)",
        "not taken: CPU time, without allocated processors (1)",
        "not taken: memory, without allocated processors (1)",
        "not taken: comment Computer (1)",
        "not taken: comment (1)",
    ):
        assert words in told


def test_a_job_beyond_all_dates_and_one_with_a_huge_id_go_alone(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text(
        '{"batch_system": "x", "job_id": "1", "state": "COMPLETED", "submit_secs": 5, "end_secs": 9}\n'
        '{"batch_system": "x", "job_id": "2", "state": "COMPLETED", "submit_secs": 5, "start_secs": 6, "end_secs": 999999999999}\n'
        f'{{"batch_system": "x", "job_id": "{"9" * 5000}", "state": "COMPLETED", "submit_secs": 5}}\n'
    )
    for name, jobs in (("b.swf", 3), ("b.xml", 2), ("b.json", 2)):
        assert main(["convert", str(tmp_path / "a.jsonl"), str(tmp_path / name)]) in {0, 1}
        assert main(["convert", str(tmp_path / name), str(tmp_path / "c.jsonl")]) == 0
        assert len((tmp_path / "c.jsonl").read_text().splitlines()) == jobs, name
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("told", "ran", "lost"),
    [({"run_secs": 600}, 600, {"end_secs": 1}), ({"run_secs": 3700}, 3600, {"run_secs": 1}), ({}, 3600, {})],
)
def test_a_job_ran_as_long_as_its_batch_system_says_within_its_start_and_end(told, ran, lost):
    """Of one that was suspended, sacct's Elapsed says how long it ran; Suspended is often not asked for."""
    times = {"submit_secs": 90, "start_secs": 100, "end_secs": 3700}
    text, notes = written(
        [JobRecord(batch_system="slurm", job_id="9", state=JobState.COMPLETED, **times, **told)]
    )
    assert data_of(text)[0].run_secs == ran
    assert notes.lost == lost


PARIS = "; UnixStartTime: 1091615532\n; TimeZoneString: Europe/Paris\n1 7 -1 5 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1\n"


@pytest.mark.parametrize("flag", ["--rebase", "--renumber"])
def test_the_zone_of_a_log_stays_its_zone(flag, tmp_path):
    (tmp_path / "a.swf").write_text(PARIS)
    assert main(["convert", flag, str(tmp_path / "a.swf"), str(tmp_path / "b.swf")]) == 0
    text = (tmp_path / "b.swf").read_text()
    assert "; TimeZoneString: Europe/Paris\n; StartTime: Wed Aug 04 12:32:1" in text
    assert " CEST 2004\n" in text


def test_the_zone_that_is_given_is_that_of_the_written_log(tmp_path):
    (tmp_path / "a.sacct").write_text(
        "JobID|State|Submit|Start|End\n1|COMPLETED|2026-07-01T09:00:00|2026-07-01T09:00:00|2026-07-01T10:00:00\n"
    )
    written = str(tmp_path / "b.swf")
    assert main(["convert", "--zone", "America/New_York", str(tmp_path / "a.sacct"), written]) == 0
    text = (tmp_path / "b.swf").read_text()
    assert "; TimeZoneString: America/New_York\n; StartTime: Wed Jul 01 09:00:00 EDT 2026\n" in text


def test_how_a_zone_is_set_is_said(capsys):
    with pytest.raises(SystemExit):
        main(["convert", "--header", "TimeZoneString: Europe/Paris", "a", "b.swf"])
    assert "use --zone" in capsys.readouterr().err
