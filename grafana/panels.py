"""What dashboards are made of, as Grafana's JSON: queries, panels, variables, links, rows. Pure.

Source: Grafana's schema of dashboards, version 41 (npm: @grafana/schema 11.6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jobfeatures.records.metrics import NO_BATCH_SYSTEM

Json = dict[str, Any]

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
TAG = "jobfeatures"
GREEN, YELLOW, ORANGE, RED, BLUE, GREY = "green", "yellow", "orange", "red", "blue", "#8e8e8e"
WIDTH = 24  # of Grafana's grid

# What tells one job on one node from all others, whether or not a site adds the first and the third label.
JOB_KEY = "cluster, instance, node, batch_system, job_id"
GPU_KEY = "cluster, instance, node, uuid"
OF_CLUSTER = 'cluster=~"$cluster"'
OF_NODE = f'{OF_CLUSTER},instance=~"$instance"'
NO_JOBS = "|".join(sorted(NO_BATCH_SYSTEM))  # services and so on, which `jobs.kinds` shows in the same series


def running(metric: str, matchers: str) -> str:
    """Return series of jobs that have not ended; others are shown for a while with their last values."""
    return f"({metric}{{{matchers}}} unless on ({JOB_KEY}) batch_job_end_time_seconds{{{OF_CLUSTER}}})"


def running_rate(counter: str, matchers: str) -> str:
    """Return the rates of jobs' counters that are still shown: right beside what these jobs have now.

    A plain rate goes on for some minutes where a node has left a job, or a job has ended, and it takes a job
    that has just started for idle before. Where a restarted exporter knows less, it takes all for new.
    """
    start = f"batch_job_start_time_seconds{{{matchers}}}"
    age = f"(timestamp({start}) - {start} > 0 < $__rate_interval_ms / 1000)"
    young = f"{counter}{{{matchers}}} / on ({JOB_KEY}) group_left () {age}"
    window = f"({counter}{{{matchers}}}[$__rate_interval])"
    rate = f"rate{window} unless resets{window} > 0"
    return f"(({young} or {rate}) and {running(counter, matchers)})"


def gpu_parts(matchers: str) -> str:
    """Return the part of each GPU that each job has, as the rule `job_gpu:batch_gpus:part` does.

    Jobs that share one have equal parts, and a MIG instance is its part of the card's memory.
    """
    everyone = f"sum by ({GPU_KEY}) ({running('batch_job_gpu_allocated', OF_CLUSTER)})"
    memory, instances = (
        f"batch_gpu_memory_bytes{{{OF_CLUSTER}}}",
        f'batch_gpu_info{{{OF_CLUSTER},parent!=""}}',
    )
    part = (
        f"({memory} * on ({GPU_KEY}) group_left (parent) {instances})"
        " / on (cluster, instance, node, parent) group_left ()"
        f' label_replace({memory}, "parent", "$1", "uuid", "(.+)")'
    )
    jobs = f"{everyone} / on ({GPU_KEY}) ({part}) or {everyone} unless on ({GPU_KEY}) {instances}"
    return f"({running('batch_job_gpu_allocated', matchers)} / on ({GPU_KEY}) group_left () ({jobs}))"


def gpu_use(matchers: str, join: str = "") -> str:
    """Return how much jobs use of those of their GPUs whose use is known: MIG instances tell none."""
    used = running("batch_job_gpu_utilization_ratio", matchers)
    return f"sum({used}{join}) / sum(({gpu_parts(matchers)} and on ({JOB_KEY}, uuid) {used}){join})"


def gpu_busy(matchers: str) -> str:
    """Return the busy share of each GPU over the time between readings of it, which scrapes do not follow.

    The counter moves when a GPU is read: a plain rate over a few scrapes takes in one reading more or less.
    Without a reading in the window there is no value.
    """
    rate = f"rate(batch_gpu_busy_seconds_total{{{matchers}}}[$__rate_interval])"
    return f"({rate} / {_between_readings(matchers)})"


def gpu_power(jobs: str, cards: str) -> str:
    """Return what each job draws on each GPU, likewise."""
    rate = f"rate(batch_job_gpu_energy_joules_total{{{jobs}}}[$__rate_interval])"
    return f"({rate} / on ({GPU_KEY}) group_left () {_between_readings(cards)})"


def _between_readings(cards: str) -> str:
    older = f"delta(batch_gpu_age_seconds{{{cards}}}[$__rate_interval]) * 1000 / $__rate_interval_ms"
    return f"(1 - {older} > 0.05)"


# --- queries -------------------------------------------------------------------


def query(expression: str, legend: str = "__auto", *, table: bool = False, heatmap: bool = False) -> Json:
    """Return a query over time, or at the end of it where it is for a table."""
    form = "table" if table else "heatmap" if heatmap else "time_series"
    return {
        "expr": expression,
        "legendFormat": legend,
        "format": form,
        "instant": table,
        "range": not table,
        "editorMode": "code",
    }


def now(expression: str, legend: str = "__auto") -> Json:
    """Return a query at the end of the time range."""
    return {**query(expression, legend), "instant": True, "range": False}


# --- how values look -------------------------------------------------------------


def steps(base: str, *further: tuple[float, str]) -> Json:
    """Return thresholds: the colour below all, then from each value on another."""
    return {
        "mode": "absolute",
        "steps": [
            {"color": base, "value": None},
            *({"color": color, "value": value} for value, color in further),
        ],
    }


NEUTRAL = steps(BLUE)
ANY_IS_BAD = steps(GREEN, (1, RED))
ANY_IS_WORTH_A_LOOK = steps(GREEN, (1, ORANGE))
FULLNESS = steps(GREEN, (0.8, ORANGE), (0.95, RED))
USEFULNESS = steps(RED, (0.25, ORANGE), (0.5, YELLOW), (0.75, GREEN))


def named(name: str, *properties: tuple[str, Any]) -> Json:
    """Return what is different for the field of a name; each property is its id and value."""
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": each, "value": value} for each, value in properties],
    }


def colored(name: str, color: str) -> Json:
    """Return a fixed colour for a field."""
    return named(name, ("color", {"mode": "fixed", "fixedColor": color}))


def line_over_stack(name: str, color: str = "text") -> Json:
    """Return the looks of a limit: a dashed line that is not stacked."""
    return named(
        name,
        ("color", {"mode": "fixed", "fixedColor": color}),
        ("custom.lineStyle", {"fill": "dash", "dash": [8, 6]}),
        ("custom.fillOpacity", 0),
        ("custom.stacking", {"mode": "none", "group": "A"}),
    )


# --- panels ----------------------------------------------------------------------


def panel(kind: str, title: str, description: str, queries: Sequence[Json], **more: Any) -> Json:
    """Return a panel of a kind; queries get their letters."""
    targets = [
        {"refId": chr(ord("A") + number), "datasource": DATASOURCE, **each}
        for number, each in enumerate(queries)
    ]
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "targets": targets,
        **more,
    }


def defaults(
    unit: str,
    *,
    empty: str,
    thresholds: Json = NEUTRAL,
    mode: str = "thresholds",
    low: float | None = None,
    high: float | None = None,
    decimals: int | None = None,
    custom: Json | None = None,
    **more: Any,
) -> Json:
    """Return the settings of all fields of a panel; `empty` stands where there is no value."""
    found = {"unit": unit, "noValue": empty, "thresholds": thresholds, "color": {"mode": mode}, **more}
    found |= {
        name: each
        for name, each in {"min": low, "max": high, "decimals": decimals, "custom": custom}.items()
        if each is not None
    }
    return found


def timeseries(
    title: str,
    description: str,
    queries: Sequence[Json],
    unit: str = "short",
    *,
    stacked: bool = False,
    overrides: Sequence[Json] = (),
    thresholds: Json | None = None,
    low: float | None = 0,
    high: float | None = None,
    many: bool = False,
    empty: str = "no data in this time",
    links: Sequence[Json] = (),
    steps_drawn: bool = False,
) -> Json:
    """Return a graph over time. With `many` series the legend stands beside it, with the last values."""
    custom = {
        "drawStyle": "line",
        "lineInterpolation": "stepAfter" if steps_drawn else "linear",
        "lineWidth": 1,
        "fillOpacity": 35 if stacked else 8,
        "showPoints": "never",
        "spanNulls": False,
        "axisSoftMin": 0,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "dashed" if thresholds else "off"},
    }
    calcs = ["lastNotNull"] if many else []
    return panel(
        "timeseries",
        title,
        description,
        queries,
        fieldConfig={
            "defaults": defaults(
                unit,
                empty=empty,
                mode="palette-classic",
                thresholds=thresholds or steps(GREEN),
                low=low,
                high=high,
                custom=custom,
                links=list(links),
            ),
            "overrides": list(overrides),
        },
        options={
            "legend": {
                "displayMode": "table" if many else "list",
                "placement": "right" if many else "bottom",
                "showLegend": True,
                "calcs": calcs,
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    )


def stat(
    title: str,
    description: str,
    expression: str | Sequence[Json],
    unit: str = "short",
    *,
    thresholds: Json = NEUTRAL,
    empty: str = "–",
    text: bool = False,
    background: bool = False,
    decimals: int | None = None,
    mappings: Sequence[Json] = (),
) -> Json:
    """Return a single number, with `text` the series' name instead.

    It is asked for at the end of the time range: of a series that has ended meanwhile Grafana would show the
    last value of a query over time as if it were true now.
    """
    queries = [now(expression)] if isinstance(expression, str) else list(expression)
    return panel(
        "stat",
        title,
        description,
        queries,
        fieldConfig={
            "defaults": defaults(
                unit, empty=empty, thresholds=thresholds, decimals=decimals, mappings=list(mappings)
            ),
            "overrides": [],
        },
        options={
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "graphMode": "none",
            "colorMode": "background" if background else "value",
            "justifyMode": "center",
            "textMode": "name" if text else "auto",
            "orientation": "auto",
            "wideLayout": True,
        },
    )


def bars(
    title: str,
    description: str,
    queries: Sequence[Json],
    unit: str = "short",
    *,
    thresholds: Json = NEUTRAL,
    low: float | None = 0,
    high: float | None = None,
    empty: str = "nothing",
    links: Sequence[Json] = (),
    decimals: int | None = None,
) -> Json:
    """Return lying bars of present values."""
    return panel(
        "bargauge",
        title,
        description,
        queries,
        fieldConfig={
            "defaults": defaults(
                unit,
                empty=empty,
                thresholds=thresholds,
                low=low,
                high=high,
                decimals=decimals,
                links=list(links),
            ),
            "overrides": [],
        },
        options={
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "orientation": "horizontal",
            "displayMode": "basic",
            "showUnfilled": True,
            "valueMode": "color",
            "namePlacement": "left",
            "sizing": "auto",
            "minVizWidth": 8,
            "minVizHeight": 16,
        },
    )


def heatmap(
    title: str, description: str, expression: str, unit: str, *, empty: str = "nothing in this time"
) -> Json:
    """Return a histogram's buckets over time."""
    found = [query(expression, "{{le}}", heatmap=True)]
    cell, color = ("jobs", "short", 1), {"exponent": 0.5, "scale": "exponential"}
    return _heatmap(title, description, found, cell, color, unit, empty, filterValues={"le": 1e-9})


