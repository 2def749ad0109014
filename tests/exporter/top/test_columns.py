"""How jobs sort by each column, which are meant by a filter, and which columns fit."""

from dataclasses import replace

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.top.table import COLUMNS, GAP, choose_columns, filter_jobs, jobs_of, sort_jobs
from jobfeatures_exporter.view.job import GpuView, JobIdentity, JobView, waste_now
from jobfeatures_exporter.view.node import NodeView

GIB = 2**30
FULL = JobView(
    key=JobKey("slurm", "9"),
    identity=JobIdentity("bob", "train", "running"),
    cpus_now=1.0,
    allocated_cpus=8,
    memory=2 * GIB,
    memory_limit=4 * GIB,
    gpus=(GpuView("a", True, 0.5),),
    left_secs=100,
    draining=5,
    kill=50,
)
OTHER = replace(
    FULL,
    key=JobKey("slurm", "10"),
    identity=JobIdentity("Alice", "analyse", "running"),
    cpus_now=4.0,
    memory=3 * GIB,
    gpus=(GpuView("b", True, 1.0),),
    left_secs=200,
    draining=6,
    kill=60,
)
NOTHING = JobView(key=JobKey("pbs", "11"))
FULL, OTHER = (
    replace(each, waste_now=waste_now(each, cpus=16, memory_bytes=64 * GIB)) for each in (FULL, OTHER)
)
NODE = NodeView(jobs=(FULL, NOTHING, OTHER), cores=16, memory_bytes=64 * GIB)
ROWS = jobs_of(NODE)


def ids(jobs):
    return [job.key.job_id for job in jobs]


@pytest.mark.parametrize(
    ("orders", "found"),
    [
        ("j", ["9", "10", "11"]),  # as numbers
        ("ua", ["10", "9", "11"]),
        ("cmgdk", ["10", "9", "11"]),  # the largest first
        ("inwt", ["9", "10", "11"]),
    ],
)
def test_each_column_sorts_and_what_is_not_known_comes_last_both_ways(orders, found):
    for order in orders:
        assert ids(sort_jobs(ROWS, order)) == found, order
        known = 3 if order == "j" else 2
        back = found[:known][::-1] + found[known:]
        assert ids(sort_jobs(ROWS, order, is_reversed=True)) == back, order


def test_the_columns_have_different_keys_and_none_of_them_quits_or_reverses():
    keys = [each.key for each in COLUMNS]
    assert len(set(keys)) == len(COLUMNS)
    assert not set(keys) & set("qrh")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", ["9", "11", "10"]),
        ("ALICE", ["10"]),
        ("slurm train", ["9"]),
        ("pbs", ["11"]),
        ("alice train", []),
    ],
)
def test_a_filter_wants_each_of_its_words_somewhere_in_any_case(words, found):
    assert ids(filter_jobs(ROWS, words)) == found


def test_where_there_is_no_room_the_columns_that_matter_stay():
    heads = {width: [each.head for each, _ in choose_columns(ROWS, width)] for width in (10, 38, 80, 200)}
    assert heads[10] == ["JOB"]
    assert heads[38] == ["JOB", "CPUS", "MEMORY", "WASTE", "LEFT"]
    assert "NAME" in heads[80]
    assert heads[200] == [each.head for each in COLUMNS]
    for width in range(1, 120):
        chosen = choose_columns(ROWS, width)
        assert len(chosen) == 1 or sum(each for _, each in chosen) + GAP * (len(chosen) - 1) <= width


def test_without_cards_there_is_no_column_for_them():
    assert "GPUS" not in [each.head for each, _ in choose_columns(jobs_of(NodeView(jobs=(NOTHING,))), None)]
