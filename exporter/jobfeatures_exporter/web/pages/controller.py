"""The page of the controller role: nodes, queues, users, drain plans. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from jobfeatures_exporter.cluster.finding import Found
from jobfeatures_exporter.cluster.view import ClusterView
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.exposition import Family
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.view.sources import view_sources
from jobfeatures_exporter.view.units import format_core_time, format_count, format_share, format_when
from jobfeatures_exporter.web.pages.finding import find_section
from jobfeatures_exporter.web.pages.health import health_section
from jobfeatures_exporter.web.pages.layout import page
from jobfeatures_exporter.web.pages.markup import Html, tag
from jobfeatures_exporter.web.pages.partitions import nodes_table, queue_table
from jobfeatures_exporter.web.pages.pieces import Part, as_of, bar, known, section, tile, tiles
from jobfeatures_exporter.web.pages.plans import plans_section
from jobfeatures_exporter.web.pages.quality import quality_section
from jobfeatures_exporter.web.pages.troubles import troubles_notice, words_of

NOTHING = Found()


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
    numbers = Numbers(families)
    systems = ", ".join(view.source for view in views)
    troubles = [each for each in view_sources(numbers, words_of(context)) if each.is_failing]
    return page(
        f"Cluster ({systems})" if systems else "Cluster",
        _as_of(context, tz),
        troubles_notice(troubles, context.now_secs, tz),
        tiles(*(each for view in views for each in _tiles(view, several=len(views) > 1))),
        find_section(find, found, node_url, tz),
        section("Nodes", "nodes", nodes_table(context, numbers)),
        section("Queue", "queue", queue_table(context, numbers)),
        *(quality_section(each, numbers, tz) for each in context.schedules),
        plans_section([curve for view in views for curve in view.curves], context.now_secs, tz),
        health_section(context, numbers),
        links=(("sd", "Service discovery"),),
    )


def _as_of(context: Context, tz: tzinfo | None) -> Html:
    taken = [each.table.taken_at_secs for each in context.sources if each.table is not None]
    read = as_of(min(taken, default=None), context.now_secs, tz, "no batch system has answered yet")
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
