"""Makes the page of the controller role: job search, nodes, queue, schedule quality, drain plans. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobfeatures.records.metrics import Metric
from jobfeatures.records.model import Job
from jobfeatures.records.quantities import counted
from jobfeatures.records.schedulequality import ScheduleQuality, Verdict
from jobfeatures_exporter.cluster.overview import ClusterView, FoundJobs, user_of
from jobfeatures_exporter.cluster.sums import ClusterSums, QueueSums
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.scrape.collectors.controller import cluster, queue, schedule
from jobfeatures_exporter.view.sources import view_sources
from jobfeatures_exporter.view.units import (
    Form,
    format_bytes,
    format_core_time,
    format_count,
    format_figure,
    format_share,
    format_span,
    format_when,
)
from jobfeatures_exporter.web.config import fill_link
from jobfeatures_exporter.web.pages.health import health_section, troubles_notice, words_of
from jobfeatures_exporter.web.pages.layout import page
from jobfeatures_exporter.web.pages.markup import Child, Html, join, listed, name, tag
from jobfeatures_exporter.web.pages.pieces import (
    MAX_ROWS,
    UNKNOWN,
    Cell,
    PageData,
    Part,
    Row,
    badge,
    bar,
    figure,
    job_address,
    lines,
    note,
    number_or_dash,
    numeric,
    section,
    table,
    tile,
    tiles,
)
from jobfeatures_exporter.web.pages.plans import plans_section

NOTHING = FoundJobs()
SHOWN_NODES = 8


def render_controller(
    context: Context,
    families: Sequence[Family],
    views: Sequence[ClusterView],
    *,
    found: FoundJobs = NOTHING,
    find: str = "",
    node_url: str | None = None,
) -> str:
    """Return the HTML page of the controller role.

    `families` are the metrics of /metrics, `views` the batch systems, `find` the text searched for, `found`
    the jobs found, and `node_url` the template of links to nodes' pages.
    """
    data = PageData(context, families)
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
    aside = f", {view.source}" if several else ""
    made: list[Html] = []
    if view.nodes is not None:
        states = {state: count for (_, state), count in view.nodes.states.items()}
        draining = view.nodes.flags.get(("", "DRAIN"), 0)
        below = f"{states.get('DOWN', 0):,} down, {draining:,} draining"
        made.append(tile(f"Nodes{aside}", f"{sum(states.values()):,}", below))
        for title, sums in (("CPUs", view.nodes.cpus), ("GPUs", view.nodes.gpus)):
            whole = sum(sums.values())
            if whole:
                used = sums.get(("", "allocated"), 0)
                words = f"{used:,} of {whole:,} allocated"
                drawn = bar(f"{words} {title}", Part(used / whole))
                made.append(tile(f"{title}{aside}", format_share(used / whole), words, drawn=drawn))
    made.append(tile(f"Running jobs{aside}", number_or_dash(view.running_jobs, format_count)))
    made.append(tile(f"Pending jobs{aside}", number_or_dash(view.pending_jobs, format_count)))
    if view.curves:
        largest = view.curves[0].best
        cost = f"largest pool: {format_core_time(largest.core_secs)}"
        made.append(tile(f"Cheapest shutdown{aside}", format_when(largest.after_secs), cost))
    return made


def _find_section(text: str, found: FoundJobs, node_url: str | None, data: PageData) -> Html:
    """Return the search form, which needs no script, and the jobs found, if anything is searched for."""
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
            "Find", "find", form, note("The queue has no job with this number and no user with this name.")
        )
    aside = note(f"{counted(found.count, 'job')} found")
    rows = [_found_row(job, node_url, data) for job in found.jobs]
    made = table(
        "Jobs found, running ones first",
        ["Job", "User", "State", "Partition", "CPUs", "Started", "Nodes"],
        rows,
        identity="found-table",
        kind="cards",
        more=found.count - len(rows),
    )
    return section("Find", "find", form, aside, made)


def _found_row(job: Job, node_url: str | None, data: PageData) -> Row:
    nodes = [_node(job, node, node_url) for node in job.nodes[:SHOWN_NODES]]
    more = len(job.nodes) - len(nodes)
    user = user_of(job)
    return Row(
        Cell(lines(name(job.key.job_id, 24), job.key.batch_system), kind="job"),
        Cell(lines(name(user, 24) if user else UNKNOWN, name(job.name) if job.name else None), kind="user"),
        job.state.value.lower().replace("_", " "),
        name(job.partition, 32) if job.partition else UNKNOWN,
        numeric(number_or_dash(job.total_cpus, format_figure)),
        UNKNOWN if job.start_secs is None else data.moment(job.start_secs),
        Cell(listed([*nodes, *([f"{more:,} more"] if more > 0 else [])]) if nodes else UNKNOWN, kind="wide"),
    )


def _node(job: Job, node: str, node_url: str | None) -> Html:
    """Return a node's name, linked to the job's page there if web.node_url is set."""
    address = None if node_url is None else job_address(job.key)
    shown = name(node, 32)
    if node_url is None or address is None:
        return shown
    return tag("a", shown, href=f"{fill_link(node_url, node=node).rstrip('/')}/{address}")


# --- how good the schedule is ------------------------------------------------------------

VERDICTS = {  # label, and the class of the bar's part
    Verdict.CERTAINLY_LATE: ("certainly late", "bad-bar"),
    Verdict.POSSIBLY_LATE: ("possibly late", "over"),
    Verdict.NOT_LATE: ("not late", "used"),
}


def quality_section(quality: ScheduleQuality, data: PageData) -> Html:
    """Return the section on the quality of one batch system's schedule."""
    source = quality.source
    since = note(
        "Jobs that ended since ",
        data.moment(quality.begin_secs),
        ", compared with when each would have ended if its user had a share of ",
        data.figure(schedule.SHARE, format_figure, source),
        " CPUs alone. A user's VEET is the fraction of their jobs that ended later.",
    )
    return section(
        f"Users' expected ends, {quality.source}",
        f"quality-{quality.source}",
        since,
        tiles(*_quality_tiles(quality, data)),
        tag("div", _late_users(quality, data), _quantiles(quality, data), class_="columns shown"),
    )


