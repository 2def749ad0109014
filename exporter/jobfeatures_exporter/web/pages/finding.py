"""The search of the controller's page: a form that works without a script, and what was found. Pure."""

from __future__ import annotations

from datetime import tzinfo

from jobfeatures.model import Job
from jobfeatures_exporter.cluster.finding import Found, user_of
from jobfeatures_exporter.view.units import counted, format_figure
from jobfeatures_exporter.web.links import fill
from jobfeatures_exporter.web.pages.address import job_address
from jobfeatures_exporter.web.pages.markup import Html, listed, name, tag
from jobfeatures_exporter.web.pages.pieces import (
    UNKNOWN,
    Cell,
    Row,
    known,
    lines,
    moment,
    note,
    numeric,
    section,
    table,
)

SHOWN_NODES = 8


def find_section(text: str, found: Found, node_url: str | None, tz: tzinfo | None) -> Html:
    """Return the section; nothing but the form where nothing is looked for."""
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
    rows = [_row(job, node_url, tz) for job in found.jobs]
    made = table(
        "Jobs that were found, running ones first",
        ["Job", "User", "State", "Partition", "CPUs", "Started", "Nodes"],
        rows,
        identity="found-table",
        kind="cards",
        more=found.count - len(rows),
    )
    return section("Find", "find", form, said, made)


def _row(job: Job, node_url: str | None, tz: tzinfo | None) -> Row:
    nodes = [_node(job, node, node_url) for node in job.nodes[:SHOWN_NODES]]
    more = len(job.nodes) - len(nodes)
    user = user_of(job)
    return Row(
        Cell(lines(name(job.key.job_id, 24), job.key.batch_system), kind="job"),
        Cell(lines(name(user, 24) if user else UNKNOWN, name(job.name) if job.name else None), kind="user"),
        job.state.value.lower().replace("_", " "),
        name(job.partition, 32) if job.partition else UNKNOWN,
        numeric(known(job.total_cpus, format_figure)),
        UNKNOWN if job.start_secs is None else moment(job.start_secs, tz),
        Cell(listed([*nodes, *([f"{more:,} more"] if more > 0 else [])]) if nodes else UNKNOWN, kind="wide"),
    )


def _node(job: Job, node: str, node_url: str | None) -> Html:
    """Return a node's name; a link to the job's page there where the site says what its address is."""
    address = None if node_url is None else job_address(job.key)
    shown = name(node, 32)
    if node_url is None or address is None:
        return shown
    return tag("a", shown, href=f"{fill(node_url, node=node).rstrip('/')}/{address}")
