"""The page of a node: its tiles, its sources, and what is unknown."""

from __future__ import annotations

from dataclasses import replace

from jobfeatures.errors import Rejected
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import ASKED_FOR, ProcessReader
from jobfeatures_exporter.scrape.budget import DROPPED
from jobfeatures_exporter.view import units
from jobfeatures_exporter.view.sources import READ_ONE_BY_ONE
from jobfeatures_exporter.web.pages.node import render_node
from tests.exporter.web.pages import showcase
from tests.exporter.web.pages.drawn import THIN, node_page, rows_of, tiles_of
from tests.exporter.web.pages.reading import read_page


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


def test_what_is_left_out_stands_at_the_top_with_what_helps():
    context = showcase.make_idle_node()
    assert read_page(node_page(context)).all("div", class_="notice") == []
    rejected = Rejected("/spool/7.xml", "must be at least 0", line=3, field="Duration", text="<script>")
    sources = (*context.sources[:-1], replace(context.sources[-1], skipped=(rejected, rejected, rejected)))
    slow = replace(context.snapshot, reader=ProcessReader("procfs", "no libbpf.so.1 or libbpf.so.0"))
    context = replace(context, sources=sources, snapshot=slow)
    families = [*showcase.families_of(context), Family.single(DROPPED, 2843)]
    page = render_node(context, families)
    (notice,) = read_page(page).all("div", class_="notice")
    last = sources[-1].name
    assert notice.text.replace(THIN, " ") == (
        f"Some records of {last} are skipped: /spool/7.xml:3:Duration: must be at least 0, and 2 more"
        "Jobs or some of their data may be missing here; see the log."
        "2,843 series are left out of /metrics: the lightest jobs are summed there"
        "Raise metrics.max_series, and Prometheus' sample_limit with it."
        f"{READ_ONE_BY_ONE}: no libbpf.so.1 or libbpf.so.0"
        "Install libbpf, or a newer one (Debian: libbpf1, Red Hat: libbpf); "
        'to go without eBPF, set sampling.processes = "procfs".'
    )
    assert page.index("Some records of") < page.index("CPUs busy") < page.index("This exporter")


def test_a_long_name_of_a_file_does_not_hide_why_it_cannot_be_used():
    context = showcase.make_idle_node()
    skipped = (Rejected("/spool/" + "d" * 255, "not a <b>job", field="Duration"),)
    context = replace(context, sources=(replace(context.sources[0], skipped=skipped),))
    (notice,) = read_page(node_page(context)).all("div", class_="notice")
    assert "ddd…:Duration: not a <b>jobJobs or" in notice.text


def test_a_node_whose_processes_are_read_one_by_one_by_wish_says_nothing_of_it():
    context = showcase.make_idle_node()
    for reader in (ProcessReader("procfs", ASKED_FOR), ProcessReader("bpf"), None):
        shown = replace(context, snapshot=replace(context.snapshot, reader=reader))
        assert "one by one" not in node_page(shown)


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


def test_a_collector_that_is_off_leaves_its_figures_unknown():
    context = showcase.make_busy_node()
    families = [
        each for each in showcase.families_of(context) if not each.metric.name.startswith("batch_job_memory")
    ]
    rows = rows_of(read_page(render_node(context, families)), "jobs-table")
    assert rows["48307"]["Memory"].text == f"– of 96{THIN}GiB"  # what it was given is the allocation's
    assert rows["48307"]["CPUs"].text.startswith("9.9 of 16")
