"""The page of the controller role: a search for jobs, nodes, queues, users, drain plans. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from jobfeatures.model import Job
from jobfeatures_exporter.cluster.finding import Found, user_of
from jobfeatures_exporter.cluster.view import ClusterView
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.exposition import Family
from jobfeatures_exporter.view.sources import view_sources
from jobfeatures_exporter.view.units import (
    counted,
    format_core_time,
    format_count,
    format_figure,
    format_share,
    format_when,
)
from jobfeatures_exporter.web.links import fill
from jobfeatures_exporter.web.pages.health import health_section, troubles_notice, words_of
from jobfeatures_exporter.web.pages.layout import page
from jobfeatures_exporter.web.pages.markup import Html, listed, name, tag
from jobfeatures_exporter.web.pages.partitions import nodes_table, queue_table
from jobfeatures_exporter.web.pages.pieces import (
    UNKNOWN,
    Cell,
    PageData,
    Part,
    Row,
    bar,
    job_address,
    known,
    lines,
    note,
    numeric,
    section,
    table,
    tile,
    tiles,
)
from jobfeatures_exporter.web.pages.plans import plans_section
from jobfeatures_exporter.web.pages.quality import quality_section

NOTHING = Found()
SHOWN_NODES = 8


def render_controller(
    context: Context,
    families: Sequence[Family],
    views: Sequence[ClusterView],
    tz: tzinfo | None = None,
    *,
    found: Found = NOTHING,
    find: str = "",
    node_url: str | None = None,
) -> str:
    """Return the page of what is known now; `families` are those of /metrics, times are shown in `tz`."""
    data = PageData(context, families, tz)
    systems = ", ".join(view.source for view in views)
    troubles = [each for each in view_sources(data.numbers, words_of(context)) if each.is_failing]
    return page(
        f"Cluster ({systems})" if systems else "Cluster",
        _as_of(data),
        troubles_notice(troubles, data),
        tiles(*(each for view in views for each in _tiles(view, several=len(views) > 1))),
        _find_section(find, found, node_url, data),
        section("Nodes", "nodes", nodes_table(data)),
        section("Queue", "queue", queue_table(data)),
        *(quality_section(each, data) for each in context.schedules),
        plans_section([curve for view in views for curve in view.curves], data),
        health_section(data),
        links=(("sd", "Service discovery"),),
    )


def _as_of(data: PageData) -> Html:
    taken = [each.table.taken_at_secs for each in data.context.sources if each.table is not None]
    read = data.as_of(min(taken, default=None), "no batch system has answered yet")
    return tag("p", read, class_="about", id="as-of")


def _tiles(view: ClusterView, *, several: bool) -> list[Html]:
    said = f", {view.source}" if several else ""
    made: list[Html] = []
    if view.nodes is not None:
        states = {state: count for (_, state), count in view.nodes.states.items()}
        draining = view.nodes.flags.get(("", "DRAIN"), 0)
        below = f"{states.get('DOWN', 0):,} down, {draining:,} draining"
        made.append(tile(f"Nodes{said}", f"{sum(states.values()):,}", below))
        for title, sums in (("CPUs", view.nodes.cpus), ("GPUs", view.nodes.gpus)):
            whole = sum(sums.values())
            if whole:
                used = sums.get(("", "allocated"), 0)
                words = f"{used:,} of {whole:,} allocated"
                drawn = bar(f"{words} {title}", Part(used / whole))
                made.append(tile(f"{title}{said}", format_share(used / whole), words, drawn=drawn))
    made.append(tile(f"Jobs that run{said}", known(view.running_jobs, format_count)))
    made.append(tile(f"Jobs that wait{said}", known(view.pending_jobs, format_count)))
    if view.curves:
        largest = view.curves[0].best
        cost = f"of the largest pool: {format_core_time(largest.core_secs)}"
        made.append(tile(f"Cheapest shutdown{said}", format_when(largest.after_secs), cost))
    return made


def _find_section(text: str, found: Found, node_url: str | None, data: PageData) -> Html:
    """Return the search, which works without a script; nothing but its form where nothing is looked for."""
    form = tag(
        "form",
        tag("label", "Job or user ", tag("input", type="search", name="find", value=text, id="find-text")),
        tag("button", "Find"),
        role="search",
        action="./",
        method="get",
        class_="tools",
    )
    if not text:
        return section("Find", "find", form)
    if not found.count:
        return section(
            "Find", "find", form, note("No job of that number and no user of that name is in the queue.")
        )
    said = note(f"{counted(found.count, 'job')} found")
    rows = [_found_row(job, node_url, data) for job in found.jobs]
    made = table(
        "Jobs that were found, running ones first",
        ["Job", "User", "State", "Partition", "CPUs", "Started", "Nodes"],
        rows,
        identity="found-table",
        kind="cards",
        more=found.count - len(rows),
    )
    return section("Find", "find", form, said, made)


def _found_row(job: Job, node_url: str | None, data: PageData) -> Row:
    nodes = [_node(job, node, node_url) for node in job.nodes[:SHOWN_NODES]]
    more = len(job.nodes) - len(nodes)
    user = user_of(job)
    return Row(
        Cell(lines(name(job.key.job_id, 24), job.key.batch_system), kind="job"),
        Cell(lines(name(user, 24) if user else UNKNOWN, name(job.name) if job.name else None), kind="user"),
        job.state.value.lower().replace("_", " "),
        name(job.partition, 32) if job.partition else UNKNOWN,
        numeric(known(job.total_cpus, format_figure)),
        UNKNOWN if job.start_secs is None else data.moment(job.start_secs),
        Cell(listed([*nodes, *([f"{more:,} more"] if more > 0 else [])]) if nodes else UNKNOWN, kind="wide"),
    )


def _node(job: Job, node: str, node_url: str | None) -> Html:
    """Return a node's name; a link to the job's page there where the site says what its address is."""
    address = None if node_url is None else job_address(job.key)
    shown = name(node, 32)
    if node_url is None or address is None:
        return shown
    return tag("a", shown, href=f"{fill(node_url, node=node).rstrip('/')}/{address}")
