"""Formats the figures of schedules as tables for people, and as CSV."""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from jobfeatures.analysis.schedule.document import COMPARED, MEASURES, Values
from jobfeatures.errors import shown_name
from jobfeatures.records.cells import align

TOP: Final = 20  # users, groups … of a table
_SPREAD = ("mean", "min", "p25", "p50", "p75", "p90", "p95", "p99", "max")


class TextTable(NamedTuple):
    """A table of texts, whose first row and first column are headings.

    `more` counts rows that are left out.
    """

    title: str
    rows: list[list[str]]
    more: int = 0  # rows left out at the end


def format_text(documents: Sequence[Values]) -> str:
    """Return the figures as text: all logs side by side, then a table of users, queues … for each log.

    These tables are in order of descending weighted tardiness.
    """
    return "\n\n".join(_text(table) for table in make_tables(documents))


def make_tables(documents: Sequence[Values]) -> list[TextTable]:
    """Return the tables that `format_text` shows."""
    tables = [TextTable("", _columns(documents))]
    for document in documents:
        for field, groups in document.get("by", {}).items():
            title = f"{shown_name(document['log'])}: by {field}" if len(documents) > 1 else f"By {field}"
            tables.append(_group_table(title, field, groups, document))
    return tables


def format_comparison(comparison: Values) -> str:
    """Return a comparison of logs as text, see `comparison_table`."""
    return _text(comparison_table(comparison))


def comparison_table(comparison: Values) -> TextTable:
    """Return a comparison of logs with the first one as a table, with a column for each other log.

    Rows: how many users have a lower, equal or higher VEET than in the first log, and the ratio of each sum
    to the first log's.
    """
    base, others = comparison["base"], comparison["others"]
    rows = [[f"against {shown_name(base)}", *(shown_name(each["log"]) for each in others)]]
    rows += [
        [label, *(_number(each[key]) for each in others)]
        for label, key in (
            ("users in both", "users_in_both"),
            ("users with lower VEET", "lower_veet"),
            ("users with equal VEET", "equal_veet"),
            ("users with higher VEET", "higher_veet"),
            *((f"{key.replace('_', ' ')}, ratio", f"{key}_ratio") for key in COMPARED),
        )
    ]
    return TextTable("", rows)


