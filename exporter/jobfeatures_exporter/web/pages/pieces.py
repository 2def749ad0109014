"""Makes building blocks of the pages: figures, links, bars, badges, tiles, tables. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from jobfeatures.records.metrics import Metric
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.families.exposition import Family, Number
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.view.units import Form, format_span, format_time, machine_time
from jobfeatures_exporter.web.pages.markup import Child, Html, join, name, tag

MAX_ROWS = 500  # of one table; thousands make a page unusable
UNKNOWN = "–"
BAR_WIDTH, BAR_HEIGHT = 100, 8


def figure(metric: Metric, value: Number | None, form: Form) -> Html:
    """Return a value of /metrics as text, with the raw value and the metric's name as tooltip.

    `form` formats the value as text; None is shown as a dash.
    """
    if value is None:
        return tag("span", UNKNOWN, class_="none")
    return tag("data", form(value), value=repr(value), title=metric.sample_name)


def job_address(key: JobKey) -> str | None:
    """Return the relative URL of a job's page; None for an id that no URL path can hold."""
    if not key.job_id or set(key.job_id) <= {"."}:
        return None
    quoted = quote(key.job_id, safe="", errors="surrogateescape")
    return f"job/{quoted}?system={quote(key.batch_system, safe='', errors='surrogateescape')}"


def job_link(key: JobKey) -> Html:
    """Return a job's id as a link to its page."""
    where = job_address(key)
    shown = name(key.job_id, 24)
    return shown if where is None else tag("a", shown, href=where)


def number_or_dash(value: float | None, form: Form) -> str:
    """Return a number as text that `form` formats, a dash if it is unknown (None)."""
    return UNKNOWN if value is None else form(value)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar: its share of the whole (0 to 1) and its kind, a CSS class."""

    share: float
    kind: str = "used"


def bar(label: str, *parts: Part) -> Html:
    """Return a bar; `label` is its text alternative. Shares beyond the whole are clipped."""
    rects: list[Html] = [tag("rect", class_="track", width=BAR_WIDTH, height=BAR_HEIGHT)]
    at = 0.0
    for part in parts:
        width = max(0.0, min(BAR_WIDTH - at, part.share * BAR_WIDTH))
        if width > 0:
            rects.append(
                tag("rect", class_=part.kind, x=f"{at:.4g}", width=f"{width:.4g}", height=BAR_HEIGHT)
            )
            at += width
    return tag(
        "svg",
        *rects,
        class_="bar",
        role="img",
        aria_label=label,
        viewBox=f"0 0 {BAR_WIDTH} {BAR_HEIGHT}",
        preserveAspectRatio="none",
    )


def badge(text: str, kind: str = "") -> Html:
    """Return a badge; `kind` is good, warn, bad or empty."""
    return tag("span", text, class_=f"badge {kind}".rstrip())


def box(title: str, *content: Child) -> Html:
    """Return a box with a title, for the top of a page."""
    return tag("div", tag("dt", title), tag("dd", *content))


def tile(title: str, *content: Child, drawn: Html | None = None) -> Html:
    """Return a tile for the top of the page: lines of text, with the chart `drawn` above them, if any."""
    return box(title, drawn, lines(*content))


def tiles(*made: Html) -> Html:
    """Return the HTML of the row of tiles at the top of a page, given the HTML of each tile (see `tile`)."""
    return tag("dl", *made, class_="tiles")


def section(title: str, identity: str, *content: Child) -> Html:
    """Return a section with its heading, whose HTML id is `identity`."""
    heading = tag("h2", title, id=identity)
    return tag("section", heading, *content, aria_labelledby=identity)


def note(*content: Child) -> Html:
    """Return a line of explanation."""
    return tag("p", *content, class_="note")


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell; `order` is its sort key, a number or text (None: its content)."""

    content: Child
    order: float | str | None = None
    kind: str = ""  # CSS class: number, …


