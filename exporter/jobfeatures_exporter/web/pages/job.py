"""Makes the page of one job, and the pages of ended and unknown jobs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jobfeatures.jobs.evidence import Finding, Presence
from jobfeatures.records.model import JobKey
from jobfeatures.records.quantities import counted
from jobfeatures.status.jobstatus import STATUS_KEYS
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.ended import EndedJob
from jobfeatures_exporter.model.snapshot import FigureSource, JobSample, ProcessSample, cpu_secs_of
from jobfeatures_exporter.sampling.host.units import TICKS_PER_SEC
from jobfeatures_exporter.scrape.collectors import gpus
from jobfeatures_exporter.state.history import HOUR_SECS, Span, UsageHistory
from jobfeatures_exporter.view.hints import find_hints
from jobfeatures_exporter.view.job import JobView, find_cpu_secs, identity_of
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.view.processes import Placed
from jobfeatures_exporter.view.units import (
    format_bytes,
    format_core_time,
    format_cpus,
    format_share,
    format_span,
    format_when,
)
from jobfeatures_exporter.web.pages.course import lines_of_job
from jobfeatures_exporter.web.pages.jobs import job_tiles
from jobfeatures_exporter.web.pages.layout import page
from jobfeatures_exporter.web.pages.markup import Child, Html, join, listed, name, shorten, tag
from jobfeatures_exporter.web.pages.pieces import (
    Cell,
    PageData,
    Row,
    badge,
    figure,
    note,
    number_or_dash,
    numeric,
    section,
    table,
    tile,
    tiles,
)

MAX_VALUE_LETTERS = 200
_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "blocked (storage, or frozen)",
    "T": "stopped",
    "t": "traced",
    "Z": "zombie",
}
DEEPEST = 12  # deepest level of a tree that is still indented
_PRESENCES = {
    Presence.HERE: "runs here",
    Presence.COMPLETING: "is completing",
    Presence.UNCLEAR: "unclear: its last known state is kept",
    Presence.REMAINS: "has ended, processes remain",
    Presence.LEFT: "has ended",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetails:
    """Details of a job that are gathered only when its page is opened.

    `processes` are those shown (None: unknown), `arguments` their command lines by pid, and `more_processes`
    counts those left out. `features` are keys and values, by the variable of their directory. `finding` is
    the daemon's judgement on whether the job runs, `group` the path of its control group, and `grafana` a
    link.
    """

    processes: Sequence[Placed] | None = None  # None: unknown; an empty command is withheld
    arguments: Mapping[int, str] = field(default_factory=dict)  # by pid
    more_processes: int = 0
    features: Mapping[str, Sequence[tuple[str, str]]] = field(
        default_factory=dict
    )  # key and value by variable
    finding: Finding | None = None
    group: str = ""  # the path of its control group
    grafana: str = ""


def render_job(
    context: Context,
    families: Sequence[Family],
    shown: JobView,
    course: UsageHistory | None,
    details: JobDetails,
) -> str:
    """Return the HTML page of a job on this node.

    `families` are the metrics of /metrics, `shown` is what pages show of the job, `course` its last hour
    (None: unknown).
    """
    data, key = PageData(context, families), shown.key
    sample = context.snapshot.jobs.get(key) if context.snapshot is not None else None
    hints = [tag("p", badge(each.words, each.kind), " ", each.reason) for each in find_hints(shown)]
    return page(
        f"Job {key.job_id}",
        _head(data, shown),
        tiles(*job_tiles(shown, data)),
        section("Hints", "hints", *hints) if hints else None,
        section(
            "Last hour",
            "last-hour",
            lines_of_job(course, data.now_secs, shown.allocated_cpus, shown.memory_limit, shown.given_gpus),
        ),
        section("Processes", "processes", _processes(details, data.numbers, key)),
        _steps(sample),
        _gpus(data, shown),
        section("Features", "features", _features(details)),
        section("JOBSTATUS", "jobstatus", _status(data, key)),
        section("Sources", "evidence", _evidence(data, details, sample, key)),
        links=((details.grafana, "Grafana"),),
        base="../",
    )


def _head(data: PageData, shown: JobView) -> Html:
    who = shown.identity
    context = data.context
    job = context.shown_jobs.get(shown.key)
    parts: list[Child] = [
        name(who.user) if who.user else None,
        name(who.name) if who.name else None,
        f"task {who.task}" if who.task else None,
        shown.key.batch_system,
        who.state.lower().replace("_", " "),
    ]
    if job is not None:
        parts += [
            join("partition ", name(job.partition, 32)) if job.partition else None,
            join("account ", name(job.account, 32)) if job.account else None,
            counted(len(job.nodes), "node") if job.nodes else None,
        ]
    taken = None if context.snapshot is None else context.snapshot.taken_at_secs
    read = data.as_of(taken)
    node = tag("a", context.node_name or "the node", href="../")
    return join(
        tag("p", listed([each for each in parts if each], " · "), class_="about"),
        tag("p", "on ", node, ", ", read, class_="about", id="as-of"),
    )


def _processes(details: JobDetails, numbers: Numbers, key: JobKey) -> Html:
    used = find_cpu_secs(numbers, key)
    total = (
        None
        if used is None
        else note("The job used ", format_core_time(used), " in total, including processes that have ended.")
    )
    if details.processes is None:
        return join(note("The processes could not be listed in time."), total)
    if not details.processes:
        return join(note("No processes are seen here."), total)
    rows = [_process(each, depth, details.arguments.get(each.pid, "")) for each, depth in details.processes]
    head = ["Command", "CPU time", "Memory", "State", "PID", "Threads"]
    caption = "Processes of the job, children below their parents; CPU time and resident memory of each alone"
    made = table(caption, head, rows, identity="processes-table", more=details.more_processes)
    return join(made, total)


def _process(each: ProcessSample, level: int, text: str) -> Row:
    depth = min(level, DEEPEST)
    indent = (
        tag("span", "\u00a0\u00a0" * (depth - 1) + "└ ", class_="none", aria_hidden="true") if depth else None
    )
    unseen = tag("span", f" level {level}", class_="unseen") if depth else None
    arguments = tag("div", name(text, MAX_VALUE_LETTERS), class_="sub") if text else None
    command = name(each.command, 32) if each.command else tag("span", "withheld", class_="none")
    return Row(
        Cell(join(indent, command, unseen, arguments), kind="tree"),
        numeric(format_core_time((each.user_ticks + each.system_ticks) / TICKS_PER_SEC)),
        numeric(format_bytes(each.resident_bytes)),
        _STATES.get(each.state, each.state),
        numeric(str(each.pid)),
        numeric(f"{each.threads:,}"),
    )


def _steps(sample: JobSample | None) -> Html | None:
    """Return the section on steps; None if they are not sampled (jobs.steps) or the batch system has none."""
    if sample is None or not sample.steps:
        return None
    rows = [
        Row(
            name(each.step, 32),
            number_or_dash(cpu_secs_of(each), format_core_time),
            number_or_dash(each.memory.used, format_bytes),
        )
        for each in sample.steps
    ]
    made = table("Steps of the job", ["Step", "CPU time", "Memory"], rows, identity="steps-table")
    return section("Steps", "steps", made)


def _gpus(data: PageData, shown: JobView) -> Html | None:
    if not shown.gpus:
        return None
    snapshot = data.context.snapshot
    models = {each.card.uuid: each.card.model for each in snapshot.gpus} if snapshot else {}
    rows = [
        Row(
            join(name(models.get(use.uuid) or "card", 32), " ", name(use.uuid, 48)),
            "yes" if use.is_allocated else "no",
            numeric(figure(gpus.JOB_UTILIZATION, use.share, format_share)),
            numeric(figure(gpus.JOB_MEMORY, use.memory_bytes, format_bytes)),
            data.cell(gpus.UTILIZATION, format_share, use.uuid),
        )
        for use in shown.gpus
    ]
    head = ["Card", "Allocated", "Busy with the job", "Memory of the job", "Busy in total"]
    return section(
        "GPUs", "cards", table("GPUs of the job", head, rows, identity="cards-table", kind="cards")
    )


def _features(details: JobDetails) -> Html:
    if not any(details.features.values()):
        return note("No features are published for this job here.")
    rows = [
        Row(key, tag("code", name(value, MAX_VALUE_LETTERS)), variable)
        for variable, found in details.features.items()
        for key, value in found
    ]
    caption = "Features, exactly as the job reads them"
    return table(caption, ["Key", "Value", "Directory"], rows, identity="features-table", kind="cards")


def _status(data: PageData, key: JobKey) -> Html:
    view = data.context.statuses.get(key)
    if view is None or (view.status is None and not view.problem):
        return note("The job has reported nothing.")
    problem = (
        tag("p", badge("refused", "bad"), " ", name(view.problem, MAX_VALUE_LETTERS))
        if view.problem
        else None
    )
    if view.status is None:
        return join(problem)
    values = [(each, getattr(view.status, each.field)) for each in STATUS_KEYS]
    rows = [
        Row(each.name, tag("code", str(value)), _meaning(each.unit, value, data.now_secs))
        for each, value in values
        if value is not None
    ]
    written = None
    if view.written_at_secs is not None:
        age = data.ago(view.written_at_secs)
        written = note("written ", data.moment(view.written_at_secs), f", {age}")
    head = ["Key", "Value", "Meaning"]
    made = table("What the job reports", head, rows, identity="jobstatus-table", kind="cards")
    return join(problem, made, written)


def _meaning(unit: str, value: int, now_secs: float) -> str:
    if unit == "epoch seconds":
        return format_when(value - now_secs)
    if unit == "CPU seconds":
        return format_core_time(value)
    return f"{format_cpus(value)} CPUs" if unit == "processors" else ""


def _evidence(data: PageData, details: JobDetails, sample: JobSample | None, key: JobKey) -> Html:
    rows: list[Row] = []

    def add(what: str, text: Child, at_secs: float | None = None) -> None:
        age = None
        if at_secs is not None:
            age = join(f"{data.ago(at_secs)}, ", data.moment(at_secs))
        rows.append(Row(what, text, age))

    if details.finding is not None:
        add("Verdict", _PRESENCES[details.finding.presence])
        if details.finding.end_reported_secs is not None:
            add("Its end was reported", None, details.finding.end_reported_secs)
        if details.finding.known is not None:
            add("Batch data", name(details.finding.known.source, 32), details.finding.known.at_secs)
    for source in data.context.sources:
        if source.name == key.batch_system:
            text = source.last_error or ("answers" if source.table is not None else "has not answered yet")
            add("Batch system", name(text, 160), None if source.table is None else source.table.taken_at_secs)
    if sample is not None and data.context.snapshot is not None:
        how = "control group" if sample.accounting is FigureSource.CGROUP else "sum over its processes"
        group = tag("div", name(details.group, MAX_VALUE_LETTERS), class_="sub") if details.group else None
        add("CPU time and memory", join(how, group), data.context.snapshot.taken_at_secs)
        if cpu_secs_of(sample) is None:
            add("CPU time", "cannot be read")
    if not rows:
        return note("Nothing is known about this job any longer.")
    made = table(
        "Sources of this page", ["What", "Says", "Age"], rows, identity="evidence-table", kind="cards"
    )
    return join(made, note(*history_hint(key.job_id)))


# --- jobs that have left the node, and unknown ones --------------------------------------


def render_gone(
    span: Span,
    past: EndedJob | None,
    course: UsageHistory | None,
    now_secs: float,
    node_name: str,
    *,
    grafana: str = "",
) -> str:
    """Return the page of a job that has left the node: its identity, last figures, last hour.

    `past` are its last figures, `course` its last hour (None: no longer kept), and `grafana` is a link.
    """
    data = PageData(Context(now_secs=now_secs), ())
    end_secs = now_secs if span.end_secs is None else span.end_secs
    ran_secs = max(0.0, end_secs - span.start_secs)
    parts: list[Child] = [span.key.batch_system]
    if past is not None:
        who = identity_of(past.job)
        parts = [name(who.user), *([name(who.name)] if who.name else []), *parts] if who.user else parts
        parts.append(who.state.lower().replace("_", " "))
    node = tag("a", node_name or "the node", href="../")
    since = data.ago(end_secs)
    head = join(
        tag("p", listed(parts, " · "), class_="about"),
        tag("p", "ended on ", node, " ", data.moment(end_secs), f", {since}", class_="about", id="as-of"),
    )
    given = None if past is None else past.job.allocated_cpus
    about = (
        "The job has left this node; its processes, features and sources are gone. This page remains for an "
        "hour after its end."
    )
    return page(
        f"Job {span.key.job_id}",
        head,
        tiles(tile("Ran for", format_span(ran_secs), f"ended {since}"), *_figures(past, ran_secs)),
        section("Last hour", "last-hour", lines_of_job(course, now_secs, given)),
        section("After its end", "gone", note(about), note(*history_hint(span.key.job_id))),
        links=((grafana, "Grafana"),),
        base="../",
    )


def _figures(past: EndedJob | None, ran_secs: float) -> list[Html]:
    if past is None:
        return []
    mean = None
    cpus, cpu_secs = past.job.allocated_cpus, cpu_secs_of(past.sample)
    if cpu_secs is not None and ran_secs > 0:
        given = f" of {format_cpus(cpus)}" if cpus else ""
        mean = f"on average {format_cpus(cpu_secs / ran_secs)}{given} {'CPU' if cpus == 1 else 'CPUs'}"
    used = number_or_dash(cpu_secs, format_core_time)
    held = number_or_dash(past.sample.memory.used, format_bytes)
    return [tile("CPU time", used, mean), tile("Memory", held, "when last sampled")]


def history_hint(job_id: str) -> tuple[Child, ...]:
    """Return a hint for the page: the command that shows the history of a job in Prometheus."""
    command = tag("code", f"jobfeatures-exporter report {shorten(job_id)}")
    return ("Its history in Prometheus: ", command)


def render_unknown(job_id: str) -> str:
    """Return the page of an unknown job."""
    return page(
        "No such job",
        tag("p", "Job ", name(job_id), " is unknown here.", class_="about"),
        note(f"Jobs have a page on each of their nodes, and for {format_span(HOUR_SECS)} after their end."),
        note(*history_hint(job_id)),
        base="../",
    )
