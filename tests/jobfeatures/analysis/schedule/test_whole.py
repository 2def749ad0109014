"""A log some users' jobs at a time tells what it tells as one piece and one chunk."""

import json
import os
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule import runs
from jobfeatures.analysis.schedule.bags import Join
from jobfeatures.analysis.schedule.choosing import Arrival, Filter, ScheduleError
from jobfeatures.analysis.schedule.document import make_document
from jobfeatures.analysis.schedule.eet import Mode
from jobfeatures.analysis.schedule.logreading import Pieces, read_log
from jobfeatures.analysis.schedule.result import Options
from jobfeatures.analysis.schedule.runs import Store
from jobfeatures.analysis.schedule.shares import ShareRules
from jobfeatures.analysis.schedule.spooled import spool
from jobfeatures.analysis.schedule.whole import Whole
from jobfeatures.joblogs.disksort import TemporaryFileError
from tests.jobfeatures.evaluated import summarise

FIELDS = ("user", "group", "queue", "partition")
RULES = ShareRules(default={"cpu": 2000})
BY_GROUP = ShareRules(groups={"1": {"cpu": 3000}})
LONG = (Filter("queue", frozenset({"1"})),)


def line(number, submit, user, wait=3, cpus=1, runtime=60, preceding=-1):
    where = f"{number % 2} 1 {1 + number % 3} {2 - number % 2}"
    return f"{number} {submit} {wait} {runtime} {cpus} -1 -1 {cpus} -1 -1 1 {user} {where} {preceding} -1\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes a log; pieces of SWF are of 3 lines or so at least."""
    monkeypatch.setattr("jobfeatures.formats.swf.columns.CHUNK_CHARACTERS", 150)

    def written(text, name="log.swf"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return written


def told_of(names, options, kind=None, **sizes):
    """Return what is told of files as a log; `pieces` have so many jobs, `chunks` too, `room` is of memory."""
    with Store(sizes.get("room", 10**9)) as store:
        pieces = Pieces([(name, name) for name in names], kind, store=store, most=sizes.get("pieces", 10**6))
        whole = summarise(
            names[0], pieces.logs(), options, FIELDS, store=store, most=sizes.get("chunks", 10**6)
        )
        return json.loads(json.dumps(make_document(whole, FIELDS)))


def both(names, options=None, most=3, kind=None):
    """Return what is told about a log as one piece in memory, and a few jobs at a time; an error as its text."""
    options, found = options or Options(), []
    for sizes in ({}, {"pieces": most, "chunks": most, "room": 0}):
        try:
            found.append(told_of(names, options, kind, **sizes))
        except ScheduleError as error:
            found.append(str(error))
    return found


def assert_same(one, other, where=""):
    """Compare documents, the order of their names included; floats that are sums may be added in another order."""
    assert type(one) is type(other), where
    if isinstance(one, dict):
        assert list(one) == list(other), where
        for name in one:
            assert_same(one[name], other[name], f"{where}/{name}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for place, pair in enumerate(zip(one, other, strict=True)):
            assert_same(*pair, f"{where}/{place}")
    else:
        assert other == (pytest.approx(one, rel=1e-9, abs=1e-9) if isinstance(one, float) else one), where


ROWS = st.lists(
    st.tuples(
        st.integers(-1, 99), st.integers(-1, 5), st.integers(-1, 40), st.integers(-1, 4), st.integers(-1, 50)
    ),
    max_size=16,
)
OPTIONS = st.builds(
    Options,
    rules=st.just(RULES) | st.just(ShareRules()) | st.just(BY_GROUP),
    mode=st.sampled_from(Mode),
    filters=st.just(()) | st.just(LONG),
)


@given(ROWS, OPTIONS, st.booleans(), st.sampled_from(["", "0.5 is no job\n", "2.5 1 1 60 1\n"]))
def test_a_log_a_few_jobs_at_a_time_tells_what_it_tells_in_memory(write, rows, options, has_size, odd):
    text = "; MaxProcs: 9\n" * has_size + "; UnixStartTime: 1000\n; Note: user 3 is ann\n"
    name = write(text + odd.join(line(place, *row) for place, row in enumerate(rows, 1)))
    whole, found = both([name], options)
    if not isinstance(whole, str):
        whole["warnings"], told = sorted(whole["warnings"]), sorted(found["warnings"])
        found["warnings"] = whole["warnings"] if odd else told  # repairs are counted in the first piece
    assert_same(whole, found)


@given(ROWS.filter(lambda rows: len(rows) > 3), OPTIONS)
def test_one_user_s_jobs_may_be_more_than_have_room(write, rows, options):
    lines = (line(place, submit, 1, *rest) for place, (submit, _, *rest) in enumerate(rows, 1))
    name = write("; MaxProcs: 9\n" + "".join(lines))
    assert_same(*both([name], options, most=2))


@pytest.mark.parametrize("more", [{}, {"filters": LONG}, {"rules": BY_GROUP}])
def test_no_more_jobs_are_in_memory_than_have_room_though_one_user_has_all(write, more):
    name = write("".join(line(place, place, 1) for place in range(1, 30)))
    whole = Whole(spool(name, [read_log(name)], Options(**more)), most=4)
    jobs = [(len(chunk.log), len(chunk.chosen)) for chunk, _ in whole.evaluate_chunks()]
    assert max(here for here, _ in jobs) <= 4
    assert sum(shown for _, shown in jobs) == whole.job_count == (9 if "filters" in more else 29)
    assert whole.users == ["1"]


UNCOUNTED = {"batch_system": "slurm", "job_id": "1", "total_gpus": 1}
RECORDS = st.lists(
    st.fixed_dictionaries(
        {"batch_system": st.just("slurm"), "job_id": st.sampled_from("123456789")},
        optional={
            "user": st.sampled_from(["ann", "bob"]),
            "queue": st.sampled_from(["long", "short"]),
            "total_cpus": st.integers(0, 4),
            "total_gpus": st.integers(0, 2),
            "requested_memory_bytes": st.integers(0, 9999),
            "submit_secs": st.integers(1000, 1020) | st.just(1001.5),
            "eligible_secs": st.integers(1020, 1030),
            "start_secs": st.integers(1010, 1040),
            "end_secs": st.integers(1030, 1060),
            "suspended_secs": st.integers(0, 9),
            "array_job_id": st.sampled_from("12"),
            "step": st.just("0"),
        },
    ),
    max_size=14,
)


@example(
    [
        UNCOUNTED,
        *(
            {
                "batch_system": "slurm",
                "job_id": str(place),
                "user": "ann",
                "total_cpus": 1,
                "submit_secs": 5,
                "start_secs": 6,
                "end_secs": 9,
            }
            for place in range(2, 7)
        ),
    ],
    Arrival.SUBMIT,
    ("cpu",),
)
@given(RECORDS, st.sampled_from(Arrival), st.sampled_from([("cpu",), ("cpu", "gpu")]))
def test_records_tell_what_they_tell_in_memory_their_steps_and_runs_too(write, made, arrival, resources):
    name = write("".join(json.dumps(each) + "\n" for each in made), "log.jsonl")
    options = Options(rules=RULES, arrival=arrival, resources=resources)
    assert_same(*both([name], options, kind="records"))


@example(
    [
        *({"batch_system": "slurm", "job_id": each} for each in "12"),
        UNCOUNTED | {"job_id": "3"},
        {"batch_system": "slurm", "job_id": "4", "user": "ann", "array_job_id": "1", "total_cpus": 0}
        | {"submit_secs": 1001, "start_secs": 1010, "end_secs": 1030},
    ]
)
@example(  # the earliest submission is of a step
    [
        {"batch_system": "slurm", "job_id": "1"},
        {"batch_system": "slurm", "job_id": "3", "user": "ann", "array_job_id": "1"},
        {"batch_system": "slurm", "job_id": "5", "user": "ann", "array_job_id": "1", "total_cpus": 0}
        | {"submit_secs": 1001, "start_secs": 1010, "end_secs": 1030},
        {"batch_system": "slurm", "job_id": "1", "step": "0", "user": "ann", "array_job_id": "1"}
        | {"submit_secs": 1000, "start_secs": 1028, "end_secs": 1030},
        {"batch_system": "slurm", "job_id": "2"},
    ]
)
@given(RECORDS)
def test_joined_jobs_are_joined_though_they_are_of_different_pieces(write, made):
    name = write("".join(json.dumps(each) + "\n" for each in made), "log.jsonl")
    assert_same(*both([name], Options(rules=RULES, join=(Join.ARRAY,)), kind="records"))


def test_files_of_one_log_count_from_the_earliest(write):
    files = [
        write(f"; MaxProcs: 9\n; UnixStartTime: {begin}\n{line(1, 0, 1)}{line(2, 5, 2)}", f"{begin}.swf")
        for begin in (1000, 2000)
    ]
    whole = write(
        "; MaxProcs: 9\n; UnixStartTime: 1000\n"
        + "".join(line(place % 2 + 1, at, place % 2 + 1) for place, at in enumerate((0, 5, 1000, 1005)))
    )
    expected = both([whole])[0] | {"log": ""}
    for order in (files, files[::-1]):
        for found in both(order):
            warnings = found["warnings"]
            assert_same(expected, found | {"log": "", "warnings": []})
            assert warnings == ["jobs do not stand in order of arrival: they were sorted"] * (order != files)


FOLLOWING = st.lists(
    st.tuples(
        st.integers(1, 12), st.integers(0, 99), st.integers(1, 3), st.integers(-1, 40), st.integers(1, 4),
        st.integers(-1, 50), st.integers(-1, 12), st.integers(-1, 9),
    ),
    min_size=1, max_size=16,
)  # fmt: skip


@given(FOLLOWING, st.sampled_from(Arrival), st.booleans(), st.sampled_from(Mode))
def test_jobs_may_follow_those_of_other_pieces(write, rows, arrival, is_joined, mode):
    lines = (
        line(number, submit, user, wait, cpus, runtime, preceding).replace(" -1\n", f" {think}\n")
        for number, submit, user, wait, cpus, runtime, preceding, think in rows
    )
    name = write("; MaxProcs: 9\n" + "".join(lines))
    join = (Join.PRECEDING,) if is_joined else ()
    assert_same(*both([name], Options(rules=RULES, arrival=arrival, join=join, mode=mode)))


def test_a_user_may_have_the_largest_number(write):
    whole, found = both([write("".join(line(place, place, 2**63 - 1 - place % 2) for place in range(9)))])
    assert_same(whole, found)
    assert list(whole["veet"]) == [str(2**63 - 2), str(2**63 - 1)]


def test_jobs_of_other_kinds_of_logs_may_too(write):
    made = [
        {
            "batch_system": "slurm", "job_id": str(place), "user": "ann", "total_cpus": 1, "submit_secs": 1000,
            "start_secs": 1000 + 10 * place, "end_secs": 1010 + 10 * place, "think_secs": 1.5,
            "preceding_job_id": str(place - 4),
        }
        for place in range(1, 9)
    ]  # fmt: skip
    name = write("".join(json.dumps(each) + "\n" for each in made), "log.jsonl")
    options = Options(rules=RULES, arrival=Arrival.READY, join=(Join.PRECEDING,))
    whole, found = both([name], options, kind="records")
    assert_same(whole, found)
    assert whole["waited_for_another"] == 4
    assert whole["warnings"][0].startswith("4 × preceding job that is not there")


def test_parts_of_a_job_that_was_swapped_out_are_of_one_piece(write):
    text = "; MaxProcs: 9\n; Preemption: Yes\n"
    for number in range(1, 7):
        for part in range(3):
            status = 3 if part == 2 else 2
            text += f"{number} {number} {part} 9 1 -1 -1 1 -1 -1 {status} {number % 2} 1 -1 1 1 -1 -1\n"
    whole, found = both([write(text)])
    assert_same(whole, found)
    assert (whole["jobs"], whole["response"]["max"]) == (6, 3 * 9 + 1 + 2)


def test_what_pieces_tell_is_told_once_and_their_counts_are_added_up(write):
    text = "".join(
        line(place, place, place % 2).replace(" -1 -1 1 ", " -1 9999999999 1 ", 1).replace("\n", " 7\n")
        for place in range(9)
    )
    for found in both([write(text)]):
        assert len(found["warnings"]) == 2
        assert found["warnings"][0].startswith("9 × ")
        assert "is it in bytes" in found["warnings"][1]


def test_files_go_when_all_is_told_and_a_folder_without_room_is_named(write, tmp_path, monkeypatch):
    name = write("; MaxProcs: 9\n" + "".join(line(place, place, place % 3) for place in range(1, 9)))
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    assert both([name])[1]["jobs"] == 8
    assert os.listdir(folder) == []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    assert told_of([name], Options())["jobs"] == 8
    with pytest.raises(TemporaryFileError, match="nowhere: cannot write"):
        told_of([name], Options(), room=0)


def test_memory_does_not_grow_with_the_log(write, monkeypatch):
    monkeypatch.setattr(runs, "AT_ONCE", 4096)
    monkeypatch.setattr("jobfeatures.formats.swf.columns.CHUNK_CHARACTERS", 25_000)

    def peak(jobs):
        text = "".join(line(place, place, place % 40, runtime=place % 97) for place in range(1, jobs))
        name = write("; MaxProcs: 9\n" + text)
        tracemalloc.start()
        told_of([name], Options(), pieces=512, chunks=512, room=0)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(100)  # what is loaded once is no part of it
    assert peak(8_000) < 3 * peak(1_500)
