"""Shows the exporter's own state: sources, collectors, directories, sinks, and problems. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from jobfeatures.records.metrics import SOURCE_AGE, Metric
from jobfeatures.records.model import JobTable
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.scrape.budget import DROPPED
from jobfeatures_exporter.scrape.collectors import DURATION, FAILED, SPENT, SUCCESS, features, node
from jobfeatures_exporter.scrape.collectors.own import process, sinks, sources
from jobfeatures_exporter.view.node import NodeView
from jobfeatures_exporter.view.sources import READ_ONE_BY_ONE, SourceView, advise_ebpf
from jobfeatures_exporter.view.units import Form, format_bytes, format_count, format_figure, format_span
from jobfeatures_exporter.web.pages.markup import Child, Html, join, name, shorten, tag
from jobfeatures_exporter.web.pages.pieces import (
    Cell,
    PageData,
    Row,
    badge,
    figure,
    lines,
    note,
    numeric,
    section,
    table,
)


def health_section(data: PageData, shown: NodeView | None = None) -> Html:
    """Return the section on the exporter's own state; parts not in use have no table.

    `shown` is what the page shows of the node, None on the controller's page.
    """
    sinks_table = _sinks(data) if data.context.sinks else None
    left = tag("div", _sources(data, shown), sinks_table)
    right = tag("div", _own(data), _collectors(data))
    return section("This exporter", "exporter", tag("div", left, right, class_="columns"))


def _sources(data: PageData, shown: NodeView | None) -> Html:
    rows = []
    views = {} if shown is None else {each.name: each for each in shown.sources}
    for each in data.context.sources:
        rejected = data.numbers.one(sources.REJECTED, each.name)
        failed = join(data.figure(sources.FAILURES, format_count, each.name), " failed")
        bad = join(figure(sources.REJECTED, rejected, format_count), " bad records") if rejected else None
        rows.append(
            Row(
                name(each.name, 24),
                _source_state(each.last_error, views.get(each.name), has_table=each.table is not None),
                _ago(data, SOURCE_AGE, each.name),
                data.cell(sources.JOBS, format_count, each.name),
                numeric(lines(failed, bad)),
            )
        )
    if not rows:
        return note("No batch system is queried.")
    head = ["Source", "State", "Last answer", "Jobs", "Failures"]
    return table("Batch sources", head, rows, identity="sources-table", kind="cards")


def _ago(data: PageData, metric: Metric, label: str) -> Cell:
    age = data.numbers.one(metric, label)
    return numeric("never" if age is None else join(figure(metric, age, format_span), " ago"))


def _source_state(error: str, view: SourceView | None, *, has_table: bool) -> Html:
    if error:
        return lines(badge("failing", "bad"), name(error, 100))
    if view is not None and has_table and view.words:
        return lines(badge("partial", "warn"), name(view.words, 100))
    return badge("good", "good") if has_table else badge("not queried yet", "warn")


def _collectors(data: PageData) -> Html:
    rows, failed = [], data.numbers.one(FAILED)
    for collector, worked in data.numbers.by_label(SUCCESS).items():
        state = badge("slow", "warn") if worked else badge("failed", "bad")
        rows.append(Row(Cell(collector, kind="job"), state, data.cell(DURATION, _millis, collector)))
    words = f"Collectors that failed: {failed:g}" if failed else "All collectors work"
    mark = badge("failed", "bad") if failed else badge("good", "good")
    summary = join(words, " in ", data.figure(SPENT, _millis), " ", mark)
    if not rows:
        return note(summary)
    made = table("Collectors", ["Collector", "State", "Took"], rows, identity="collectors-table")
    return tag("details", tag("summary", summary), made, open=bool(failed))


def _own(data: PageData) -> Html:
    rows: list[Row] = []

    def add_figure(title: str, metric: Metric, form: Form) -> None:
        rows.append(Row(title, data.cell(metric, form)))

    if data.numbers.one(process.SAMPLE) is not None:
        add_figure("Latest sample took", process.SAMPLE, _millis)
    if data.context.snapshot is not None:
        add_figure("Failed reads", node.UNREADABLE, format_count)
    if data.context.publisher is not None:
        add_figure("Jobs with a feature directory", features.PUBLISHED, format_count)
        add_figure("Failures to write or remove these", features.FAILURES, format_count)
    add_figure("Memory of the exporter", process.RESIDENT, format_bytes)
    add_figure("CPU time of the exporter", process.CPU, format_span)
    return table("The exporter itself", ["What", "Figure"], rows, identity="own-table")


def _sinks(data: PageData) -> Html:
    rows = []
    for each in data.context.sinks:
        lost = {
            reason: data.numbers.one(sinks.DROPPED, each.name, reason)
            for reason in ("full", "refused", "corrupt")
        }
        total = sum(count or 0 for count in lost.values())
        summary = ", ".join(f"{format_count(count)} {reason}" for reason, count in lost.items() if count)
        rows.append(
            Row(
                name(each.name, 24),
                _ago(data, sinks.AGE, each.name),
                numeric(format_count(sum(each.sent.values()))),
                data.cell(sinks.WAITING, format_count, each.name),
                numeric(format_count(sum(each.failed.values()))),
                numeric(lines(format_count(total), summary or None)),
            )
        )
    head = ["Sink", "Last accepted", "Sent", "Waiting", "Failed attempts", "Lost"]
    return table("Documents sent in Sonar's format", head, rows, identity="sinks-table", kind="cards")


def _millis(secs: float) -> str:
    return f"{format_figure(secs * 1000)}\u202fms"


def words_of(context: Context) -> dict[str, str]:
    """Return, by batch system, the error of its latest query, or else the fault of this node that it reports.

    The text is empty if there is neither.
    """
    return {
        each.name: each.last_error or (each.table.node_problem if isinstance(each.table, JobTable) else "")
        for each in context.sources
    }


def troubles_notice(troubles: Sequence[SourceView], data: PageData, *more: Html) -> Html | None:
    """Return a notice of failing sources, and of jobs or series left out; None if there is nothing to say.

    `more` is added to its end.
    """
    found = [*(_trouble(each, data) for each in troubles), *_left_out(data), *more]
    return tag("div", *found, class_="notice", role="note") if found else None


def _trouble(each: SourceView, data: PageData) -> Html:
    since: Child = None
    if each.failing_secs is not None:
        since = join(" (since ", data.moment(data.now_secs - each.failing_secs), ")")
    summary = join(": ", name(each.words, 300)) if each.words else None
    advice = tag("p", each.advice[:1].upper() + each.advice[1:], class_="sub") if each.advice else None
    return join(tag("p", tag("strong", each.sentence), since, summary), advice)


def _left_out(data: PageData) -> Iterator[Html]:
    """Yield what the page does not show, or not as cheaply as it could, and what helps."""
    for each in data.context.sources:
        if each.skipped:
            latest, more = each.skipped[-1], len(each.skipped) - 1
            # Without its text, which may be anybody's; and the reason is not cut for the file's name.
            shown = str(replace(latest, text="", source=shorten(latest.source, 120)))
            words = join(name(shown, 300), f", and {more:,} more" if more else None)
            advice = "Jobs or some of their data may be missing here; see the log."
            yield _problem(f"Some records of {each.name} are skipped", words, advice)
    if count := data.numbers.one(DROPPED):
        summary = f"{format_count(count)} series are left out of /metrics"
        advice = "Raise metrics.max_series, and Prometheus' sample_limit with it."
        yield _problem(summary, "the lightest jobs are summed there", advice)
    snapshot = data.context.snapshot
    if snapshot is not None and snapshot.reader is not None and snapshot.reader.failure:
        reason = snapshot.reader.failure
        yield _problem(READ_ONE_BY_ONE, name(reason, 160), f"{advise_ebpf(reason)}.")


def _problem(sentence: str, words: Child, advice: str) -> Html:
    return join(tag("p", tag("strong", sentence), ": ", words), tag("p", advice, class_="sub"))