def _quality_tiles(quality: ScheduleQuality, data: PageData) -> list[Html]:
    source = quality.source
    jobs, violated = data.numbers.one(schedule.JOBS, source), data.numbers.one(schedule.VIOLATED, source)
    share = violated / jobs if jobs and violated is not None else None
    drawn = None if share is None else bar(f"{format_share(share)} of the jobs late", Part(share, "over"))
    late = figure(schedule.VIOLATED, violated, format_count)
    of_all = join(late, " of ", figure(schedule.JOBS, jobs, format_count), " jobs")
    tardiness = join(data.figure(schedule.TARDINESS, format_span, source), " over all jobs")
    counts = {each: data.numbers.one(schedule.UNFINISHED, source, each.value) or 0 for each in Verdict}
    whole = sum(counts.values())
    words = ", ".join(f"{format_count(counts[each])} {aside}" for each, (aside, _) in VERDICTS.items())
    parts = [Part(counts[each] / (whole or 1), kind) for each, (_, kind) in VERDICTS.items()]
    unsettled = data.figure(schedule.UNSETTLED, format_count, source)
    users = data.figure(schedule.USERS, format_count, source)
    weighted = data.figure(schedule.WEIGHTED, format_core_time, source)
    return [
        tile("Ended late", number_or_dash(share, format_share), of_all, drawn=drawn),
        tile("Tardiness", weighted, tardiness),
        tile("Waiting or running", format_count(whole), words, drawn=bar(words, *parts) if whole else None),
        tile("Users", users, join(unsettled, " ended jobs not judged yet")),
    ]


