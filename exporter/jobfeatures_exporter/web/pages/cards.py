"""The GPUs of a node. Pure."""

from __future__ import annotations

from jobfeatures.model import JobKey
from jobfeatures_exporter.collectors import gpus
from jobfeatures_exporter.snapshot import GpuSample
from jobfeatures_exporter.view.units import (
    format_bytes,
    format_figure,
    format_part_of,
    format_share,
    format_span,
)
from jobfeatures_exporter.web.pages.markup import Child, Html, join, listed, name
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
    job_link,
    lines,
    note,
    numeric,
    section,
    table,
)

SHOWN_JOBS = 3
STALE_SECS = 60.0


def cards_section(data: PageData) -> Html | None:
    """Return the section of the cards, None on a node without any, or whose collector is off."""
    drivers = data.numbers.all(gpus.UP)
    if data.context.snapshot is None or not drivers:
        return None
    silent = [driver for driver in data.context.snapshot.gpu_drivers if not data.numbers.one(gpus.UP, driver)]
    problem = None
    if silent:
        problem = note(badge("no answer", "bad"), f" from the driver {', '.join(silent)}")
    users: dict[str, list[JobKey]] = {}
    for use in data.context.shown_job_gpus:
        if isinstance(use.key, JobKey):
            users.setdefault(use.uuid, []).append(use.key)
    cards = data.context.snapshot.gpus
    rows = [_row(each, data, users.get(each.card.uuid, [])) for each in cards[:MAX_ROWS]]
    made = table(
        "GPUs: use, memory, power, and the jobs on them",
        ["Card", "Busy", "Memory", "Power", "Temperature", "Jobs", "State"],
        rows,
        identity="cards-table",
        kind="cards",
        more=len(cards) - MAX_ROWS,
    )
    return section("GPUs", "cards", problem, made if rows else note("No card has been read yet."))


def _row(gpu: GpuSample, data: PageData, jobs: list[JobKey]) -> Row:
    uuid = gpu.card.uuid
    busy = data.numbers.one(gpus.UTILIZATION, uuid)
    used, total = data.numbers.one(gpus.MEMORY_USED, uuid), data.numbers.one(gpus.MEMORY, uuid)
    power, limit = data.numbers.one(gpus.POWER, uuid), data.numbers.one(gpus.POWER_LIMIT, uuid)
    age = data.numbers.one(gpus.AGE, uuid)
    number = "" if gpu.card.index is None else f"{gpu.card.index} "
    part_of = f"part of {gpu.card.parent_uuid}" if gpu.card.parent_uuid else gpu.card.uuid
    drawn_busy = None if busy is None else bar(f"{format_share(busy)} busy", Part(busy))
    drawn_memory = None
    if used is not None and total:
        drawn_memory = bar(f"{format_bytes(used)} of {format_bytes(total)} in use", Part(used / total))
    memory: Child = UNKNOWN
    if used is not None or total is not None:
        memory = join(
            figure(gpus.MEMORY_USED, used, lambda value: format_part_of(value, total or value)),
            " of ",
            figure(gpus.MEMORY, total, format_bytes),
        )
    watts = figure(gpus.POWER, power, _watts)
    power_text = (
        watts if limit is None else lines(watts, join("of ", figure(gpus.POWER_LIMIT, limit, _watts)))
    )
    return Row(
        Cell(lines(join(number, name(gpu.card.model or "card", 32)), name(part_of, 24)), kind="job"),
        Cell(join(drawn_busy, lines(figure(gpus.UTILIZATION, busy, format_share))), kind="bars"),
        Cell(join(drawn_memory, lines(memory)), kind="bars"),
        numeric(power_text),
        data.cell(gpus.TEMPERATURE, _celsius, uuid),
        listed([job_link(each) for each in jobs], most=SHOWN_JOBS) or "none",
        _state(data.numbers.one(gpus.FAILING, uuid), age),
    )


def _state(failing: float | None, age: float | None) -> Html:
    if failing:
        return badge(f"failing, code {failing:.0f}", "bad")
    if age is not None and age > STALE_SECS:
        return badge(f"read {format_span(age)} ago", "warn")
    return badge("good", "good")


def _watts(value: float) -> str:
    return f"{format_figure(value)}\u202fW"


def _celsius(value: float) -> str:
    return f"{format_figure(value)}\u202f°C"
