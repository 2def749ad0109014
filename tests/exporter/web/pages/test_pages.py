"""Both pages, of constructed nodes and a constructed cluster: as they are, accessible, and like /metrics."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from prometheus_client.parser import text_string_to_metric_families

from jobfeatures.drains.drain import Announced, Drain, Drains
from jobfeatures.drains.nodemetrics import gather_nodes
from jobfeatures.drains.nodemetrics import parse_page as parse_series
from jobfeatures.drains.plan import compute_choice, plan_drain
from jobfeatures.publish.drainbook import DrainView
from jobfeatures.records.model import Job, JobKey, JobState, Limits
from jobfeatures.status.board import StatusView
from jobfeatures.status.jobstatus import JobStatus
from jobfeatures_exporter.cluster.finding import find_jobs
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.scrape.exposition import render
from jobfeatures_exporter.view import units
from jobfeatures_exporter.view.job import GpuUse, JobView
from jobfeatures_exporter.view.node import NodeView
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.web.asked import Asked
from jobfeatures_exporter.web.pages.controller import render_controller
from jobfeatures_exporter.web.pages.job import render_job, render_unknown
from jobfeatures_exporter.web.pages.jobs import jobs_table
from jobfeatures_exporter.web.pages.node import render_node, view_context
from jobfeatures_exporter.web.pages.pieces import MAX_ROWS, PageData
from tests.exporter.conftest import make_context
from tests.exporter.web.pages import showcase, test_job
from tests.exporter.web.pages.reading import Element, read_page
from tests.exporter.web.pages.test_markup import HOSTILE

GOLDEN = Path(__file__).parents[3] / "fixtures" / "golden"
THIN = "\u202f"
OWN = re.compile(
    r"job/[A-Za-z0-9_.~%-]+\?system=[A-Za-z0-9_.~%-]+|\./(\?(view=dense|view=full|sort=wasted|&)+)?"
)


def make_everything() -> Context:
    """Return the context in which every metric has a sample, hostile names among them."""
    return make_context()


NODES = {
    "busy": showcase.make_busy_node,
    "draining": showcase.make_draining_node,
    "idle": showcase.make_idle_node,
    "silent": showcase.make_silent_node,
    "unknown": showcase.make_unknown_node,
    "late": showcase.make_late_node,
    "leftover": showcase.make_leftover_node,
    "everything": make_everything,
    "nothing": lambda: Context(now_secs=showcase.NOW),
}


def node_page(context: Context) -> str:
    history = showcase.make_history(context)
    return render_node(context, showcase.families_of(context), showcase.TZ, history=history)


def controller_page(context: Context | None = None, views=None, **found) -> str:
    known, all_views = showcase.make_cluster_context()
    context = known if context is None else context
    families = showcase.families_of(context, "controller")
    views = all_views if views is None else views
    return render_controller(context, families, views, showcase.TZ, **found)


def job_page(context: Context, key: JobKey, **details) -> str:
    families = showcase.families_of(context)
    (view,) = view_context(context, Numbers(families), only=key).jobs
    course = showcase.make_history(context).job(key)
    return render_job(context, families, view, course, showcase.make_details(**details), showcase.TZ)


def dense_page(context: Context) -> str:
    history = showcase.make_history(context)
    asked = Asked(is_dense=True, sort="wasted")
    return render_node(context, showcase.families_of(context), showcase.TZ, history=history, asked=asked)


PAGES = {
    "dense-busy": lambda: dense_page(showcase.make_busy_node()),
    "dense-everything": lambda: dense_page(make_everything()),
    "dense-nothing": lambda: dense_page(Context(now_secs=showcase.NOW)),
    "job-pilot": lambda: job_page(showcase.make_busy_node(), JobKey("spool", "pilot-77")),
    "job-idle": lambda: job_page(showcase.make_busy_node(), JobKey("slurm", "48310")),
    **{f"node-{name}": lambda make=make: node_page(make()) for name, make in NODES.items()},
    "gone": test_job.page_of,
    "no-such-job": lambda: render_unknown("<i>7"),
    "controller": controller_page,
    "controller-find": lambda: controller_page(
        find="mweber", found=find_jobs([showcase.make_queue()], "mweber", lambda job: job)
    ),
    "controller-nothing": lambda: controller_page(Context(now_secs=showcase.NOW), ()),
    "controller-everything": lambda: controller_page(make_context()),
}


@functools.cache
def text_of(name: str) -> str:
    return PAGES[name]()


@functools.cache
def page_of(name: str) -> Element:
    return read_page(text_of(name))


@pytest.fixture(params=PAGES)
def drawn(request) -> str:
    return request.param


@pytest.fixture
def text(drawn) -> str:
    return text_of(drawn)


@pytest.fixture
def page(drawn) -> Element:
    return page_of(drawn)


def rows_of(page: Element, table: str) -> dict[str, dict[str, Element]]:
    """Return the cells of a table by the row's heading and the column's."""
    (found,) = page.all("table", id=table)
    heads = [each.text for each in found.all("th", scope="col")]
    return {
        (row.children[0].all("bdi") or [row.children[0]])[0].text: dict(zip(heads, row.children, strict=True))
        for row in found.all("tbody")[0].children
    }


# --- as they are ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["node-draining", "controller"])
def test_the_pages_are_as_they_were(name):
    path = GOLDEN / f"page-{name}.html"
    # The version changes with each release, and lines make differences readable.
    made = re.sub(r"jobfeatures-exporter [0-9.]+\S*\.", "jobfeatures-exporter VERSION.", text_of(name))
    made = re.sub(r"(</(?:tr|p|div|dl|h2|section|thead|head|header)>)", r"\1\n", made)
    if os.environ.get("JOBFEATURES_WRITE_GOLDEN"):
        path.write_text(made)
    assert made == path.read_text()


# --- sound, accessible ------------------------------------------------------------


def test_a_page_is_well_formed_and_in_a_language(text, page):
    assert text.startswith("<!DOCTYPE html>\n")
    (html,) = page.all("html")
    assert html.attributes["lang"] == "en"
    assert len(page.all("title")[0].text) > 3
    assert page.all("meta", name="viewport")


def test_a_page_has_one_main_heading_and_no_level_is_left_out(page):
    levels = [int(each.tag[1]) for each in page.within if re.fullmatch("h[1-6]", each.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert set(levels) <= {1, 2}


def test_ids_are_unique_and_references_lead_somewhere(page):
    ids = [each.attributes["id"] for each in page.within if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    for each in page.within:
        if "aria-labelledby" in each.attributes:
            assert each.attributes["aria-labelledby"] in ids
        if (each.attributes.get("href") or "").startswith("#"):
            assert each.attributes["href"][1:] in ids


def test_every_drawing_says_in_words_what_it_shows(page):
    for each in page.all("svg"):
        assert each.attributes["role"] == "img"
        assert re.search(r"[a-z]", each.attributes["aria-label"])
        assert "None" not in each.attributes["aria-label"]


def test_every_table_has_a_caption_and_its_headings_a_scope(page):
    for table in page.all("table"):
        assert table.children[0].tag == "caption"
        assert table.children[0].text
        assert all(each.attributes.get("scope") in {"col", "row"} for each in table.all("th"))
        heads = len(table.all("th", scope="col"))
        for row in table.all("tbody")[0].children:
            assert len(row.children) == heads
            assert row.children[0].attributes.get("scope") == "row"


def test_no_column_is_empty(page):
    """A heading without a word stands nowhere, nor one above cells that are all empty."""
    for table in page.all("table"):
        rows = [row.children for row in table.all("tbody")[0].children]
        for at, head in enumerate(table.all("th", scope="col")):
            assert head.text
            assert not rows or any(row[at].text or row[at].children for row in rows), head.text


def test_what_scrolls_can_be_reached_by_keyboard_and_has_a_name(page):
    for each in page.all("div", class_="scroll"):
        assert each.attributes["tabindex"] == "0"
        assert each.attributes["role"] == "region"
        assert each.attributes["aria-label"]


def test_nothing_stands_inline_and_nothing_comes_from_elsewhere(text, page):
    for each in page.within:
        assert not {"style", "onclick", "onload", "onerror"} & each.attributes.keys()
        for name in ("src", "href"):
            address = (each.attributes.get(name) or "x").removeprefix("../") or "x"
            assert address is None or (
                re.fullmatch(r"#?[a-z-][a-z./-]*", address) or re.fullmatch(OWN, address)
            ), address
    assert page.all("style") == []
    assert [each.text for each in page.all("script")] == [""]
    assert "None" not in re.sub(r"<[^>]*>", " ", text)


def test_a_link_of_a_page_is_one_that_its_listener_answers(page):
    links = {each.attributes["href"].removeprefix("../") for each in page.all("a")} - {""}
    links -= {each for each in links if OWN.fullmatch(each)}
    assert {"metrics", "-/healthy", "-/ready"} <= links
    assert links <= {"#content", "metrics", "-/healthy", "-/ready", "sd", "docs/page.md"}
    assert "docs/page.md" in links


# --- like /metrics ----------------------------------------------------------------


def samples_of(families) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return what another reader finds on the page of metrics."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(render(families, openmetrics=False).decode()):
        for each in family.samples:
            found.setdefault(each.name, []).append((each.labels, each.value))
    return found


@pytest.mark.parametrize("name", [*NODES, "controller"])
def test_every_figure_of_a_page_is_a_sample_of_its_metric(name):
    if name == "controller":
        context, _ = showcase.make_cluster_context()
        page, role = read_page(controller_page()), "controller"
    else:
        context = NODES[name]()
        page, role = read_page(node_page(context)), "node"
    samples = samples_of(showcase.families_of(context, role))
    figures = page.all("data")
    assert len(figures) > (1 if name == "nothing" else 15)
    for each in figures:
        values = [value for _, value in samples[each.attributes["title"]]]
        assert float(each.attributes["value"]) in values


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


def test_figures_of_partitions_stand_in_their_rows():
    context, _ = showcase.make_cluster_context()
    samples = samples_of(showcase.families_of(context, "controller"))
    page = read_page(controller_page())
    for table in ("nodes-table", "queue-table"):
        for partition, cells in rows_of(page, table).items():
            for figure in (each for cell in cells.values() for each in cell.all("data")):
                values = [
                    value
                    for labels, value in samples[figure.attributes["title"]]
                    if labels["partition"] == partition
                ]
                assert float(figure.attributes["value"]) in values


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


def test_a_job_whose_cpus_are_idle_is_said_to_wait_or_to_have_no_payload_or_to_be_suspended():
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
    assert hints(replace(context, statuses={**context.statuses, key: between})) == ["no payload", "GPU idle"]
    suspended = replace(context.jobs[key], state=JobState.SUSPENDED)
    assert hints(replace(context, jobs={**context.jobs, key: suspended})) == ["GPU idle"]


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


def test_a_shutdown_is_told_with_who_asks_for_it():
    page = read_page(node_page(showcase.make_draining_node()))
    failing, notice = page.all("div", class_="notice")
    assert failing.text.replace(THIN, " ") == (
        "slurm has not answered for 4 min: its data shown here are older (since Fri 15 Jan 2027 07:56 UTC): "
        "scontrol: Unable to contact slurm controller (connect failure)"
        "Check that its server runs and can be reached from here"
    )
    assert "Fri 15 Jan 2027 14:00 UTC" in notice.text
    assert f"in 6{THIN}h" in notice.text
    assert "requested by root" in notice.text
    assert "slurm starts no more jobs here" in notice.text
    assert read_page(node_page(showcase.make_busy_node())).all("div", class_="notice") == []


def test_a_source_that_fails_says_why_and_how_old_its_answer_is():
    rows = rows_of(read_page(node_page(showcase.make_draining_node())), "sources-table")
    assert rows["slurm"]["State"].text.startswith("failingscontrol: Unable to contact")
    assert rows["slurm"]["Last answer"].text == f"12{THIN}s ago"
    assert rows["slurm"]["Failures"].text == "4 failed"


def tiles_of(page: Element) -> dict[str, str]:
    (tiles,) = page.all("dl", class_="tiles")
    return {each.children[0].text: each.children[1].text.replace(THIN, " ") for each in tiles.children}


def test_where_no_batch_system_has_answered_nothing_is_said_to_be_none():
    page = read_page(node_page(showcase.make_silent_node()))
    text = page.all("main")[0].text.replace(THIN, " ")
    assert "No batch job is on this node." not in text
    assert "No job is seen on this node; no batch system has answered yet (slurm)." in text
    (notice,) = page.all("div", class_="notice")
    assert "slurm has never answered, and has failed for 3 min 10 s" in notice.text.replace(THIN, " ")
    assert "cannot stat file /etc/slurm/slurm.conf: No such file or directory, retrying" in notice.text
    assert "SLURM_CONF" in notice.text
    tiles = tiles_of(page)
    assert tiles["Jobs"] == "–CPUs allocated: unknownnot all batch systems have answered"
    assert tiles["If drained now"] == tiles["If killed now"] == "–jobs unknown"


def test_jobs_that_only_control_groups_show_are_told_as_such():
    page = read_page(node_page(showcase.make_unknown_node()))
    assert len(rows_of(page, "jobs-table")) == 16
    (notice,) = page.all("div", class_="notice")
    assert "The allocation of 16 jobs is unknown" in notice.text
    tiles = tiles_of(page)
    assert tiles["Jobs"] == "16CPUs allocated: unknownallocation of 16 jobs unknown"
    assert tiles["If drained now"] == "–unknown for all jobs"
    assert tiles["If killed now"].endswith("would be lost (measured)")  # by the CPU time that they have used


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


def test_a_node_that_nobody_is_asked_about_says_so():
    context = replace(showcase.make_idle_node(), sources=())
    assert "No job is seen on this node, and no batch system is queried (batch.sources)." in node_page(
        context
    )


def test_the_tile_of_draining_says_what_is_the_jobs_own():
    tiles = tiles_of(read_page(node_page(showcase.make_busy_node())))
    rows = rows_of(read_page(node_page(showcase.make_busy_node())), "jobs-table")
    own = sum(
        float(each.attributes["value"])
        for cells in rows.values()
        for each in cells["Waste if drained"].all("data")
    )
    said = tiles["If drained now"].split("(mixed)")[1]
    assert said.startswith(f"{units.format_core_time(own)} in the jobs' rows".replace(THIN, " "))


def test_the_job_that_wastes_most_now_stands_in_a_tile_and_sorts_first():
    page = read_page(node_page(showcase.make_busy_node()))
    worst = max(
        rows_of(page, "jobs-table").items(),
        key=lambda row: (float(row[1]["Wasted now"].attributes.get("data-order", "0")) % 1e300, row[0]),
    )
    assert worst[0] == "48310"
    assert tiles_of(page)["Wastes most now"] == "483101 GPU idle8 CPUs idle60.9 GiB unused"
    (head,) = [each for each in page.all("th", scope="col") if each.text == "Wasted now"]
    assert "data-down" in head.attributes
    assert "Wastes most now" not in tiles_of(read_page(node_page(Context(now_secs=showcase.NOW))))


def section_of(page: Element, identity: str) -> Element:
    (found,) = page.all("section", aria_labelledby=identity)
    return found


def test_what_is_found_over_the_cluster_leads_to_its_page_on_its_node():
    queue = showcase.make_queue()
    job = replace(next(iter(queue.jobs.values())), nodes=("n1", "<i>"))
    queue = replace(queue, jobs={job.key: job})
    found = find_jobs([queue], job.key.job_id, lambda job: job)
    page = read_page(
        controller_page(find=f'"><b>{job.key.job_id}', found=found, node_url="https://{node}:9819/")
    )
    (form,) = page.all("form")
    assert form.all("input")[0].attributes["value"] == f'"><b>{job.key.job_id}'
    assert page.all("b") == []
    row = rows_of(page, "found-table")[job.key.job_id]
    link = row["Nodes"].all("a")[0].attributes["href"]
    assert link == f"https://{job.nodes[0]}:9819/job/{job.key.job_id}?system=slurm"
    nothing = read_page(controller_page(find="nobody", found=find_jobs([queue], "nobody", lambda job: job)))
    assert "no job with this number and no user with this name" in section_of(nothing, "find").text


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


def test_the_plan_of_a_node_is_that_of_the_command():
    """`jobfeatures drain plan` reads the same page of metrics."""
    context = showcase.make_draining_node()
    text = render(showcase.families_of(context), openmetrics=False).decode()
    (node,) = gather_nodes(parse_series(text))
    plan = plan_drain(node)
    page = read_page(node_page(context))
    facts = section_of(page, "draining").all("figcaption")[0].text.replace(THIN, " ")
    assert facts.startswith(f"Cheapest in {units.format_span(plan.best.after_secs)}".replace(THIN, " "))
    assert (
        f"{plan.best.core_secs / 3600:.0f} core h (mixed), {len(plan.best.killed)} of 6 jobs killed" in facts
    )
    assert f"Now: {plan.choices[0].core_secs / 3600:.0f} core h" in facts
    planned = compute_choice(node, 6 * 3600)
    assert (
        f"At the planned shutdown: {planned.core_secs / 3600:.0f} core h, {len(planned.killed)} killed"
        in facts
    )
    (figures,) = page.all("table", id="plan-table")
    shown = [row.children[1].text for row in figures.all("tbody")[0].children]
    assert shown == [units.format_core_time(choice.core_secs) for choice in plan.choices]


def test_a_plan_of_hundreds_of_jobs_is_left_to_the_command():
    key = JobKey("slurm", "48307")
    context = showcase.make_busy_node()
    jobs = {
        JobKey("slurm", str(number)): replace(context.jobs[key], key=JobKey("slurm", str(number)))
        for number in range(250)
    }
    page = read_page(node_page(replace(context, jobs=jobs)))
    assert page.all("code")[0].text == "jobfeatures drain plan"
    assert section_of(page, "draining").all("figure") == []


def test_a_collector_that_is_off_leaves_its_figures_unknown():
    context = showcase.make_busy_node()
    families = [
        each for each in showcase.families_of(context) if not each.metric.name.startswith("batch_job_memory")
    ]
    rows = rows_of(read_page(render_node(context, families, showcase.TZ)), "jobs-table")
    assert rows["48307"]["Memory"].text == f"– of 96{THIN}GiB"  # what it was given is the allocation's
    assert rows["48307"]["CPUs"].text.startswith("9.9 of 16")


# --- bounded, and safe from names ---------------------------------------------------


def with_job(context: Context, **changes) -> Context:
    job = Job(key=JobKey("slurm", "666"), state=JobState.RUNNING, start_secs=int(showcase.NOW) - 60)
    return replace(context, jobs={**context.jobs, job.key: replace(job, **changes)})


@given(name=HOSTILE, user=HOSTILE, job_id=HOSTILE)
def test_no_name_of_a_job_changes_the_page_around_it(name, user, job_id):
    plain = read_page(node_page(with_job(showcase.make_idle_node(), name="x", user="y")))
    made = with_job(
        showcase.make_idle_node(), name=name or "x", user=user or "y", key=JobKey("slurm", job_id)
    )
    page = read_page(node_page(made))
    assert [each.tag for each in page.within] == [each.tag for each in plain.within]


@given(word=HOSTILE)
def test_no_word_of_others_changes_the_page_around_it(word):
    def make(text: str) -> list[str]:
        context = showcase.make_draining_node()
        key = JobKey("spool", "pilot-77")
        context = replace(
            context,
            node_name=f"n{text}",
            drains=DrainView(
                Drains(Drain(int(showcase.NOW) + 60, 0, f"r{text}")), Announced({}, {}), f"problem {text}"
            ),
            statuses={key: replace(context.statuses[key], problem=f"bad {text}")},
            sources=tuple(replace(each, last_error=f"no {text}") for each in context.sources),
        )
        return [each.tag for each in read_page(node_page(context)).within]

    assert make(word) == make("")


def test_a_name_of_ten_thousand_letters_is_shortened_everywhere():
    context = with_job(
        showcase.make_idle_node(), name="n" * 10_000, user="u" * 10_000, key=JobKey("slurm", "7" * 10_000)
    )
    assert len(node_page(context)) < len(node_page(with_job(showcase.make_idle_node()))) + 2500


def test_of_thousands_of_jobs_as_many_as_make_a_page_are_shown_and_the_others_counted():
    jobs = {
        JobKey("slurm", str(number)): Job(
            key=JobKey("slurm", str(number)),
            state=JobState.RUNNING,
            allocated_cpus=2 if number == 4321 else 1,
        )
        for number in range(5000)
    }
    text = node_page(replace(showcase.make_idle_node(), jobs=jobs))
    rows = rows_of(read_page(text), "jobs-table")
    assert len(rows) == MAX_ROWS
    assert next(iter(rows)) == "4321"  # the largest first
    assert "4,500 more are not shown" in text
    assert len(text) < 1_500_000


@pytest.mark.parametrize("known", [{"gpus": (GpuUse("GPU-1", is_allocated=True),)}, {"allocated_gpus": 4}])
def test_unknown_use_sorts_last(known):
    shown = NodeView(jobs=(JobView(key=JobKey("slurm", "1"), allocated_cpus=4, **known),), count=1)
    table = read_page(jobs_table(shown, PageData(Context(now_secs=0.0), ()), {}, has_gpus=True))
    (row,) = rows_of(table, "jobs-table").values()
    assert {row[each].attributes["data-order"] for each in ("CPUs", "Memory", "GPUs")} == {"inf"}


def make_many(count: int) -> Context:
    """Return the busy node with so many jobs, each with two CPUs of which it uses none."""
    context = showcase.make_busy_node()
    sample, job = (known[JobKey("slurm", "48307")] for known in (context.snapshot.jobs, context.jobs))
    keys = [JobKey("slurm", str(50_000 + number)) for number in range(count)]
    samples = {key: replace(sample, key=key, user_cpu_secs=1.0, system_cpu_secs=0.0) for key in keys}
    return replace(
        context,
        snapshot=replace(context.snapshot, jobs=samples, gpus=(), job_gpus=(), gpu_drivers={}),
        jobs={key: replace(job, key=key, allocated_cpus=2, allocated_gpus=None) for key in keys},
        statuses={},
        ended={},
        cpu_rates=dict.fromkeys(keys, 0.0),
    )


def page_with(count: int, asked: Asked) -> str:
    context = make_many(count)
    return render_node(context, showcase.families_of(context), showcase.TZ, asked=asked)


@pytest.mark.parametrize(
    ("count", "asked", "are_lines"),
    [
        (24, Asked(), False),
        (25, Asked(), True),
        (25, Asked(is_full=True), False),
        (24, Asked(is_full=True), False),
        (2, Asked(is_dense=True), True),
    ],
)
def test_many_jobs_have_a_line_each_unless_all_is_asked_for(count, asked, are_lines):
    text = page_with(count, asked)
    assert ("one line each" in text) == are_lines
    assert ('href="./?view=full"' in text) == (are_lines and count > 24)
    assert ("This exporter" in text) == (not asked.is_dense)  # what follows the jobs is there


def test_the_head_of_the_page_counts_what_is_wrong_with_jobs():
    tiles = page_with(64, Asked()).partition("<section")[0]
    assert "64 × CPUs idle" in tiles
    assert "1 × memory near its limit" in text_of("node-busy").partition("<section")[0]
    assert "×" not in text_of("node-idle").partition("<section")[0]