def _quantiles(quality: ScheduleQuality, data: PageData) -> Html | None:
    source, rows = quality.source, []
    for at in quality.veet_quantiles:
        value = data.numbers.one(schedule.VEET, source, f"{at:g}")
        if value is None:
            continue
        words = {0.0: "best user", 0.5: "median user", 1.0: "worst user"}.get(
            at, f"{at * 100:g} % of the users, at most"
        )
        drawn = bar(f"{words}: {format_share(value)}", Part(value, "over"))
        rows.append(Row(words, Cell(drawn, kind="bars"), numeric(figure(schedule.VEET, value, format_share))))
    if not rows:
        return None
    head = ["Users", "Jobs that ended late", "VEET"]
    return tag("div", table("VEET over users", head, rows, identity=f"veet-{source}"))


def _late_users(quality: ScheduleQuality, data: PageData) -> Html | None:
    if not quality.top_users:
        return None
    rows = []
    for each in quality.top_users:
        of_user = quality.source, each.user
        veet = data.numbers.one(schedule.USER_VEET, *of_user)
        drawn = None if veet is None else bar(f"{format_share(veet)} late", Part(veet, "over"))
        shown = figure(schedule.USER_VEET, veet, format_share)
        counts = f"{each.violated:,} of {each.jobs:,} jobs"
        rows.append(
            Row(
                Cell(name(each.user, 32), kind="job"),
                Cell(join(drawn, lines(shown, counts)), veet, "bars"),
                data.cell(schedule.USER_WEIGHTED, format_core_time, *of_user),
                numeric(format_span(each.tardiness_secs), float(each.tardiness_secs)),
                numeric(format_figure(each.share_cpus), float(each.share_cpus)),
            )
        )
    caption = "Users with the most weighted tardiness"
    head = ["User", "VEET", "Weighted tardiness", "Tardiness", "Share in CPUs"]
    made = table(caption, head, rows, identity=f"users-{quality.source}", kind="cards sortable")
    return tag("div", made)


# --- partitions --------------------------------------------------------------------------

SHOWN_REASONS = 4


def nodes_table(data: PageData) -> Html:
    """Return a table of the partitions: nodes by state, CPUs, memory and GPUs."""
    places = [
        (sums, partition)
        for sums in data.context.clusters
        for partition in _partitions(sums.partitions, sums.states)
    ]
    if not places:
        return note("No batch system has reported its nodes yet.")
    head = ["Partition", "Nodes", "States", "CPUs allocated", "Memory allocated", "GPUs allocated"]
    rows = [_nodes_row(sums, partition, data) for sums, partition in places[:MAX_ROWS]]
    caption = "Nodes by partition; a node of several partitions counts in each"
    more = len(places) - MAX_ROWS
    return table(caption, head, rows, identity="nodes-table", kind="cards sortable", more=more)


def _partitions(known: Iterable[str], found: Iterable[tuple[str, str]]) -> list[str]:
    return list(dict.fromkeys([*known, *(partition for partition, _ in found)]))


def _nodes_row(sums: ClusterSums, partition: str, data: PageData) -> Row:
    place = sums.source, partition
    states = {state: count for (of, state), count in sums.states.items() if of == partition and count}
    flags = {flag: count for (of, flag), count in sums.flags.items() if of == partition and count}
    whole = sum(states.values())
    up = data.numbers.one(cluster.PARTITION, *place)
    mark = badge("closed", "warn") if up == 0 else None
    working, idle = states.get("ALLOCATED", 0) + states.get("MIXED", 0), states.get("IDLE", 0)
    drawn = None
    if whole:
        label = f"{working} of {whole} nodes in use, {idle} idle, {whole - working - idle} neither"
        rest = (whole - working - idle) / whole
        drawn = bar(label, Part(working / whole), Part(idle / whole, "free"), Part(rest, "bad-bar"))
    words: list[Child] = []
    for metric, counts in ((cluster.NODES, states), (cluster.FLAGGED, flags)):
        for word, _ in sorted(counts.items(), key=lambda each: -each[1]):
            shown = data.figure(metric, _count, *place, word)
            words.append(join(shown, f" {word.lower().replace('_', ' ')}"))
    return Row(
        Cell(lines(_named(partition), join(sums.source, " ", mark)), partition[:100].lower(), "job"),
        Cell(join(drawn, lines(_count(whole))), float(whole), "bars"),
        Cell(listed(words) if words else UNKNOWN, kind="user wide"),
        _amount(cluster.CPUS, sums, "cpus", partition, data, _count),
        _amount(cluster.MEMORY, sums, "memory_bytes", partition, data, format_bytes),
        _amount(cluster.GPUS, sums, "gpus", partition, data, _count),
    )


