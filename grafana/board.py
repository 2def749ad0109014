"""A dashboard: its variables, its links to the others, its rows of panels. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grafana.panels import DATASOURCE, GREEN, RED, TAG, WIDTH, Json

# Where things lead. Values of the row clicked at come by name of its field, the rest is carried along.
_CARRIED = "${datasource:queryparam}&${cluster:queryparam}&${__url_time_range}"


def job_link(source: str = "__data.fields") -> tuple[str, str]:
    """Return title and address of the dashboard of a job, for a data link; `source` holds its labels."""
    return (
        "This job",
        f"/d/jobfeatures-job?{_CARRIED}&var-batch_system=${{{source}.batch_system}}&var-job_id=${{{source}.job_id}}",
    )


def node_link(source: str = "__data.fields") -> tuple[str, str]:
    """Return the same of a node."""
    return "This node", f"/d/jobfeatures-node?{_CARRIED}&var-instance=${{{source}.instance}}"


def user_link(source: str = "__data.fields") -> tuple[str, str]:
    """Return the same of a user."""
    return "This user", f"/d/jobfeatures-user?{_CARRIED}&var-user=${{{source}.user}}"


def gpu_link(source: str = "__data.fields") -> tuple[str, str]:
    """Return the same of a card."""
    return "This card", f"/d/jobfeatures-gpu?{_CARRIED}&var-gpu=${{{source}.uuid}}"


OF_SERIES = "__field.labels"


def variable(
    name: str,
    label: str,
    metric: str,
    description: str,
    *,
    of: str = "",
    several: bool = True,
    everything: bool = True,
) -> Json:
    """Return a variable by values of a label (`of`, else the name) of the series `metric`.

    `several` may be chosen, or `everything`, which is chosen at first; not so where a graph shows each job.
    """
    definition = f"label_values({metric}, {of or name})"
    found = {
        "type": "query",
        "name": name,
        "label": label,
        "description": description,
        "datasource": DATASOURCE,
        "query": {"qryType": 1, "query": definition, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "refresh": 2,
        "sort": 7 if several else 8,  # natural; of a choice of one the newest number first
        "multi": several,
        "includeAll": several and everything,
        "options": [],
        "hide": 0,
        "skipUrlSync": False,
    }
    if several and everything:
        found["allValue"] = ".*"  # all of a label are also those without it
        found["current"] = {"text": ["All"], "value": ["$__all"]}
    return found


def cluster_variable() -> Json:
    """Return the cluster: a label that sites add."""
    return variable(
        "cluster",
        "Cluster",
        "batch_exporter_build_info",
        "The label cluster, where the site adds one to what it scrapes.",
    )


def datasource_variable() -> Json:
    """Return the choice of the Prometheus that is asked."""
    return {
        "type": "datasource",
        "name": "datasource",
        "label": "Prometheus",
        "description": "The Prometheus, or what speaks its language, that is asked.",
        "query": "prometheus",
        "refresh": 1,
        "options": [],
        "multi": False,
        "includeAll": False,
        "hide": 0,
        "skipUrlSync": False,
        "regex": "",
    }


def starts_and_ends(matchers: str, *, enable: bool) -> list[Json]:
    """Return marks where jobs start and end: the values of these metrics are the times."""
    return [
        {
            "name": f"Job {word}",
            "datasource": DATASOURCE,
            "enable": enable,
            "hide": False,
            "iconColor": color,
            "expr": f"max by (batch_system, job_id) ({metric}{{{matchers}}}) * 1000",
            "useValueForTime": True,
            "titleFormat": f"{{{{job_id}}}} {word}",
            "tagKeys": "batch_system",
        }
        for word, metric, color in (
            ("starts", "batch_job_start_time_seconds", GREEN),
            ("ends", "batch_job_end_time_seconds", RED),
        )
    ]


Placed = tuple[Json, int, int]


def line(*panels: Json, height: int = 8) -> list[Placed]:
    """Return panels side by side over the whole width."""
    width = WIDTH // len(panels)
    return [(each, width, height) for each in panels]


@dataclass(frozen=True)
class Row:
    """A row with a title: panels with width and height, from left to right, on the next line where full."""

    title: str
    panels: Sequence[Placed]
    collapsed: bool = False


def dashboard(
    uid: str,
    title: str,
    description: str,
    tags: Sequence[str],
    variables: Sequence[Json],
    rows: Sequence[Row],
    *,
    annotations: Sequence[Json] = (),
    since: str = "now-6h",
    refresh: str = "1m",
) -> Json:
    """Return a dashboard."""
    return {
        "uid": f"{TAG}-{uid}",
        "title": title,
        "description": description,
        "tags": [TAG, *tags],
        "schemaVersion": 41,
        "version": 1,
        "editable": True,
        "timezone": "browser",
        "weekStart": "",
        "graphTooltip": 1,
        "refresh": refresh,
        "time": {"from": since, "to": "now"},
        "timepicker": {},
        "annotations": {"list": list(annotations)},
        "links": [
            {
                "title": "Batch dashboards",
                "type": "dashboards",
                "icon": "external link",
                "tooltip": "",
                "url": "",
                "tags": [TAG],
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
                "targetBlank": False,
            }
        ],
        "templating": {"list": [datasource_variable(), *variables]},
        "panels": _placed(rows),
    }


def _placed(rows: Sequence[Row]) -> list[Json]:
    """Return the panels with their numbers and places."""
    found: list[Json] = []
    number, y = 1, 0
    for row in rows:
        header: Json = {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": row.collapsed,
            "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
            "panels": [],
        }
        found.append(header)
        number, y, x, line = number + 1, y + 1, 0, 0
        inside: list[Json] = []
        for panel, width, height in row.panels:
            if x + width > WIDTH:
                x, y, line = 0, y + line, 0
            inside.append({"id": number, **panel, "gridPos": {"x": x, "y": y, "w": width, "h": height}})
            number, x, line = number + 1, x + width, max(line, height)
        y += line
        if row.collapsed:
            header["panels"] = inside
        else:
            found += inside
    return found
