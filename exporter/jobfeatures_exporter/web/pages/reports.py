"""What jobs report about themselves in JOBSTATUS. Pure."""

from __future__ import annotations

from datetime import tzinfo

from jobfeatures.metrics import JOB_SAYS_CPUS
from jobfeatures.model import JobKey
from jobfeatures.status.board import StatusView
from jobfeatures_exporter.collectors import status
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.exposition import Number
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.view.units import (
    counted,
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
    Row,
    badge,
    figure,
    figure_cell,
    known,
    lines,
    moment,
    note,
    numeric,
    section,
    table,
)

STALE_SECS = 3600.0  # a job that has not written for so long is pointed out


def reports_section(context: Context, numbers: Numbers, tz: tzinfo | None) -> Html | None:
    """Return the section: jobs that report, and what was refused; None where no job could."""
    if not context.statuses and not any(context.status_violations.values()):
        return None
    reported = [
        (key, view) for key, view in context.statuses.items() if view.status is not None or view.problem
    ]
    rows = [_row(key, view, context, numbers, tz) for key, view in reported[:MAX_ROWS]]
    good = sum(view.status is not None for view in context.statuses.values())
    said = f"{good} of {counted(len(context.statuses), 'job')} report; the waste of the others is estimated."
    made = table(
        "Jobs that report by JOBSTATUS",
        [
            "Job",
            "Last written",
            "CPUs in use",
            "First payload ends",
            "Last payload ends",
            "Not yet saved",
            "State",
        ],
        rows,
        identity="reports-table",
        kind="cards",
        more=len(reported) - MAX_ROWS,
    )
    refused = [
        (reason, numbers.one(status.VIOLATIONS, str(reason))) for reason in sorted(context.status_violations)
    ]
    counts = [
        join(f"{reason.replace('_', ' ')} ", figure(status.VIOLATIONS, n, format_count))
        for reason, n in refused
        if n
    ]
    bad = note(badge("refused or flagged", "warn"), " since the start: ", listed(counts)) if counts else None
    return section("What jobs report", "reports", note(said), made if rows else None, bad)


def _row(key: JobKey, view: StatusView, context: Context, numbers: Numbers, tz: tzinfo | None) -> Row:
    age = numbers.one(status.AGE, *key)
    reported = view.status
    return Row(
        Cell(lines(name(key.job_id, 24), key.batch_system), kind="job"),
        numeric(join(figure(status.AGE, age, format_span), None if age is None else " ago")),
        figure_cell(numbers, JOB_SAYS_CPUS, format_figure, *key),
        _when(reported.first_exp_job_end if reported is not None else None, context.now_secs, tz),
        _when(reported.last_exp_job_end if reported is not None else None, context.now_secs, tz),
        numeric(known(reported.add_uncom_time if reported is not None else None, format_core_time)),
        _state(view, age),
    )


def _when(at_secs: int | None, now_secs: float, tz: tzinfo | None) -> Child:
    if at_secs is None:
        return UNKNOWN
    return lines(format_when(at_secs - now_secs), moment(at_secs, tz))


def _state(view: StatusView, age: Number | None) -> Html:
    if view.problem:
        return lines(badge("refused", "bad"), name(view.problem, 100))
    if age is not None and age > STALE_SECS:
        return badge("stale", "warn")
    return badge("good", "good")