def _named(partition: str) -> Html:
    return name(partition, 32) if partition else join("in no partition")


def _amount(
    metric: Metric, sums: ClusterSums, field: str, partition: str, data: PageData, form: Form
) -> Cell:
    found = {kind: count for (of, kind), count in getattr(sums, field).items() if of == partition}
    whole = sum(found.values())
    if not whole:
        return Cell(UNKNOWN, -1.0, "bars")
    place = sums.source, partition
    used, other = found.get("allocated", 0), found.get("other", 0)
    share = used / whole
    words = f"{form(used)} of {form(whole)} allocated"
    drawn = bar(words, Part(share), Part(1 - share - other / whole, "free"), Part(other / whole, "time"))
    aside = f"{format_share(share)} · {form(max(0, whole - used - other))} idle"
    given = data.figure(metric, form, *place, "allocated")
    return Cell(join(drawn, lines(join(given, f" of {form(whole)}"), aside)), share, "bars")


def queue_table(data: PageData) -> Html:
    """Return a table of the partitions: running and pending jobs, how long these wait and why."""
    known = {sums.source: tuple(sums.partitions) for sums in data.context.clusters}
    places = [
        (sums, partition)
        for sums in data.context.queues
        for partition in _partitions(known.get(sums.source, ()), sums.jobs)
    ]
    if not places:
        return note("No batch system has reported its queue yet.")
    head = [
        "Partition",
        "Running jobs",
        "Pending jobs",
        "CPUs requested",
        "Longest wait",
        "Mean wait",
        "Reasons",
    ]
    rows = [_queue_row(sums, partition, data) for sums, partition in places[:MAX_ROWS]]
    caption = "The queue by partition; a job that may start in several counts in each"
    more = len(places) - MAX_ROWS
    return table(caption, head, rows, identity="queue-table", kind="cards sortable", more=more)


def _queue_row(sums: QueueSums, partition: str, data: PageData) -> Row:
    place = sums.source, partition
    reasons = {why: count for (of, why), count in sums.reasons.items() if of == partition and count}
    shown = sorted(reasons, key=lambda why: -reasons[why])
    words = [join(data.figure(queue.REASONS, _count, *place, why), f" {why}") for why in shown]
    oldest = data.numbers.one(queue.OLDEST, *place)
    waiting, waited = data.numbers.one(queue.WAITING, *place), data.numbers.one(queue.WAIT, *place)
    mean = waited / waiting if waiting and waited is not None else None
    return Row(
        Cell(lines(_named(partition), sums.source), partition[:100].lower(), "job"),
        data.cell(queue.JOBS, _count, *place, "RUNNING"),
        data.cell(queue.JOBS, _count, *place, "PENDING"),
        data.cell(queue.CPUS, _count, *place, "PENDING"),
        numeric(figure(queue.OLDEST, oldest or None, format_span), oldest or 0.0),
        numeric(number_or_dash(mean, format_span), mean or 0.0),
        Cell(listed(words, most=SHOWN_REASONS), kind="user wide"),
    )


def _count(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else format_figure(value)
