"""Writes pictures, tables and text as one self-contained HTML file, which loads nothing from elsewhere."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Final

from jobfeatures.analysis.schedule.document import Values, compare
from jobfeatures.analysis.schedule.eligibility import REASONS
from jobfeatures.analysis.schedule.pictures.draw import Picture, render
from jobfeatures.analysis.schedule.pictures.drawn import DrawnSchedule, share_words, short_names
from jobfeatures.analysis.schedule.pictures.style import COLOURS, FAINT, GRID, INK
from jobfeatures.analysis.schedule.tables import TextTable, comparison_table, make_tables
from jobfeatures.errors import shown_name
from jobfeatures.records.quantities import counted

_TAG = re.compile(r"<[^>]*>")
_HEAD = re.compile(r"\A.*?(?=<svg)", re.DOTALL)
# Colours of the pictures that change in the page's dark theme.
_THEMED: Final = {INK: "var(--ink)", FAINT: "var(--faint)", GRID: "var(--grid)", "#ffffff": "var(--paper)",
           COLOURS[0].lower(): "var(--blue)", COLOURS[7].lower(): "var(--grey)"}  # fmt: skip
_KINDS: Final = ("heatmap", "boxes")


class Report:
    """An HTML page to which pictures are added one by one; each is kept only as SVG text, to save memory."""

    def __init__(self, views: Sequence[DrawnSchedule]) -> None:
        self._documents = [view.document for view in views]
        self._figures: dict[str, list[str]] = {kind: [] for kind in _KINDS}

    def add(self, picture: Picture) -> None:
        """Add a picture to its section of the page."""
        number = 1 + sum(map(len, self._figures.values()))
        drawn = to_inline(render(picture, "svg").decode(), f"f{number}-", picture.alt)
        self._figures[picture.kind].append(
            f"<figure><div class='scroll' tabindex='0'>{drawn}</div></figure>\n"
        )

    def page(self) -> str:
        """Return the HTML of the complete page."""
        documents = self._documents
        names = short_names([str(each["log"]) for each in documents])
        shortly = [{**document, "log": name} for document, name in zip(documents, names, strict=True)]
        first, *others = make_tables(shortly)
        tables = [_table(first, "All figures, schedule by schedule")]
        if len(documents) > 1:
            tables.append(_table(comparison_table(compare(shortly)), "The others against the first"))
        tables += [_table(each, each.title) for each in others]
        page = Template(files(__package__).joinpath("report.html").read_text(encoding="utf-8"))
        return page.substitute(
            title=_escaped("Schedule quality: " + ", ".join(names)),
            modes=_modes(documents),
            summary="\n".join(map(_card, documents, names)),
            **{kind: "".join(drawn) for kind, drawn in self._figures.items()},
            figures="".join(tables),
            reasons="\n".join(
                f"<dt>{reason.replace('_', ' ')}</dt><dd>{_escaped(words)}</dd>"
                for reason, words in REASONS.items()
            ),
        )


def _escaped(text: str) -> str:
    return html.escape(shown_name(text))


def _modes(documents: Sequence[Values]) -> str:
    modes = " and ".join(dict.fromkeys(each["mode"] for each in documents))
    resources = ", ".join(dict.fromkeys(name for each in documents for name in each["resources"]))
    arrivals = " and ".join(dict.fromkeys(each["arrival"] for each in documents))
    count = counted(len(documents), "schedule")
    return _escaped(f"{count} · mode {modes} · expected ends by {resources} · arrival: {arrivals} time")


def _card(document: Values, name: str) -> str:
    """Return the most important figures of one schedule, and its warnings."""
    violated, jobs, users = document["violated"], document["jobs"], document["users"]
    skipped = "; ".join(
        f"{count:,} × {REASONS[reason]}" for reason, count in document["skipped"].items() if count
    )
    filtered = f" A filter left out {document['filtered']:,}." if document["filtered"] else ""
    share = f"{share_words(document)} a user ({'; '.join(_share_from(document))})"
    source = f'<p class="more">{_escaped(document["log"])}</p>' if document["log"] != name else ""
    warnings = "\n".join(f'<p class="warning">Note: {_escaped(each)}.</p>' for each in document["warnings"])
    return f"""<article>
<h3>{_escaped(name)}</h3>
<p class="big">{document["violated_percent"]:.1f} %<span> of jobs ended after their expected end</span></p>
<p>{violated:,} of {counted(jobs, "job")} of {counted(users, "user")}.{filtered}</p>
<p>Share: {_escaped(share)}.</p>
<p>Skipped: {_escaped(skipped) or "no job"}.</p>
{source}
{warnings}
</article>"""


def _share_from(document: Values) -> list[str]:
    """Return, by resource, where the default share comes from."""
    sources = {"given": "as given", "log": "as the log says", "most in use": "the most that was in use"}
    return [
        "as given"
        if shares["default_from"] == "given"
        else f"{shares['total']:,} {shares['unit']}, {sources[shares['total_from']]}, ÷ users of the log"
        for shares in document["shares"].values()
    ]


def to_inline(svg: str, prefix: str, alt: str) -> str:
    """Convert an SVG document to an element inside an HTML page.

    All ids get the `prefix`, so that they are unique in the page; colours follow the page's theme; `alt`
    describes the picture. Only tags are changed: in SVG written by matplotlib, no text contains a `<`.
    """
    body = _TAG.sub(lambda tag: _themed(tag.group(), prefix), _HEAD.sub("", svg, count=1)).strip()
    start = re.match(r"<svg[^>]*>", body)
    opening = start.group() if start else ""
    box = re.search(r'viewBox="[^"]*"', opening)
    head = f'<svg {box.group() if box else ""} role="img" aria-label="{_escaped(alt)}">'
    return head + body[len(opening) :]


def _themed(tag: str, prefix: str) -> str:
    if "=" not in tag:
        return tag
    tag = re.sub(r'\sid="', f' id="{prefix}', tag)
    tag = tag.replace("url(#", f"url(#{prefix}").replace('href="#', f'href="#{prefix}')
    if tag.startswith("<image"):
        return tag.replace("xlink:href", "href")
    for colour, variable in _THEMED.items():
        tag = tag.replace(f": {colour}", f": {variable}")
    return tag.replace("xlink:href", "href")


def _table(table: TextTable, title: str) -> str:
    head, *rows = table.rows
    first = "".join(f"<th scope='col'>{_escaped(cell or 'Figure')}</th>" for cell in head)
    body = "".join(
        f"<tr><th scope='row'>{_escaped(row[0])}</th>"
        + "".join(f"<td>{_escaped(cell)}</td>" for cell in row[1:])
        + "</tr>\n"
        for row in rows
    )
    more = f"<p class='more'>… and {table.more:,} more</p>" if table.more else ""
    caption = f"<caption>{_escaped(title)}</caption>"
    label = _escaped(title)
    return (
        f"<div class='scroll' tabindex='0' role='region' aria-label='{label}'><table>{caption}"
        f"<thead><tr>{first}</tr></thead><tbody>\n{body}</tbody></table></div>{more}\n"
    )
