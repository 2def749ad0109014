"""How the exporter itself fares: sources, collectors, directories, sinks. Pure."""

from __future__ import annotations

from jobfeatures.metrics import SOURCE_AGE, Metric
from jobfeatures_exporter.collectors import DURATION, SUCCESS, features, node, process, sinks, sources
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.view.node import NodeView
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.view.sources import SourceView
from jobfeatures_exporter.view.units import format_bytes, format_count, format_figure, format_span
from jobfeatures_exporter.web.pages.markup import Html, join, name, tag
from jobfeatures_exporter.web.pages.pieces import Cell, Row, badge, figure, lines, note, section, table


def health_section(context: Context, numbers: Numbers, shown: NodeView | None = None) -> Html:
    """Return the section; what is not in use has no table."""
    sinks_table = _sinks(context, numbers) if context.sinks else None
    left = tag("div", _sources(context, numbers, shown), sinks_table)
    right = tag("div", _own(context, numbers), _collectors(numbers))
    return section("This exporter", "exporter", tag("div", left, right, class_="columns"))


def _sources(context: Context, numbers: Numbers, shown: NodeView | None) -> Html:
    rows = []
    views = {} if shown is None else {each.name: each for each in shown.sources}
    for each in context.sources:
        age = numbers.one(SOURCE_AGE, each.name)
        failures, rejected = (
            numbers.one(sources.FAILURES, each.name),
            numbers.one(sources.REJECTED, each.name),
        )
        answered: str | Html = "never" if age is None else join(figure(SOURCE_AGE, age, format_span), " ago")
        rows.append(
            Row(
                [
                    Cell(name(each.name, 24)),
                    Cell(
                        _source_state(each.last_error, views.get(each.name), has_table=each.table is not None)
                    ),
                    Cell(answered, kind="number"),
                    _number(numbers, sources.JOBS, each.name),
                    Cell(
                        lines(
                            join(figure(sources.FAILURES, failures, format_count), " failed"),
                            join(figure(sources.REJECTED, rejected, format_count), " bad records")
                            if rejected
                            else None,
                        ),
                        kind="number",
                    ),
                ]
            )
        )
    if not rows:
        return note("No batch system is queried.")
    head = ["Source", "State", "Last answer", "Jobs", "Failures"]
    return table("Batch sources", head, rows, identity="sources-table", kind="cards")


def _number(numbers: Numbers, metric: Metric, source: str) -> Cell:
    return Cell(figure(metric, numbers.one(metric, source), format_count), kind="number")


def _source_state(error: str, view: SourceView | None, *, has_table: bool) -> Html:
    if error:
        return lines(badge("failing", "bad"), name(error, 100))
    if view is not None and has_table and view.words:
        return lines(badge("in part", "warn"), name(view.words, 100))
    return badge("good", "good") if has_table else badge("not queried yet", "warn")


def _collectors(numbers: Numbers) -> Html:
    rows = []
    found = numbers.by_word(SUCCESS)
    failed = sum(not worked for worked in found.values())
    for collector, worked in found.items():
        state = badge("good", "good") if worked else badge("failed", "bad")
        took = figure(DURATION, numbers.one(DURATION, collector), _millis)
        rows.append(Row([Cell(collector, kind="job"), Cell(state), Cell(took, kind="number")]))
    made = table("Collectors", ["Collector", "State", "Took"], rows, identity="collectors-table")
    said = f"{failed} of {len(rows)} collectors failed" if failed else f"All {len(rows)} collectors work"
    mark = badge("failed", "bad") if failed else badge("good", "good")
    return tag("details", tag("summary", said, " ", mark), made, open=failed > 0)


def _own(context: Context, numbers: Numbers) -> Html:
    rows: list[Row] = []

    def add(title: str, *content: Html | str | None) -> None:
        rows.append(Row([Cell(title), Cell(join(*content), kind="number")]))

    duration = numbers.one(process.SAMPLE)
    if duration is not None:
        add("Latest sample took", figure(process.SAMPLE, duration, _millis))
    unreadable = numbers.all(node.UNREADABLE)
    if context.snapshot is not None:
        add("Readings that could not be made", format_count(sum(unreadable.values())))
    if context.publisher is not None:
        published, failed = numbers.one(features.PUBLISHED), numbers.one(features.FAILURES)
        add("Jobs with a feature directory", figure(features.PUBLISHED, published, format_count))
        add("Failures to write or remove one", figure(features.FAILURES, failed, format_count))
    add("Memory of the exporter", figure(process.RESIDENT, numbers.one(process.RESIDENT), format_bytes))
    add("CPU time of the exporter", figure(process.CPU, numbers.one(process.CPU), format_span))
    return table("At work", ["What", "Figure"], rows, identity="own-table")


def _sinks(context: Context, numbers: Numbers) -> Html:
    rows = []
    for each in context.sinks:
        age = numbers.one(sinks.AGE, each.name)
        lost = {
            reason: numbers.one(sinks.DROPPED, each.name, reason) for reason in ("full", "refused", "corrupt")
        }
        total = sum(count or 0 for count in lost.values())
        said = ", ".join(f"{format_count(count)} {reason}" for reason, count in lost.items() if count)
        taken: str | Html = "never" if age is None else join(figure(sinks.AGE, age, format_span), " ago")
        rows.append(
            Row(
                [
                    Cell(name(each.name, 24)),
                    Cell(taken, kind="number"),
                    Cell(format_count(sum(each.sent.values())), kind="number"),
                    _number(numbers, sinks.WAITING, each.name),
                    Cell(format_count(sum(each.failed.values())), kind="number"),
                    Cell(lines(format_count(total), said or None), kind="number"),
                ]
            )
        )
    head = ["Sink", "Last taken", "Sent", "Waiting", "Failed attempts", "Lost"]
    return table("Documents sent in Sonar's format", head, rows, identity="sinks-table", kind="cards")


def _millis(secs: float) -> str:
    return f"{format_figure(secs * 1000)}\u202fms"
