"""The plan of a drain on the page of a node."""

from __future__ import annotations

from dataclasses import replace

from jobfeatures.drains.nodemetrics import NAMES, gather_nodes
from jobfeatures.drains.plan import compute_choice, plan_drain
from jobfeatures.records.model import JobKey
from jobfeatures.records.series import parse_lines
from jobfeatures_exporter.families.exposition import render
from jobfeatures_exporter.view import units
from tests.exporter.web.pages import showcase
from tests.exporter.web.pages.drawn import THIN, node_page, section_of
from tests.exporter.web.pages.reading import read_page


def test_the_plan_of_a_node_is_that_of_the_command():
    """`jobfeatures drain plan` reads the same page of metrics."""
    context = showcase.make_draining_node()
    text = render(showcase.families_of(context), openmetrics=False).decode()
    (node,) = gather_nodes(parse_lines(text, NAMES), "page")
    plan = plan_drain(node, context.now_secs)
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
