"""Tables: several queries by the same labels become one row for each set of labels. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grafana.panels import Json, defaults, links_of, named, panel, query, steps


@dataclass(frozen=True)
class Label:
    """A column that a label gives; with `links` its cells lead somewhere."""

    label: str
    title: str
    links: tuple[tuple[str, str], ...] = ()
    width: int | None = None
    hidden: bool = False  # and still there to be linked by


@dataclass(frozen=True)
class Column:
    """A column that a query gives."""

    title: str
    expression: str
    unit: str = "short"
    thresholds: Json | None = None  # colour the text; with `gauge` the bar
    gauge: bool = False
    low: float | None = None
    high: float | None = None
    decimals: int | None = None
    width: int | None = None
    hidden: bool = False
    mappings: tuple[Json, ...] = ()


def table(
    title: str,
    description: str,
    labels: Sequence[Label],
    columns: Sequence[Column],
    *,
    sort: str,
    descending: bool = True,
    empty: str = "nothing here now",
) -> Json:
    """Return a table of the state at the end of the time range, sorted by the title of a column."""
    titles = {each.label: each.title for each in labels}
    titles |= {_value(number): each.title for number, each in enumerate(columns)}
    order = [*titles, "Time"]
    return panel(
        "table",
        title,
        description,
        [query(each.expression, table=True) for each in columns],
        fieldConfig={
            "defaults": defaults(
                "short",
                empty=empty,
                thresholds=steps("text"),
                custom={
                    "align": "auto",
                    "minWidth": 60,
                    "cellOptions": {"type": "auto"},
                    "filterable": True,
                    "inspect": False,
                },
            ),
            "overrides": [*map(_of_label, labels), *map(_of_column, columns)],
        },
        options={
            "showHeader": True,
            "cellHeight": "sm",
            "sortBy": [{"displayName": sort, "desc": descending}],
        },
        transformations=[
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {
                        "Time": True,
                        **{_value(number): True for number, each in enumerate(columns) if each.hidden},
                    },
                    "includeByName": {},
                    "indexByName": {name: place for place, name in enumerate(order)},
                    "renameByName": titles,
                },
            },
        ],
    )


def _value(number: int) -> str:
    return f"Value #{chr(ord('A') + number)}"


def _width(width: int | None) -> list[tuple[str, Any]]:
    return [] if width is None else [("custom.width", width)]


def _of_label(each: Label) -> Json:
    properties: list[tuple[str, Any]] = [("noValue", "–"), *_width(each.width)]
    if each.hidden:
        properties.append(("custom.hidden", True))
    if each.links:
        properties.append(("links", links_of(dict(each.links))))
    return named(each.title, *properties)


def _of_column(each: Column) -> Json:
    properties: list[tuple[str, Any]] = [("unit", each.unit), ("noValue", "–"), *_width(each.width)]
    if each.thresholds is not None:
        kind = (
            {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}
            if each.gauge
            else {"type": "color-text"}
        )
        properties += [("thresholds", each.thresholds), ("custom.cellOptions", kind)]
    if each.mappings:
        properties.append(("mappings", list(each.mappings)))
    properties += [
        (name, value)
        for name, value in (("min", each.low), ("max", each.high), ("decimals", each.decimals))
        if value is not None
    ]
    return named(each.title, *properties)