def rows_of_shares(title: str, description: str, expression: str, legend: str, *, empty: str) -> Json:
    """Return a row for each series over time, coloured by its share from 0 to 1."""
    color = {"exponent": 0.5, "scale": "linear", "min": 0, "max": 1}
    found = [query(expression, legend)]
    return _heatmap(title, description, found, ("busy", "percentunit", 0), color, "none", empty)


def _heatmap(
    title: str,
    description: str,
    queries: list[Json],
    cell: tuple[str, str, int],
    color: Json,
    unit: str,
    empty: str,
    **more: Any,
) -> Json:
    name, cell_unit, decimals = cell
    custom = {"scaleDistribution": {"type": "linear"}}
    return panel(
        "heatmap",
        title,
        description,
        queries,
        maxDataPoints=96,
        fieldConfig={"defaults": {"noValue": empty, "custom": custom}, "overrides": []},
        options={
            "calculate": False,
            "cellGap": 1,
            "cellValues": {"unit": cell_unit, "decimals": decimals},
            "color": color
            | {"mode": "scheme", "scheme": "Turbo", "steps": 64, "fill": "dark-orange", "reverse": False},
            "exemplars": {"color": "rgba(255,0,255,0.7)"},
            "legend": {"show": True},
            "rowsFrame": {"layout": "auto", "value": name},
            "tooltip": {"mode": "single", "showColorScale": False, "yHistogram": True},
            "yAxis": {"axisPlacement": "left", "reverse": False, "unit": unit},
            **more,
        },
    )


