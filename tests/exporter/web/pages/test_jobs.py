"""Jobs on the page of a node: how each is told, and what is said of one that idles, ends or has ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobfeatures.records.model import JobKey, JobState, Limits
from jobfeatures.status.board import StatusView
from jobfeatures.status.jobstatus import JobStatus
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.missing import DaemonGroups, JobsWithoutGroup, Reason
from jobfeatures_exporter.view.job import GpuView, JobView
from jobfeatures_exporter.view.node import NodeView
from jobfeatures_exporter.web.asked import DENSE, FULL, AskedPage
from jobfeatures_exporter.web.pages import node
from jobfeatures_exporter.web.pages.jobs import jobs_table
from jobfeatures_exporter.web.pages.pieces import PageData
from tests.exporter.web.pages import showcase
from tests.exporter.web.pages.drawn import (
    THIN,
    dense_page,
    node_page,
    rows_of,
    samples_of,
    tiles_of,
    with_job,
)
from tests.exporter.web.pages.reading import read_page

SGE = JobKey("gridengine", "1")


@pytest.mark.parametrize("make", [showcase.make_busy_node, showcase.make_draining_node])
def test_every_figure_in_the_row_of_a_job_is_its_own(make):
    context = make()
    samples = samples_of(showcase.families_of(context))
    rows = rows_of(read_page(node_page(context)), "jobs-table")
    assert len(rows) == 7
    checked = 0
    for job_id, cells in rows.items():
        for figure in (each for cell in cells.values() for each in cell.all("data")):
            of_job = [
                value for labels, value in samples[figure.attributes["title"]] if labels["job_id"] == job_id
            ]
            assert float(figure.attributes["value"]) in of_job
            checked += 1
    assert checked > 50


def test_a_job_is_told_as_people_say_it():
    rows = rows_of(read_page(node_page(showcase.make_draining_node())), "jobs-table")
    job = {title: cell.text.replace(THIN, " ") for title, cell in rows["48307"].items()}
    assert job["User"] == "asinghtrain-segmentation"
    assert job["CPUs"] == "9.9 of 16on average 9.9"
    assert job["Memory"] == "58.2 of 96 GiB61 %5.82 GiB page cache"
    assert job["Wasted now"] == "0.2 GPUs idle6.1 CPUs idle37.8 GiB unused"
    assert job["GPUs"] == "90 % busy2 GPUs · 120 GiB"
    assert job["Time"] == "6 h left3 h 6 min elapsedshutdown"
    assert job["Waste if killed"] == "49.6 core hestimated"
    bars = [
        each.attributes["aria-label"].replace(THIN, " ")
        for cell in rows["48307"].values()
        for each in cell.all("svg")
    ]
    assert bars == [
        "9.9 of 16 CPUs in use",
        "CPUs in the last hour: 5.2 to 17.2, latest 5.9",
        "58.2 GiB of 96 GiB of memory in use",
        "memory in the last hour: 35.3 GiB to 58.2 GiB, latest 58.2 GiB",
        "2 GPUs 90 % busy",
        "busy GPUs: 1.8 in the last hour",
        "7.4 % of the node allocated and unused",
        "3 h 6 min elapsed, 6 h left, shutdown",
    ]


def test_hints_point_at_what_is_idle_full_or_ends():
    rows = rows_of(read_page(node_page(showcase.make_busy_node())), "jobs-table")
    hints = {job: [each.text for each in cells["Hints"].all("span")] for job, cells in rows.items()}
    assert hints == {
        "48291_7": [],
        "48255": ["ends soon"],
        "48307": [],
        "48310": ["CPUs idle", "GPU idle"],
        "48318": ["memory near its limit"],
        "pilot-77": [],
        "48301": [],
    }


def test_a_job_whose_cpus_are_idle_is_said_to_wait_or_to_have_few_payloads_and_is_suspended_by_right():
    key = JobKey("slurm", "48310")
    context = showcase.make_busy_node()

    def hints(context):
        cells = rows_of(read_page(node_page(context)), "jobs-table")["48310"]
        return [each.text for each in cells["Hints"].all("span")]

    sample = context.snapshot.jobs[key]
    waiting = replace(sample, pressure_secs={("io", "some"): showcase.NOW - context.jobs[key].start_secs})
    snapshot = replace(context.snapshot, jobs={**context.snapshot.jobs, key: waiting})
    assert hints(replace(context, snapshot=snapshot)) == ["waits for storage", "GPU idle"]
    between = StatusView(status=JobStatus(used_cpu=0))
    assert hints(replace(context, statuses={**context.statuses, key: between})) == [
        "few payloads",
        "GPU idle",
    ]
    suspended = replace(context.jobs[key], state=JobState.SUSPENDED)
    assert hints(replace(context, jobs={**context.jobs, key: suspended})) == []


def test_a_job_past_its_end_says_so_and_its_bar_is_full():
    key = JobKey("slurm", "48255")
    context = showcase.make_busy_node()
    late = replace(context.jobs[key], start_secs=int(showcase.NOW) - 24 * 3600 - 90)
    cells = rows_of(read_page(node_page(replace(context, jobs={**context.jobs, key: late}))), "jobs-table")[
        "48255"
    ]
    assert cells["Time"].text.startswith(f"1{THIN}min 30{THIN}s past its end")
    assert cells["Time"].all("rect", class_="bad-bar")[0].attributes["width"] == "100"
    assert "past its end" in cells["Hints"].text


def test_a_pilot_whose_payloads_end_soon_does_not():
    key = JobKey("spool", "pilot-77")
    context = showcase.make_busy_node()
    status = replace(context.statuses[key].status, last_exp_job_end=int(showcase.NOW) + 60)
    statuses = {**context.statuses, key: replace(context.statuses[key], status=status)}
    cells = rows_of(read_page(node_page(replace(context, statuses=statuses))), "jobs-table")["pilot-77"]
    assert cells["Time"].text == f"1{THIN}min left4{THIN}h elapsedits own estimate"
    assert cells["Hints"].text == ""
    assert cells["Time"].all("rect", class_="time")


def test_a_short_job_does_not_end_soon_before_most_of_it_is_over():
    context = with_job(showcase.make_idle_node(), limits=Limits(wall_secs=300))
    cells = rows_of(read_page(node_page(context)), "jobs-table")["666"]
    assert cells["Time"].text.startswith(f"4{THIN}min left")
    assert "Hints" not in cells  # no job has one, so that there is no column
    almost = with_job(showcase.make_idle_node(), limits=Limits(wall_secs=75))
    assert rows_of(read_page(node_page(almost)), "jobs-table")["666"]["Hints"].text == "ends soon"


def test_a_card_whose_use_is_not_told_is_not_called_idle():
    context = showcase.make_busy_node()
    cards = tuple(replace(each, ce_util_percent=None) for each in context.snapshot.gpus)
    uses = tuple(replace(each, ce_util_percent=None, busy_secs=None) for each in context.snapshot.job_gpus)
    context = replace(context, snapshot=replace(context.snapshot, gpus=cards, job_gpus=uses))
    assert "GPU idle" not in node_page(context)


def test_a_job_that_has_ended_is_greyed_and_told_when():
    page = read_page(node_page(showcase.make_busy_node()))
    (row,) = [each for each in page.all("tr") if each.attributes.get("class") == "ended"]
    assert row.all("bdi")[0].text == "48301"
    assert f"ended 1{THIN}min ago" in row.text
    assert "completed" in row.text


def test_jobs_whose_control_group_is_not_found_stand_above_all_with_the_daemon_s_own():
    daemon = DaemonGroups("slurmd", "/site.slice/\x1bslurmd.service")
    missing = JobsWithoutGroup(
        {JobKey("slurm", "48255"): Reason.FOUND, SGE: Reason.EXPECTED}, {"slurm": daemon}
    )
    page = read_page(node_page(replace(showcase.make_busy_node(), missing_groups=missing)))
    (notice,) = page.all("div", class_="notice")
    assert notice.text == (
        "No control group is found of 1 running job: 48255Of such a job neither CPU time nor memory is known: "
        "slurmd's control group is /site.slice/\\x1bslurmd.service. jobfeatures-exporter doctor says what to set."
    )


def test_a_job_that_has_ended_and_left_processes_is_told_as_such():
    page = read_page(node_page(showcase.make_leftover_node()))
    (notice,) = page.all("div", class_="notice")
    assert notice.text == (
        "1 job has ended, processes remain: 48255They use CPUs and memory that the batch system may give to "
        "other jobs: check what they are doing or waiting for. Their directories are kept for an hour."
    )
    row = rows_of(page, "jobs-table")["48255"]
    assert row["Job"].text == "48255slurm completed"
    assert row["Hints"].text == "processes remain"
    assert row["Time"].text.startswith(f"ended 5{THIN}min ago")
    assert row["Processes"].text.startswith("17")
    assert row["Waste if killed"].text == "–"
    before = tiles_of(read_page(node_page(showcase.make_busy_node())))["Jobs"]
    assert before.startswith("6120 of 128 CPUs allocated")
    assert tiles_of(page)["Jobs"].startswith("5104 of 128 CPUs allocated")
    many = {JobKey("slurm", str(number)): showcase.NOW for number in range(10)}
    context = showcase.make_unknown_node()
    seen = {key: replace(next(iter(context.snapshot.jobs.values())), key=key) for key in many}
    context = replace(context, leftovers=many, snapshot=replace(context.snapshot, jobs=seen))
    notice = read_page(node_page(context)).all("div", class_="notice")[0].text
    assert "10 jobs have ended, processes remain: 0, 1, 2, 3, 4, 5, 6, 7 and 2 more" in notice


def test_one_job_past_its_limit_does_not_blank_the_others():
    page = read_page(node_page(showcase.make_late_node()))
    tiles = tiles_of(page)
    assert tiles["Jobs"].startswith("6104 of 128 CPUs allocatedallocation of 1 job unknown")
    assert tiles["If drained now"].endswith(
        "(mixed)of 5 of 6 jobs4.61 core h in the jobs' rows, 3,810 core h on CPUs without a job"
    )
    assert tiles["If killed now"].endswith("(mixed)")
    (notice,) = page.all("div", class_="notice")
    assert "slurm answers, but not about this node: scontrol show node: Slurm knows no node" in notice.text
    assert "node.name" in notice.text
    assert rows_of(page, "sources-table")["slurm"]["State"].text.startswith("partial")


def test_one_line_a_job_has_the_same_figures_and_the_order_of_the_address():
    page = read_page(dense_page(showcase.make_busy_node()))
    rows = rows_of(page, "jobs-table")
    assert list(rows)[:3] == ["48310", "48291_7", "48307"]
    job = {title: cell.text.replace(THIN, " ") for title, cell in rows["48310"].items()}
    assert job["CPUs"] == "< 0.1 of 8"
    assert job["Memory"] == "3.1 of 64 GiB"
    assert job["Wasted now"] == "25 %: 1 GPU idle, 8 CPUs idle, 60.9 GiB unused"
    assert not page.all("dl")
    choices = page.all("nav", class_="choices")[0]
    assert [each.text for each in choices.all("strong")] == ["Wastes most now", "One line per job"]
    assert [each.attributes["href"] for each in choices.all("a")] == ["./?view=dense", "./?sort=wasted"]


def test_with_many_jobs_each_view_is_marked_and_can_be_left(monkeypatch):
    monkeypatch.setattr(node, "MANY_JOBS", 5)
    context = showcase.make_busy_node()
    for view, current, others in (
        ("", "One line per job", ["./?view=full", "./?view=dense"]),
        (FULL, "Full", ["./", "./?view=dense"]),
        (DENSE, "Jobs alone", ["./?view=full", "./"]),
    ):
        page = read_page(node.render_node(context, showcase.families_of(context), asked=AskedPage(view=view)))
        choices = page.all("nav", class_="choices")[0]
        assert [each.text for each in choices.all("strong")] == ["Largest first", current]
        assert [each.attributes["href"] for each in choices.all("a")][1:] == others
        assert "cards" in page.all("table", id="jobs-table")[0].attributes["class"].split()  # on a phone


def test_the_worst_hints_sort_first():
    page = read_page(node_page(showcase.make_busy_node()))
    found = {}
    for row in rows_of(page, "jobs-table").values():
        cell = row["Hints"]
        kinds = {each.attributes["class"].split()[-1] for each in cell.all("span")}
        found[float(cell.attributes["data-order"])] = "bad" in kinds
    ordered = [found[each] for each in sorted(found)]
    assert ordered == sorted(ordered, reverse=True)
    assert {True, False} == set(ordered)


@pytest.mark.parametrize("known", [{"gpus": (GpuView("GPU-1", is_allocated=True),)}, {"allocated_gpus": 4}])
def test_unknown_use_sorts_last(known):
    shown = NodeView(jobs=(JobView(key=JobKey("slurm", "1"), allocated_cpus=4, **known),), count=1)
    table = read_page(jobs_table(shown, PageData(Context(now_secs=0.0), ()), {}, has_gpus=True))
    (row,) = rows_of(table, "jobs-table").values()
    assert {row[each].attributes["data-order"] for each in ("CPUs", "Memory", "GPUs")} == {"inf"}


@pytest.mark.parametrize("is_dense", [False, True])
def test_a_node_without_cards_has_no_column_for_them(is_dense):
    shown = NodeView(
        jobs=(JobView(key=JobKey("slurm", "1"), processes_remain=True, is_running=False),), count=1
    )
    data = PageData(Context(now_secs=0.0), ())
    table = read_page(jobs_table(shown, data, {}, has_gpus=False, is_dense=is_dense))
    (row,) = rows_of(table, "jobs-table").values()
    assert "GPUs" not in row
    assert row["Hints"].text == "processes remain"
