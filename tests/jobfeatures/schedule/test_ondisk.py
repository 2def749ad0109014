"""A log a piece at a time, with what is not at hand on disk."""

import gc
import os
from dataclasses import replace
from operator import getitem

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.schedule import ondisk, reading
from jobfeatures.schedule.choosing import ScheduleError
from jobfeatures.schedule.ondisk import OnDisk, evaluate_on_disk
from jobfeatures.schedule.partitions import evaluate_partitions
from jobfeatures.schedule.reading import LinkedError, read_log, read_pieces
from jobfeatures.schedule.result import Options
from jobfeatures.schedule.shares import ShareRules

HOW = {"kind": None, "zone": None, "meaning": None}
RULES = Options(rules=ShareRules(default={"cpu": 2000}))


def line(number, submit, user, wait=3, cpus=1, preceding=-1):
    return f"{number} {submit} {wait} 60 {cpus} -1 -1 {cpus} -1 -1 1 {user} 1 -1 1 1 {preceding} -1\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes a log; pieces are of 3 jobs."""
    monkeypatch.setattr("jobfeatures.formats.swf.columns.CHUNK_LINES", 3)
    monkeypatch.setattr(reading, "read_pieces", lambda name, **how: read_pieces(name, **how, most=3))
    monkeypatch.setattr(ondisk, "read_pieces", reading.read_pieces)

    def written(text, name="log.swf"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return written


def test_results_lie_on_disk_until_nobody_knows_of_them(tmp_path):
    runner = OnDisk(str(tmp_path))
    pair = runner.submit(lambda: [[1, 2], {"a": 3}])
    second = runner.submit(getitem, pair, 1)
    assert len(os.listdir(tmp_path)) == 2
    assert runner.gather(
        [runner.submit(lambda one, other: (one[0], other[0]), second and [second], pair)]
    ) == [({"a": 3}, [1, 2])]
    del pair, second
    gc.collect()
    assert os.listdir(tmp_path) == []


ROWS = st.lists(
    st.tuples(st.integers(-1, 99), st.integers(-1, 5), st.integers(-1, 40), st.integers(-1, 4)), max_size=14
)


@given(ROWS, st.booleans(), st.sampled_from(["", "0.5 is no job\n", "2.5 1 1 60 1\n"]))
def test_a_log_in_pieces_tells_what_its_files_tell(write, rows, has_zero, odd):
    text = "; MaxProcs: 9\n" + "; UnixStartTime: 1000\n" * has_zero
    text += odd.join(line(place, *row) for place, row in enumerate(rows, 1))
    name = write(text)
    found, expected = [], []
    for made, evaluate in (
        (found, lambda: evaluate_on_disk([name], RULES, HOW)),
        (expected, lambda: evaluate_partitions([name], RULES, read_log)),
    ):
        try:
            made.append(evaluate())
        except ScheduleError as error:
            made.append(str(error))
    if isinstance(expected[0], str):
        assert found == expected
        return
    one, other = (dict(each[0], warnings=None) for each in (found, expected))
    close = {key: pytest.approx(value) for key, value in other.items() if isinstance(value, float)}
    assert one == other | close


def test_records_of_any_kind_come_in_pieces_with_their_steps(write):
    job = '{"batch_system": "slurm", "job_id": "%d", "user": "ann", "total_cpus": 1, "submit_secs": %d, "start_secs": %d, "end_secs": %d}\n'
    step = '{"batch_system": "slurm", "job_id": "%d", "step": "0", "used_memory_bytes": 4096}\n'
    text = "".join(job % (place, place, place + 5, place + 9) + step % place for place in range(1, 9))
    text += job % (1, 1, 6, 10)  # once more, in another piece
    name = write(text, "log.jsonl")
    pieces = list(reading.read_pieces(name))
    assert [len(each) for each in pieces] == [2, 2, 2, 2, 1]
    assert pieces[0].memory_kib.tolist() == [4, 4]
    found = evaluate_on_disk([name], replace(RULES, resources=("cpu",)), HOW)
    assert (found["jobs"], found["folded"]) == (8, {"step": 8, "run that is told twice": 1})


def test_where_jobs_follow_others_the_log_is_read_as_a_whole(write):
    lines = [line(place, place, 1, preceding=place - 4 if place > 4 else -1) for place in range(1, 9)]
    name = write("; MaxProcs: 9\n" + "".join(lines))
    with pytest.raises(LinkedError):
        list(reading.read_pieces(name))
    assert evaluate_on_disk([name], RULES, HOW)["waited_for_another"] == 4


def test_what_is_true_of_all_pieces_is_told_once(write):
    text = "".join(
        line(place, place, 1).replace(" -1 -1 1 1 1", " -1 9999999999 1 1 1") for place in range(9)
    )
    warnings = [each.warnings for each in reading.read_pieces(write(text))]
    assert [len(each) for each in warnings] == [1, 0, 0]
    assert "is it in bytes" in warnings[0][0]
