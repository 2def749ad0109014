"""From a view of the node to lines of a terminal."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.records.cells import width_of
from jobfeatures.records.model import JobKey
from jobfeatures.records.series import parse_lines
from jobfeatures.status.waste import Basis
from jobfeatures_exporter.model.snapshot import ProcessSample
from jobfeatures_exporter.top.table import (
    COLUMNS,
    Style,
    choose_columns,
    filter_jobs,
    jobs_of,
    join_cells,
    make_lines,
    make_process_cells,
)
from jobfeatures_exporter.view.job import GpuView, JobIdentity, JobView, waste_now
from jobfeatures_exporter.view.node import METRICS, NAMES, NodeView, WasteSum, view_page
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.view.processes import LiveProcess
from jobfeatures_exporter.view.sources import SourceView

GOLDEN = Path(__file__).parents[2] / "fixtures/golden/metrics.txt"
HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n\u202e日本語" + "\u0301" * 50

ROWS = (
    JobView(
        key=JobKey("slurm", "4711"),
        identity=JobIdentity("alice", HOSTILE),
        cpus_now=3.21,
        allocated_cpus=4,
        memory=7.7 * 2**30,
        memory_limit=8 * 2**30,
        gpus=(GpuView("a", True, 0.5), GpuView("b", True)),
        left_secs=7300,
        draining=0,
        kill=86_400,
    ),
    JobView(
        key=JobKey("slurm", "4712_" + "9" * 30),
        identity=JobIdentity("a" * 40, "x" * 300),
        cpus_mean=0.01,
        left_secs=90,
        enforced_secs=90,
        elapsed_secs=7000,
    ),
    JobView(key=JobKey("pbs", "7")),
)
ROWS = tuple(replace(each, waste_now=waste_now(each, cpus=128, memory_bytes=256 * 2**30)) for each in ROWS)
SLURM = SourceView("slurm", has_answered=True, is_up=True, failures=0)
NODE = NodeView(
    jobs=ROWS,
    count=3,
    running=3,
    allocated_cpus=4,
    unknown_allocations=2,
    allocatable_cpus=64,
    cores=128,
    busy_cpus=3.3,
    memory_bytes=256 * 2**30,
    available_bytes=200 * 2**30,
    draining=WasteSum(3600, Basis.ESTIMATED, 1, 3),
    kill=WasteSum(86_400, Basis.ESTIMATED, 3, 3),
    sources=(SLURM,),
)


def texts(lines):
    return [line.text for line in lines]


def test_the_table_in_a_hundred_and_eighty_columns_and_in_80():
    lines = make_lines(NODE, order="c", columns=180, source="here")
    assert lines[0].text == (
        "3 jobs; CPUs 3.3 of 128 busy, 4 of 64 allocated (allocation of 2 jobs unknown); "
        "memory 56 GiB of 256 GiB; drain 1 core h of 1 of 3 jobs, kill 24 core h  (here)"
    )
    lines = make_lines(NODE, order="c", columns=80, source="here")
    assert texts(lines)[1:] == [
        "JOB             USER          CPUS   IDLE   MEMORY   WASTE   GPUS     LEFT",
        "4711            alice        3.2/4    0.8  7.7G/8G    0.6%  0.5/2   2h1min",
        "4712_99999999…  aaaaaaaaa…  <0.1/?      ?        ?       ?         1min30s",
        "7               ?                ?      ?        ?       ?               ?",
    ]
    assert [line.style for line in lines[2:4]] == [
        Style.WARNING,
        Style.WARNING,
    ]  # near its memory, near its end


def test_the_job_that_wastes_most_now_is_named_above_the_table():
    assert make_lines(NODE, order="c")[1].text.startswith("JOB ")  # 0.6 % of the node is nothing to name
    small = replace(ROWS[0], waste_now=waste_now(ROWS[0], cpus=16, memory_bytes=256 * 2**30))
    assert make_lines(replace(NODE, jobs=(small, *ROWS[1:]), cores=16), order="c")[1].text == (
        "most waste now: 4711 alice, 0.5 GPUs idle, 0.8 CPUs idle, 307 MiB unused (4.9 % of the node)"
    )


def test_processes_stand_below_their_job_indented_and_clean():
    sample = ProcessSample(4711, 1, 1, 1, 0, "a\x1b[2Jb", "R", 900, 0, 0, 0, 1, 3 * 2**30, 2**32)
    process = LiveProcess(sample, 2, 0.5)
    chosen = choose_columns(jobs_of(NODE), 200, has_processes=True)
    assert join_cells(chosen, make_process_cells(chosen, process)).split() == [
        "└4711", "R", "0.5", "3G", "a\ufffd[2Jb",
    ]  # fmt: skip
    narrow = choose_columns(jobs_of(NODE), 30, has_processes=True)
    assert make_process_cells(narrow, replace(process, cpus_now=None))[:2] == [
        " └a\ufffd[2Jb       ",
        "     ?",
    ]


def test_without_bounds_all_is_there():
    rows = tuple(replace(ROWS[2], key=JobKey("pbs", str(number))) for number in range(500))
    node = replace(NODE, jobs=rows, count=500, running=500)
    assert len(make_lines(node, order="c")) == 502


def test_what_ends_by_itself_soon_is_no_warning_and_what_will_be_ended_is():
    def style(**times):
        [line] = make_lines(replace(NODE, jobs=(replace(ROWS[2], **times),), count=1), order="c")[-1:]
        return line.style

    by_itself = {"left_secs": 90, "enforced_secs": 7200, "elapsed_secs": 7000}
    assert style(**by_itself) is Style.PLAIN
    assert style(**{**by_itself, "enforced_secs": 90}) is Style.WARNING
    assert style(**{**by_itself, "enforced_secs": -5}) is Style.WARNING
    assert style(left_secs=90, enforced_secs=90, elapsed_secs=30) is Style.PLAIN  # a job of two minutes


def test_ended_jobs_have_no_line():
    node = replace(NODE, jobs=(*ROWS, JobView(key=JobKey("slurm", "8"), is_running=False)), count=4)
    assert len(make_lines(node, order="c")) == 5


def test_a_job_that_has_ended_and_left_processes_has_a_line_that_says_so():
    row = replace(ROWS[0], is_running=False, processes_remain=True, left_secs=None)
    node = replace(NODE, jobs=(*ROWS[1:], row), running=2, leftovers=(row.key,))
    lines = make_lines(node, order="c", columns=80)
    assert lines[1].text == "1 job has ended, processes remain: 4711"
    assert lines[1].style is Style.WARNING
    [line] = [each for each in lines if each.text.startswith("4711 ")]
    assert line.text.endswith(" ended")
    assert line.style is Style.WARNING


def test_jobs_whose_control_group_is_not_found_have_a_line_that_says_so():
    line = make_lines(replace(NODE, groupless=2), order="c", columns=100)[1]
    assert line.text == "No control group is found of 2 running jobs: jobfeatures-exporter doctor says why"
    assert line.style is Style.WARNING


SILENT = replace(SLURM, has_answered=False, is_up=False)


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ((SLURM,), ["0 jobs", "No batch job is on this node."]),
        (
            (),
            [
                "jobs not known",
                "No job is seen on this node, and no batch system is queried (batch.sources).",
            ],
        ),
        (
            (SILENT,),
            [
                "jobs not known",
                "slurm has not answered yet",
                "No job is seen on this node; no batch system has answered yet (slurm).",
            ],
        ),
        (
            (replace(SILENT, failures=2, failing_secs=70.0), replace(SLURM, name="htcondor")),
            [
                "jobs not known",
                "slurm has never answered, and has failed for 1 min 10 s",
                "No job is known on this node; slurm has not answered yet.",
            ],
        ),
        (
            (replace(SLURM, is_up=False, failures=1, failing_secs=7200.0),),
            [
                "0 jobs",
                "slurm has not answered for 2 h: its data shown here are older",
                "No job was known on this node when slurm answered last.",
            ],
        ),
    ],
)
def test_no_jobs_are_told_by_who_has_told_of_them(sources, said):
    lines = texts(make_lines(NodeView(sources=sources), order="c", columns=100))
    assert lines[0] == said[0]
    assert [each for each in lines[1:] if not each.startswith("JOB ")] == said[1:]


def test_what_nobody_has_told_is_no_zero():
    node = NodeView(cores=2, allocatable_cpus=2, sources=(SILENT,))
    assert make_lines(node, order="c")[0].text == "jobs not known; CPUs ? of 2 busy, ? of 2 allocated"
    answered = replace(node, sources=(SLURM,))
    assert make_lines(answered, order="c")[0].text == "0 jobs; CPUs ? of 2 busy, 0 of 2 allocated"


rows = st.builds(
    JobView,
    key=st.builds(JobKey, st.just("slurm"), st.text(max_size=30)),
    identity=st.builds(JobIdentity, st.text(max_size=30), st.text(max_size=60)),
    cpus_now=st.none() | st.floats(0, 1e9),
    memory=st.none() | st.floats(0, 1e18),
    left_secs=st.none() | st.floats(allow_nan=False),
    gpus=st.just(()) | st.builds(lambda share: (GpuView("a", True, share),), st.floats(0, 9)),
    kill=st.none() | st.floats(0, 1e15),
)


@given(st.lists(rows, max_size=6), st.integers(1, 200), st.sampled_from([each.key for each in COLUMNS]))
def test_any_rows_fit_any_terminal(found, columns, order):
    node = replace(NODE, jobs=tuple(found))
    made = texts(make_lines(node, order=order, columns=columns))
    assert all(width_of(text) <= columns for text in made)
    assert all(text == "" or text.isprintable() for text in made)


page_lines = st.builds(
    lambda name, labels, value: f"{name}{{{labels}}} {value}",
    st.sampled_from(sorted(NAMES)),
    st.sampled_from(['batch_system="s",job_id="1"', 'batch_system="s",job_id="1",mode="user"', 'basis="minimum"',
                     'source="slurm"', 'counted="no"', 'kind="total"', "x", ""]),
    st.sampled_from(["1", "NaN", "+Inf", "-Inf", "1e308", "x", "-1"]),
)  # fmt: skip


@given(st.lists(page_lines | st.text(max_size=30), max_size=8).map("\n".join))
def test_any_page_gives_lines_or_a_parse_error(page):
    try:
        numbers = Numbers.from_series(parse_lines(page, NAMES), METRICS)
        node = view_page(numbers, numbers)
    except ParseError:
        return
    assert make_lines(node, order="t", columns=80)


def test_a_job_without_an_end_is_not_soon_at_its_end():
    node = replace(NODE, jobs=(replace(ROWS[2], left_secs=math.inf),))
    [line] = [each for each in make_lines(node, order="t", columns=80) if each.text[0] == "7"]
    assert line.style is Style.PLAIN
    assert "∞" in line.text


def test_time_left_without_a_limit_is_not_unknown():
    lines = [
        make_lines(NodeView(jobs=(replace(ROWS[2], wall_secs=wall),)), order="t")[-1]
        for wall in (None, math.inf)
    ]
    assert [re.search(r"(\?|∞) +\?  +\?$", line.text)[1] for line in lines] == ["?", "∞"]


def test_a_task_of_an_array_is_found_as_squeue_shows_it():
    task = replace(ROWS[2], identity=JobIdentity("ann", "array", "RUNNING", "30_2"))
    assert filter_jobs([*ROWS, task], "30_2") == [task]
