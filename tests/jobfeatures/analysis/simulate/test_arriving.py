"""A log that lies on disk is simulated as in memory, line by line."""

import json
import os
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule import logreading as reading
from jobfeatures.analysis.schedule import runs
from jobfeatures.analysis.simulate.policies import Policy
from jobfeatures.cli import main
from jobfeatures.formats.joblines import format_line
from jobfeatures.joblogs.disksort import DiskSorter
from jobfeatures.joblogs.loggedjob import JobRecord
from tests.jobfeatures.analysis.schedule.test_whole import assert_same


def swf_line(number, submit, wait, runtime, cpus, user, memory=-1, asked=-1):
    return f"{number} {submit} {wait} {runtime} {cpus} -1 -1 {cpus} {asked} {memory} 1 {user} {user} -1 1 1 -1 -1\n"


@pytest.fixture
def both_ways(tmp_path, monkeypatch, capsys):
    """Return a function: a log → what `simulate` writes and says of it in memory, and of three jobs at a time."""

    def both(text, *words, name="log.swf"):
        path, found = tmp_path / name, []
        path.write_text(text)
        for most in (None, 3):
            with monkeypatch.context() as patched:
                if most is not None:
                    patched.setattr(reading, "PIECE_JOBS", most)
                    patched.setattr(runs, "ROOM_BYTES", 0)
                    patched.setattr("jobfeatures.formats.swf.columns.CHUNK_CHARACTERS", 50 * most)
                    patched.setattr(DiskSorter.__init__, "__defaults__", (most,))
                capsys.readouterr()
                command = words if words[0] == "schedule" else ("simulate", *words)
                status = main([command[0], str(path), *command[1:]])
                found.append((status, *capsys.readouterr()))
        return found

    return both


TIMES = st.integers(-1, 30) | st.sampled_from([0.5, 7.25])
ROWS = st.lists(
    st.tuples(
        st.integers(1, 40), TIMES, st.integers(-1, 9), st.integers(-1, 30), st.integers(-1, 6),
        st.integers(-1, 3), st.sampled_from([-1, 1024, 4096]), st.integers(-1, 40),
    ),
    max_size=16,
)  # fmt: skip
WAYS = st.sampled_from(
    [
        [],
        ["--processors", "5"],
        ["--nodes", "2x3cpu,9MB;1x1cpu"],
        [
            "--processors",
            "6",
            "--fairshare-of",
            "2=2",
            "--fairshare-of",
            "group:1=3",
            "--fairshare-halving",
            "9",
        ],
    ]
)


@given(ROWS, WAYS, st.sampled_from(Policy), st.sampled_from(["", "; MaxProcs: 6\n"]))
@example([(1, 0, 1, 5, 2, 1, -1, 5)] * 4 + [(2, 0.5, 1, 5, 2, 1, -1, 5)], [], Policy.EASY, "")
def test_a_log_in_swf_from_disk_becomes_the_same_schedule(both_ways, rows, words, policy, head):
    text = head + "; Note: user 2 is ann\n" + "".join(swf_line(*row) for row in rows)
    whole, found = both_ways(text, "--policy", policy.value, *words)
    assert found == whole


RECORDS = st.lists(
    st.builds(
        JobRecord,
        batch_system=st.just("slurm"),
        job_id=st.integers(1, 40).map(str),
        submit_secs=st.none() | st.integers(0, 30) | st.just(2.5),
        eligible_secs=st.none() | st.integers(0, 40),
        start_secs=st.integers(30, 50),
        end_secs=st.none() | st.integers(40, 70),
        total_cpus=st.none() | st.integers(0, 5),
        user=st.sampled_from([None, "ann", "bob"]),
    ),
    min_size=1,
    max_size=12,
)


@given(RECORDS, st.sampled_from([[], ["--processors", "4"]]), st.sampled_from(["submit", "eligible"]))
def test_so_does_a_log_of_another_kind(both_ways, records, words, arrival):
    text = "".join(f"{format_line(record)}\n" for record in records)
    words = ["--policy", "fairshare+easy", "--arrival", arrival, *words]
    whole, found = both_ways(text, *words, name="log.jsonl")
    assert found == whole


