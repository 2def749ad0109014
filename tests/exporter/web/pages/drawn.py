"""The pages that tests look at, of constructed nodes and a constructed cluster, and what stands on them."""

from __future__ import annotations

import functools
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures_exporter.cluster.overview import find_jobs
from jobfeatures_exporter.families.exposition import render
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.web.asked import AskedPage
from jobfeatures_exporter.web.pages.controller import render_controller
from jobfeatures_exporter.web.pages.job import render_job, render_unknown
from jobfeatures_exporter.web.pages.node import render_node, view_context
from tests.exporter.madecontext import make_context
from tests.exporter.web.pages import showcase, test_job
from tests.exporter.web.pages.reading import Element, read_page

THIN = "\u202f"


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
    return render_node(context, showcase.families_of(context), history=history)


def controller_page(context: Context | None = None, views=None, **found) -> str:
    known, all_views = showcase.make_cluster_context()
    context = known if context is None else context
    families = showcase.families_of(context, "controller")
    views = all_views if views is None else views
    return render_controller(context, families, views, **found)


def job_page(context: Context, key: JobKey, **details) -> str:
    families = showcase.families_of(context)
    (view,) = view_context(context, Numbers(families), only=key).jobs
    course = showcase.make_history(context).job(key)
    return render_job(context, families, view, course, showcase.make_details(**details))


def dense_page(context: Context) -> str:
    history = showcase.make_history(context)
    asked = AskedPage(view="dense", sort="wasted")
    return render_node(context, showcase.families_of(context), history=history, asked=asked)


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


def rows_of(page: Element, table: str) -> dict[str, dict[str, Element]]:
    """Return the cells of a table by the row's heading and the column's."""
    (found,) = page.all("table", id=table)
    heads = [each.text for each in found.all("th", scope="col")]
    return {
        (row.children[0].all("bdi") or [row.children[0]])[0].text: dict(zip(heads, row.children, strict=True))
        for row in found.all("tbody")[0].children
    }


def samples_of(families) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return what another reader finds on the page of metrics."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(render(families, openmetrics=False).decode()):
        for each in family.samples:
            found.setdefault(each.name, []).append((each.labels, each.value))
    return found


def tiles_of(page: Element) -> dict[str, str]:
    (tiles,) = page.all("dl", class_="tiles")
    return {each.children[0].text: each.children[1].text.replace(THIN, " ") for each in tiles.children}


def section_of(page: Element, identity: str) -> Element:
    (found,) = page.all("section", aria_labelledby=identity)
    return found


def with_job(context: Context, **changes) -> Context:
    job = Job(key=JobKey("slurm", "666"), state=JobState.RUNNING, start_secs=int(showcase.NOW) - 60)
    return replace(context, jobs={**context.jobs, job.key: replace(job, **changes)})
