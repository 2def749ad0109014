"""From the daemon's page to rows, and from rows to lines."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.terminal.cells import width_of
from exporter.top.rows import NAMES, Look, NodeNow, Row, make_node, make_rows, parse_look
from exporter.top.table import ORDERS, Style, make_lines, sort_rows
from jobfeatures.errors import ParseError
from jobfeatures.series import Series

GOLDEN = Path(__file__).parents[2] / "fixtures/golden/metrics.txt"
PAGE = GOLDEN.read_text(encoding="utf-8")
HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n\u202e日本語" + "\u0301" * 50

ROWS = [
    Row(
        batch_system="slurm",
        job_id="4711",
        user="alice",
        name=HOSTILE,
        cpus_used=3.21,
        cpus_allocated=4,
        memory=7.7 * 2**30,
        memory_limit=8 * 2**30,
        gpus_used=0.5,
        gpus_allocated=2,
        left_secs=7300,
        draining_core_secs=0,
        kill_core_secs=86_400,
    ),
    Row(
        batch_system="slurm",
        job_id="4712_" + "9" * 30,
        user="a" * 40,
        name="x" * 300,
        cpus_used=0.01,
        left_secs=90,
    ),
    Row(batch_system="pbs", job_id="7"),
]
NODE = NodeNow(cores=64, busy_cpus=3.3, memory_bytes=256 * 2**30, available_bytes=200 * 2**30)


def texts(lines):
    return [line.text for line in lines]


def test_the_daemons_page_gives_a_row_for_each_job_that_has_not_ended():
    rows = {row.job_id: row for row in make_rows(parse_look(PAGE), None)}
    job = rows["12"]
    assert (job.user, job.cpus_allocated, job.gpus_allocated, job.gpus_used) == ("alice", 4, 1, 0.25)
    assert (job.memory, job.memory_limit) == (100, 2**20)
    assert job.cpus_used == pytest.approx(1240.75 / 599.75)  # on average: there is one look
    assert job.left_secs == 1800  # to the node's shutdown, the least
    assert rows['pilot "7"\\\n'].draining_core_secs == 1200
    assert "ended" not in {row.name for row in rows.values()}


def test_between_two_looks_cpus_are_those_of_now():
    labels = {"batch_system": "slurm", "job_id": "1"}

    def look(taken, user, system):
        series = [
            Series("batch_job_info", {**labels, "user": "ann"}, 1.0),
            Series("batch_job_start_time_seconds", labels, 0.0),
            Series("batch_job_cpu_seconds_total", {**labels, "mode": "user"}, user),
            Series("batch_job_cpu_seconds_total", {**labels, "mode": "system"}, system),
            Series("batch_node_sample_time_seconds", {}, taken),
            Series("batch_node_cpu_seconds_total", {"mode": "user"}, user),
            Series("batch_node_cpu_seconds_total", {"mode": "idle"}, 1000.0),
        ]
        return Look(
            {name: tuple(each for each in series if each.name == name) for name in {s.name for s in series}}
        )

    before, now = look(100.0, 10.0, 2.0), look(104.0, 16.0, 4.0)
    assert make_rows(now, before)[0].cpus_used == 2.0
    assert make_node(now, before).busy_cpus == 1.5
    assert make_rows(before, now)[0].cpus_used == 0.12  # time went back: the average
    assert make_node(before, None).busy_cpus is None
    half = Look({**now.series, "batch_job_cpu_seconds_total": now.series["batch_job_cpu_seconds_total"][:1]})
    assert make_rows(half, before)[0].cpus_used is None  # one mode cannot be read


def test_the_table_in_80_columns_and_24_lines():
    lines = make_lines(ROWS, NODE, order="c", columns=80, lines=24, source="here", with_keys=True)
    assert texts(lines) == [
        "3 jobs; CPUs 3.3 busy, 4 held of 64; memory 56 GiB of 256 GiB  (here)",
        "JOB             USER          CPUS   MEMORY   GPUS     LEFT  DRAIN  KILL  NAME",
        "4711            alice       3.21/4  7.7G/8G  0.5/2   2h1min     0h   24h  �]0;o…",
        "4712_99999999…  aaaaaaaaa…  0.01/?        ?         1min30s      ?     ?  xxxxx…",
        "7               ?                ?        ?               ?      ?     ?",
        "sort by [c CPUs]  m memory  g GPUs  t time left  w waste  |  q quit",
    ]  # fmt: skip
    assert [line.style for line in lines[2:4]] == [
        Style.WARNING,
        Style.WARNING,
    ]  # near its memory, near its end


def test_without_bounds_all_is_there():
    rows = [replace(ROWS[2], job_id=str(number)) for number in range(500)]
    assert len(make_lines(rows, NODE, order="c")) == 502
    few = texts(make_lines(rows, NODE, order="c", columns=80, lines=10, with_keys=True))
    assert len(few) == 10
    assert few[-2] == "… and 494 jobs more"


def test_an_idle_node_says_so():
    assert "No batch job is on this node." in texts(
        make_lines([], NodeNow(), order="c", columns=80, lines=24)
    )


@pytest.mark.parametrize(
    ("order", "first"),
    [("c", "4711"), ("m", "4711"), ("g", "4711"), ("t", "4712_" + "9" * 30), ("w", "4711")],
)
def test_rows_are_sorted_and_what_is_not_known_comes_last(order, first):
    found = sort_rows(ROWS, order)
    assert found[0].job_id == first
    assert found[-1].job_id in {"7", "4712_" + "9" * 30}
    assert set(ORDERS) == {"c", "m", "g", "t", "w"}


rows = st.builds(
    Row,
    batch_system=st.just("slurm"),
    job_id=st.text(max_size=30),
    user=st.text(max_size=30),
    name=st.text(max_size=60),
    cpus_used=st.none() | st.floats(0, 1e9),
    memory=st.none() | st.floats(0, 1e18),
    left_secs=st.none() | st.floats(allow_nan=False),
    gpus_used=st.none() | st.floats(0, 9),
    kill_core_secs=st.none() | st.floats(0, 1e15),
)


@given(st.lists(rows, max_size=6), st.integers(1, 200), st.integers(1, 60), st.sampled_from(sorted(ORDERS)))
def test_any_rows_fit_any_terminal(found, columns, lines, order):
    made = texts(make_lines(found, NODE, order=order, columns=columns, lines=lines, with_keys=True))
    assert len(made) <= lines
    assert all(width_of(text) <= columns for text in made)
    assert all(text == "" or text.isprintable() for text in made)


page_lines = st.builds(
    lambda name, labels, value: f"{name}{{{labels}}} {value}",
    st.sampled_from(sorted(NAMES)),
    st.sampled_from(['batch_system="s",job_id="1"', 'batch_system="s",job_id="1",mode="user"', 'basis="minimum"', "x", ""]),
    st.sampled_from(["1", "NaN", "+Inf", "-Inf", "1e308", "x", "-1"]),
)  # fmt: skip


@given(st.lists(page_lines | st.text(max_size=30), max_size=8).map("\n".join))
def test_any_page_gives_lines_or_a_parse_error(page):
    try:
        look = parse_look(page)
    except ParseError:
        return
    assert make_lines(make_rows(look, look), make_node(look, look), order="t", columns=80, lines=24)


def test_a_job_without_an_end_is_not_soon_at_its_end():
    [line] = [
        each
        for each in make_lines([replace(ROWS[2], left_secs=math.inf)], NODE, order="t", columns=80, lines=24)
        if each.text.startswith("7")
    ]
    assert line.style is Style.PLAIN
    assert "∞" in line.text
