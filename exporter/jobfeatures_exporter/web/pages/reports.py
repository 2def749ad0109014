"""Shows what jobs report about themselves in the files of $JOBSTATUS. Pure."""

from __future__ import annotations

from jobfeatures.records.metrics import JOB_SAYS_CPUS
from jobfeatures.records.model import JobKey
from jobfeatures.records.quantities import counted
from jobfeatures.status.board import StatusView
from jobfeatures_exporter.families.exposition import Number
from jobfeatures_exporter.scrape.collectors import status
from jobfeatures_exporter.view.units import (
    format_core_time,
    format_count,
    format_figure,
    format_span,
    format_when,
)
from jobfeatures_exporter.web.pages.markup import Child, Html, join, listed, name
from jobfeatures_exporter.web.pages.pieces import (
    MAX_ROWS,
    UNKNOWN,
    Cell,
    PageData,
    Row,
    badge,
    figure,
    lines,
    note,
    number_or_dash,
    numeric,
    section,
    table,
)

STALE_SECS = 3600.0  # a report older than this is marked as stale


def reports_section(data: PageData) -> Html | None:
    """Return the section of jobs' own reports and their format violations; None if no job could report."""
    statuses, violations = data.context.statuses, data.context.status_violations
    if not statuses and not any(violations.values()):
        return None
    reported = [(key, view) for key, view in statuses.items() if view.status is not None or view.problem]
    rows = [_row(key, view, data) for key, view in reported[:MAX_ROWS]]
    good = sum(view.status is not None for view in statuses.values())
    text = f"{good} of {counted(len(statuses), 'job')} report; the waste of the others is estimated."
    head = ["Job", "Last written", "CPUs in use", "First payload ends", "Last payload ends", "Not yet saved"]
    made = table(
        "Jobs that report through JOBSTATUS",
        [*head, "State"],
        rows,
        identity="reports-table",
        kind="cards",
        more=len(reported) - MAX_ROWS,
    )
    counts = [
        join(f"{reason.replace('_', ' ')} ", data.figure(status.BY_REASON, format_count, reason))
        for reason in sorted(map(str, violations))
        if data.numbers.one(status.BY_REASON, reason)
    ]
    bad = note(badge("refused or flagged", "warn"), " since the start: ", listed(counts)) if counts else None
    return section("What jobs report", "reports", note(text), made if rows else None, bad)


def _row(key: JobKey, view: StatusView, data: PageData) -> Row:
    age = data.numbers.one(status.AGE, *key)
    reported = view.status
    return Row(
        Cell(lines(name(key.job_id, 24), key.batch_system), kind="job"),
        numeric(join(figure(status.AGE, age, format_span), None if age is None else " ago")),
        data.cell(JOB_SAYS_CPUS, format_figure, *key),
        _when(reported.first_exp_job_end if reported is not None else None, data),
        _when(reported.last_exp_job_end if reported is not None else None, data),
        numeric(number_or_dash(reported.add_uncom_time if reported is not None else None, format_core_time)),
        _state(view, age),
    )


def _when(at_secs: int | None, data: PageData) -> Child:
    if at_secs is None:
        return UNKNOWN
    return lines(format_when(at_secs - data.now_secs), data.moment(at_secs))


def _state(view: StatusView, age: Number | None) -> Html:
    if view.problem:
        return lines(badge("refused", "bad"), name(view.problem, 100))
    if age is not None and age > STALE_SECS:
        return badge("stale", "warn")
    return badge("good", "good")