def test_parts_of_a_job_that_was_swapped_out_are_simulated_as_one(both_ways):
    lines = [swf_line(1 + number // 2, number, 1, 9, 2, 1).split() for number in range(16)]
    for number, fields in enumerate(lines):
        fields[10] = "23"[number % 2]
    text = "; Preemption: Double\n" + "".join(" ".join(fields) + "\n" for fields in lines)
    whole, found = both_ways(text, "--policy", "easy")
    assert found == whole
    assert whole[1].count("\n1 ") == 1
    assert "8 jobs" in whole[2]


FOLLOWING = st.lists(
    st.tuples(
        st.integers(1, 12), TIMES, st.integers(-1, 9), st.integers(-1, 30), st.integers(-1, 6),
        st.integers(-1, 3), st.integers(-1, 12), st.integers(-1, 9),
    ),
    max_size=16,
)  # fmt: skip


def following(rows):
    return "; MaxProcs: 6\n" + "".join(
        swf_line(*row[:6]).replace(" -1 -1\n", f" {row[6]} {row[7]}\n") for row in rows
    )


@given(FOLLOWING, st.sampled_from(Policy), st.sampled_from([[], ["--nodes", "2x3cpu"]]))
@example(
    [(1, 3, 1, 5, 2, 1, 2, 5), (2, 9, 1, 5, 9, 1, -1, -1), (3, -1, 1, 5, 2, 1, 1, 5)] * 2, Policy.EASY, []
)
def test_jobs_may_follow_others_from_disk_too(both_ways, rows, policy, words):
    whole, found = both_ways(following(rows), "--policy", policy.value, *words)
    assert found == whole


@given(FOLLOWING, st.sampled_from(["submit", "ready"]), st.sampled_from([[], ["--join", "preceding"]]))
def test_what_schedulers_would_have_made_of_a_log_on_disk_is_told_as_of_one_in_memory(
    both_ways, rows, arrival, words
):
    words = [
        "schedule",
        "--simulate",
        "fifo,fairshare+easy",
        "--arrival",
        arrival,
        "--format",
        "json",
        *words,
    ]
    whole, found = both_ways(following(rows), *words, "--share", "2")
    assert (found[0], found[2]) == (whole[0], whole[2])
    assert_same(*(json.loads(each[1] or "0") for each in (whole, found)))


@given(RECORDS, st.sampled_from(["submit", "eligible"]))
def test_so_is_what_they_would_have_made_of_another_kind(both_ways, records, arrival):
    text = "".join(
        f"{format_line(replace(record, preceding_job_id=str(place % 5)))}\n"
        for place, record in enumerate(records)
    )
    words = ["schedule", "--simulate", "easy", "--arrival", arrival, "--format", "json", "--share", "2"]
    whole, found = both_ways(text, *words, name="log.jsonl")
    assert (found[0], found[2]) == (whole[0], whole[2])
    assert_same(*(json.loads(each[1] or "0") for each in (whole, found)))


def test_memory_does_not_grow_with_the_log(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reading, "PIECE_JOBS", 128)
    monkeypatch.setattr(runs, "ROOM_BYTES", 0)
    monkeypatch.setattr("jobfeatures.formats.swf.columns.CHUNK_CHARACTERS", 128 * 50)
    monkeypatch.setattr(runs, "AT_ONCE", 512)

    def peak(jobs):
        path = tmp_path / "log.swf"
        path.write_text("".join(swf_line(each, each, 0, each % 97, 1, each % 40) for each in range(1, jobs)))
        words = ["simulate", str(path), "--policy", "easy", "--processors", "64"]
        tracemalloc.start()
        assert main([*words, "--output", os.devnull]) == 0
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(100)  # what is loaded once is no part of it
    few = min(peak(500) for _ in range(3))  # what others left may allocate, too
    assert any(peak(2_000) < 2 * few for _ in range(3))