def format_csv(documents: Sequence[Values]) -> str:
    """Return the figures as CSV: one row per log, and one per group (user, queue …) of its jobs.

    Cells that do not apply are empty.
    """
    out = io.StringIO()
    columns = [
        "log", "scope", "name", "mode", "share", "jobs", "skipped", "users", "violated", "veet",
        "tardiness", "weighted_tardiness", "sum_eet", "cpu_secs", "mean_utilisation", "mean_queue_length",
        *(f"{name}_{each}" for name in MEASURES for each in _SPREAD),
    ]  # fmt: skip
    writer = csv.DictWriter(out, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for document in documents:
        for row in _rows(document):
            writer.writerow(row)
    return out.getvalue()


def _rows(document: Values) -> Iterator[Values]:
    yield {
        **document,
        "scope": "log",
        "skipped": sum(document["skipped"].values()),
        "veet": document["violated_percent"],
        "tardiness": document["total_tardiness"],
        "weighted_tardiness": document["total_weighted_tardiness"],
        "mean_utilisation": document["utilisation"]["cpu"]["mean"],
        "mean_queue_length": document["queue_length"]["mean"],
        **_flat(document),
    }
    for field, groups in document.get("by", {}).items():
        for name, group in groups.items():
            yield {"log": document["log"], "scope": field, "name": name, **group, **_flat(group)}


def _flat(values: Values) -> Values:
    return {f"{name}_{each}": values[name][each] for name in MEASURES for each in _SPREAD}


def _columns(documents: Sequence[Values]) -> list[list[str]]:
    rows = [["", *(shown_name(each["log"]) for each in documents)]]

    def add(label: str, values: Iterable[Any]) -> None:
        rows.append([label, *map(_number, values)])

    first = documents[0]
    add("jobs", _each(documents, "jobs"))
    for reason in first["skipped"]:
        if any(_each(documents, "skipped", reason)):
            add(f"skipped: {reason.replace('_', ' ')}", _each(documents, "skipped", reason))
    if any(_each(documents, "filtered")):
        add("left out by filter", _each(documents, "filtered"))
        add("expected ends", ["of the whole log"] * len(documents))
    if any(_each(documents, "waited_for_another")):
        add("waited for another job's end", _each(documents, "waited_for_another"))
    if first["joined"]:
        add(f"bags, joined by {', '.join(first['joined'])}", _each(documents, "bags", "count"))
        add("bags that ended late", _each(documents, "bags", "violated"))
    add("users", _each(documents, "users"))
    add("mode", _each(documents, "mode"))
    for resource in first["resources"]:
        add(f"share: {resource}", [_share(each["shares"][resource]) for each in documents])
        for kind in ("users", "groups"):
            for name in {name: None for each in documents for name in each["shares"][resource][kind]}:
                add(
                    f"share: {resource}, {kind[:-1]} {shown_name(name)}",
                    [each["shares"][resource][kind].get(name) for each in documents],
                )
    add("violated", _each(documents, "violated"))
    add("violated, % of jobs", _each(documents, "violated_percent"))
    for quantile, label in (("p25", "a quarter"), ("p50", "half"), ("p75", "three quarters"), ("max", "all")):
        add(f"VEET of {label} of users up to, %", _each(documents, "over_users", "veet", quantile))
    add("total tardiness, s", _each(documents, "total_tardiness"))
    add("total weighted tardiness, CPU s", _each(documents, "total_weighted_tardiness"))
    add("sum of expected ends, s", _each(documents, "sum_eet"))
    for name in MEASURES:
        unit = "" if name.endswith("slowdown") else ", s"
        for quantile in ("mean", "p50", "p95", "max"):
            label = {"p50": "median", "max": "largest" if not unit else "longest"}.get(quantile, quantile)
            add(f"{name.replace('_', ' ')}, {label}{unit}", _each(documents, name, quantile))
    for resource in first["utilisation"]:
        means = [each["utilisation"].get(resource, {}).get("mean") for each in documents]
        add(f"utilisation of {resource}, mean, %", [None if mean is None else 100 * mean for mean in means])
    add("queue length, mean", _each(documents, "queue_length", "mean"))
    add("queue length, most", _each(documents, "queue_length", "most"))
    return rows


def _each(documents: Sequence[Values], *path: str) -> list[Any]:
    return [functools.reduce(lambda value, key: value[key], path, each) for each in documents]


def _group_table(title: str, field: str, groups: Values, document: Values) -> TextTable:
    worst = sorted(groups.items(), key=lambda item: -item[1]["weighted_tardiness"])
    shares = document["shares"][document["resources"][0]]
    columns: dict[str, Callable[[str, Values], Any]] = {
        "jobs": lambda _, group: group["jobs"],
        "share": lambda name, _: shares["users"].get(name, shares["default"]),
        "violated": lambda _, group: group["violated"],
        "VEET, %": lambda _, group: group["veet"],
        "weighted tardiness, CPU s": lambda _, group: group["weighted_tardiness"],
        "mean wait, s": lambda _, group: group["wait"]["mean"],
        "median wait, s": lambda _, group: group["wait"]["p50"],
        "mean response, s": lambda _, group: group["response"]["mean"],
        "mean slowdown": lambda _, group: group["slowdown"]["mean"],
        "CPU s": lambda _, group: group["cpu_secs"],
    }
    if field != "user":
        del columns["share"]
    rows = [[field, *columns]]
    for name, group in worst[:TOP]:
        rows.append([shown_name(name), *(_number(column(name, group)) for column in columns.values())])
    return TextTable(f"{title}, by weighted tardiness", rows, max(0, len(worst) - TOP))


def _text(table: TextTable) -> str:
    title = f"{table.title}\n" if table.title else ""
    more = f"\n… and {table.more} more" if table.more else ""
    return title + "\n".join(align(table.rows)) + more


def _share(shares: Values) -> str:
    how = (
        "given"
        if shares["default_from"] == "given"
        else f"{_number(shares['total'])} {shares['total_from']} / users"
    )
    share = f"{shares['default']:.6g}" if 0 < shares["default"] < 1 else _number(shares["default"])
    if shares["unit"] == "KiB":
        return f"{share} KiB ({how}; GB is GiB, 1,048,576 KiB)"
    return f"{share} ({how})"


def _number(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    return f"{value:,.3f}" if abs(value) < 1000 else f"{value:,.0f}"