def boxes(
    title: str,
    description: str,
    queries: Sequence[Json],
    unit: str,
    *,
    highest: float | None = None,
    empty: str = "no data in this time",
) -> Json:
    """Return box plots over time, of five queries: low, first quartile, median, third quartile, high."""
    names = ("lowest", "1st quartile", "median", "3rd quartile", "highest")
    queries = [{**each, "legendFormat": name} for name, each in zip(names, queries, strict=True)]
    return panel(
        "candlestick",
        title,
        description,
        queries,
        maxDataPoints=48,
        fieldConfig={
            "defaults": defaults(
                unit, empty=empty, mode="palette-classic", low=0, high=highest, custom={"axisSoftMin": 0}
            ),
            "overrides": [
                named(
                    "median",
                    ("color", {"mode": "fixed", "fixedColor": ORANGE}),
                    ("custom.lineWidth", 2),
                    ("custom.drawStyle", "line"),
                )
            ],
        },
        options={
            "mode": "candles",
            "candleStyle": "candles",
            "colorStrategy": "open-close",
            "colors": {"up": "blue", "down": "blue", "flat": "blue"},
            "fields": {"open": names[1], "high": names[4], "low": names[0], "close": names[3]},
            "includeAllFields": True,
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
    )


def text(title: str, content: str) -> Json:
    """Return a text."""
    return {
        "type": "text",
        "title": title,
        "description": content.split(". ", maxsplit=1)[0] + ".",
        "options": {"mode": "markdown", "content": content},
    }


def links_of(names: Mapping[str, str]) -> list[Json]:
    """Return a list of data links; see `grafana.links`."""
    return [{"title": title, "url": url, "targetBlank": False} for title, url in names.items()]
