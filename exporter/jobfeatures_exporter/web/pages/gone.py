"""The pages of jobs that are not on the node: one that has ended, and one that nobody knows here. Pure."""

from __future__ import annotations

from datetime import tzinfo

from jobfeatures_exporter.context import Context
from jobfeatures_exporter.history import HOUR_SECS, Course, Past, Span
from jobfeatures_exporter.view.units import format_bytes, format_core_time, format_cpus, format_span
from jobfeatures_exporter.web.pages.course import lines_of_job
from jobfeatures_exporter.web.pages.layout import page
from jobfeatures_exporter.web.pages.markup import Child, Html, join, listed, name, shorten, tag
from jobfeatures_exporter.web.pages.pieces import PageData, known, note, section, tile, tiles


def render_gone(
    span: Span,
    past: Past | None,
    course: Course | None,
    now_secs: float,
    node_name: str,
    *,
    grafana: str = "",
    tz: tzinfo | None = None,
) -> str:
    """Return what is remembered of a job that has ended: who it was, its last figures, its last hour."""
    data = PageData(Context(now_secs=now_secs), (), tz)
    end_secs = now_secs if span.end_secs is None else span.end_secs
    ran_secs = max(0.0, end_secs - span.start_secs)
    parts: list[Child] = [span.key.batch_system]
    if past is not None:
        user = past.user or ("" if past.uid is None else f"uid {past.uid}")
        parts = [name(user), *([name(past.name)] if past.name else []), *parts] if user else parts
        parts.append(past.state.value.lower().replace("_", " "))
    node = tag("a", node_name or "the node", href="../")
    since = data.ago(end_secs)
    head = join(
        tag("p", listed(parts, " · "), class_="about"),
        tag("p", "ended on ", node, " ", data.moment(end_secs), f", {since}", class_="about", id="as-of"),
    )
    given = None if past is None else past.allocated_cpus
    about = (
        "It has left this node, so that its processes, features and sources are gone. This page stays for an "
        "hour after its end."
    )
    return page(
        f"Job {span.key.job_id}",
        head,
        tiles(tile("Ran for", format_span(ran_secs), f"ended {since}"), *_figures(past, ran_secs)),
        section("Last hour", "last-hour", lines_of_job(course, now_secs, given)),
        section("After its end", "gone", note(about), note(*reported_later(span.key.job_id))),
        links=((grafana, "Grafana"),),
        base="../",
    )


def _figures(past: Past | None, ran_secs: float) -> list[Html]:
    if past is None:
        return []
    mean = None
    if past.cpu_secs is not None and ran_secs > 0:
        given = f" of {format_cpus(past.allocated_cpus)}" if past.allocated_cpus else ""
        noun = "CPU" if past.allocated_cpus == 1 else "CPUs"
        mean = f"on average {format_cpus(past.cpu_secs / ran_secs)}{given} {noun}"
    used = known(past.cpu_secs, format_core_time)
    held = known(past.memory_bytes, format_bytes)
    return [tile("CPU time", used, mean), tile("Memory", held, "when it was last seen")]


def reported_later(job_id: str) -> tuple[Child, ...]:
    """Return where more of a job is kept, and for how long: by Prometheus."""
    command = tag("code", f"jobfeatures-exporter report {shorten(job_id)}")
    return ("What Prometheus has kept of it: ", command)


def render_unknown(job_id: str) -> str:
    """Return the page of a job that nobody knows here."""
    return page(
        "No such job",
        tag("p", "Job ", name(job_id), " is not known here.", class_="about"),
        note(f"Jobs have a page on each of their nodes, and for {format_span(HOUR_SECS)} after their end."),
        note(*reported_later(job_id)),
        base="../",
    )