def numeric(content: Child, order: float | str | None = None) -> Cell:
    """Return the right-aligned table cell of a number; `order` is its sort key (None: its content)."""
    return Cell(content, order, "number")


class PageData:
    """The data that a page shows: a `Context`, and the values of /metrics by metric and labels."""

    def __init__(self, context: Context, families: Sequence[Family]) -> None:
        self.context = context
        self.families = families
        self.numbers = Numbers(families)
        self.now_secs = context.now_secs

    def figure(self, metric: Metric, form: Form, *labels: str) -> Html:
        """Return the value of a metric with these label values as text, a dash if there is none.

        `form` formats the value.
        """
        return figure(metric, self.numbers.one(metric, *labels), form)

    def cell(self, metric: Metric, form: Form, *labels: str) -> Cell:
        """Return a table cell with the value that a metric has for these label values, a dash if it has none.

        `form` formats the value as text. Where users sort the table by this column, the numbers count, not
        their texts.
        """
        return numeric(self.figure(metric, form, *labels), self.numbers.one(metric, *labels))

    def moment(self, epoch_secs: float) -> Html:
        """Return a point in time (Unix, in seconds) as text, in local time."""
        return tag("time", format_time(epoch_secs), datetime=machine_time(epoch_secs))

    def ago(self, at_secs: float) -> str:
        """Return how long ago a time was; times in the future, by a clock ahead of ours, are 0 s ago."""
        return f"{format_span(max(0.0, self.now_secs - at_secs))} ago"

    def as_of(self, taken_secs: float | None, absent: str = "not read yet") -> Html:
        """Return a line with time and age of a page's data, or `absent` if there is no data yet."""
        if taken_secs is None:
            return badge(absent, "warn")
        return join("as of ", self.moment(taken_secs), f", {self.ago(taken_secs)}")


class Row:
    """A table row: its first cell is the heading; plain content becomes a cell; `kind` is a CSS class."""

    def __init__(self, *cells: Cell | Child, kind: str = "") -> None:
        self.cells = [each if isinstance(each, Cell) else Cell(each) for each in cells]
        self.kind = kind


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Row],
    *,
    identity: str,
    kind: str = "",
    more: int = 0,
    down_first: Collection[str] = (),
) -> Html:
    """Return a table in its own scrollable box; columns empty in every row are left out.

    `identity` is its HTML id, `more` the number of rows left out. `kind` are CSS classes: rows of ``cards``
    become cards on a phone, and the script lets users sort and filter ``sortable`` tables. Columns in
    `down_first` are sorted in descending order first.
    """
    every = list(rows)
    filled = {at for row in every for at, cell in enumerate(row.cells) if cell.content}
    kept = {title: at for at, title in enumerate(head) if at in filled or not every}
    heads = [tag("th", each, scope="col", data_down=each in down_first) for each in kept]
    body = [_row(row, kept, is_sortable="sortable" in kind) for row in every]
    made = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *body),
        id=identity,
        class_=kind or None,
    )
    left_out = note(f"{more:,} more are not shown; /metrics has them.") if more > 0 else None
    # Focusable, so that it can be scrolled by keyboard.
    box = tag("div", made, class_="scroll", tabindex=0, role="region", aria_label=caption)
    return join(box, left_out)


def _row(row: Row, kept: Mapping[str, int], *, is_sortable: bool) -> Html:
    cells = [
        tag(
            "td" if at else "th",
            row.cells[at].content,
            scope=None if at else "row",
            class_=row.cells[at].kind or None,
            data_label=title,
            data_order=_order(row.cells[at].order) if is_sortable else None,
        )
        for title, at in kept.items()
    ]
    return tag("tr", *cells, class_=row.kind or None)


def _order(order: float | str | None) -> str | None:
    return None if order is None else order if isinstance(order, str) else f"{order:.12g}"


def lines(*content: Child) -> Html:
    """Return contents one below the other; all but the first in small print."""
    return join(
        *(tag("div", each, class_="sub" if number else None) for number, each in enumerate(content) if each)
    )
