"""The dashboards as they are committed: what Grafana would not tell before somebody opens them."""

import json
import re
from pathlib import Path

import promql_parser as promql
import pytest

from grafana.generate import DASHBOARDS, THRESHOLDS, files, thresholds
from jobfeatures.records.metrics import Metric
from jobfeatures_exporter.scrape import budget, collectors, profiles
from jobfeatures_exporter.view.thresholds import (
    IDLE_CPU,
    IDLE_GPU,
    LOW_CPU,
    LOW_GPU,
    LOW_MEMORY,
    MANY_CPUS,
    MEMORY_FULL,
    SERIAL_CPUS,
)
from tests.together import together

BOARDS = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(DASHBOARDS.glob("*.json"))
}
NAMES = {board["uid"]: board for board in BOARDS.values()}
OF_TARGET = {"cluster", "job", "instance", "node"}  # labels that Prometheus or the site puts on
# Of node_exporter, lustre_exporter and gpfs_exporter, joined to jobs that have a node to themselves.
OF_OTHERS = {
    "node_infiniband_port_data_received_bytes_total": {"device", "port"},
    "node_infiniband_port_data_transmitted_bytes_total": {"device", "port"},
    "node_network_receive_bytes_total": {"device"},
    "node_network_transmit_bytes_total": {"device"},
    "node_mountstats_nfs_total_read_bytes_total": {"export", "mountaddr", "protocol"},
    "node_mountstats_nfs_total_write_bytes_total": {"export", "mountaddr", "protocol"},
    "lustre_read_bytes_total": {"component", "target"},
    "lustre_write_bytes_total": {"component", "target"},
    "gpfs_perf_read_bytes_total": {"fs"},
    "gpfs_perf_write_bytes_total": {"fs"},
}
OF_PROMETHEUS = {"up", "scrape_duration_seconds", "scrape_samples_scraped"}
TITLE_PIXELS, COLUMN_PIXELS = 8.5, 1400 / 24  # of a letter, and of a column of the grid on a laptop
UNIT_TYPES = {"timeseries", "stat", "bargauge", "candlestick", "table"}


def flat(panels):
    for panel in panels:
        yield panel
        yield from flat(panel.get("panels", []))


def panels_of(board):
    return [panel for panel in flat(board["panels"]) if panel["type"] != "row"]


PANELS = [(name, panel) for name, board in BOARDS.items() for panel in panels_of(board)]
QUERIES = [
    (name, panel["title"], target["expr"]) for name, panel in PANELS for target in panel.get("targets", [])
]


def declared() -> dict[str, set[str]]:
    """Return the labels of each sample name that the exporter can show."""
    found: dict[str, set[str]] = {}
    every = [*collectors.METRICS, *budget.METRICS, profiles.SUCCESS]
    every += [metric for each in collectors.COLLECTORS.values() for metric in each.metrics]
    for metric in every:
        found.update(dict.fromkeys(sample_names(metric), set(metric.label_names) | OF_TARGET))
    found |= {name: labels | OF_TARGET for name, labels in OF_OTHERS.items()}
    return found | dict.fromkeys(OF_PROMETHEUS, OF_TARGET)


def sample_names(metric: Metric) -> list[str]:
    if metric.kind == "histogram":
        return [f"{metric.name}_{part}" for part in ("bucket", "sum", "count")]
    return [metric.sample_name]


DECLARED = declared()


def parse(expression: str):
    """Parse a query with Grafana's variables filled in."""
    text = re.sub(
        r"\$__(rate_interval|range|interval)\b", "5m", expression.replace("$__rate_interval_ms", "300000")
    )
    return promql.parse(re.sub(r"\$\{?\w+\}?", "x", text))


def nodes(tree):
    yield tree
    for name in ("expr", "lhs", "rhs", "vector_selector"):
        if (child := getattr(tree, name, None)) is not None:
            yield from nodes(child)
    for child in getattr(tree, "args", None) or []:
        yield from nodes(child)


def selectors(tree):
    return [node for node in nodes(tree) if isinstance(node, promql.VectorSelector)]


def matchers(selector) -> set[str]:
    return {each.name for each in selector.matchers.matchers}


def grouped(tree) -> set[str]:
    """Return the labels that by, on, group_left and label_replace name."""
    found = set()
    for node in nodes(tree):
        text = str(getattr(node, "modifier", None) or "")
        for group in re.findall(r"\(([^()]*)\)", text):
            found.update(word.strip() for word in group.split(",") if word.strip())
    return found


def test_the_files_are_what_the_code_makes():
    made = files()
    assert sorted(made) == sorted(path.name for path in DASHBOARDS.iterdir())
    for name, content in made.items():
        assert (DASHBOARDS / name).read_text(encoding="utf-8") == content, "run: python -m grafana.generate"


def test_alerts_compare_with_the_numbers_by_which_the_page_and_reports_judge():
    assert THRESHOLDS.read_text(encoding="utf-8") == thresholds(), "run: python -m grafana.generate"
    written = dict(re.findall(r"site:(\w+):threshold  #.*\n +expr: vector\((.+)\)", thresholds()))
    judged = (IDLE_CPU, LOW_CPU, MANY_CPUS, SERIAL_CPUS, IDLE_GPU, LOW_GPU, MEMORY_FULL, LOW_MEMORY)
    names = (
        *(
            "idle_cpu_ratio",
            "low_cpu_ratio",
            "serial_cpus",
            "serial_busy_cpus",
            "idle_gpu_ratio",
            "low_gpu_ratio",
        ),
        *("memory_full_ratio", "low_memory_ratio"),
    )
    assert tuple(float(written[name]) for name in names) == judged


def test_there_is_one_for_each_question():
    wanted = {"cluster", "node", "job", "user", "gpu", "drains", "schedule", "health"}
    assert wanted == BOARDS.keys()
    assert {f"jobfeatures-{name}" for name in wanted} == NAMES.keys()


@pytest.mark.parametrize("name", BOARDS)
def test_all_are_alike(name):
    board = BOARDS[name]
    assert board["title"].startswith("Batch: ")
    assert board["description"].endswith(".")
    assert board["editable"] is True
    assert board["timezone"] == "browser"
    assert board["refresh"] == "1m"
    assert board["tags"][0] == "jobfeatures"
    assert [each["name"] for each in board["templating"]["list"]][:2] == ["datasource", "cluster"]
    ids = [panel["id"] for panel in flat(board["panels"])]
    assert len(ids) == len(set(ids))
    assert all(panel["type"] == "row" for panel in board["panels"][:1])


@pytest.mark.parametrize("name", BOARDS)
def test_panels_neither_overlap_nor_leave_the_grid(name):
    taken = set()
    for panel in BOARDS[name]["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells


@together(PANELS)
def test_a_panel_explains_itself(name, panel):
    assert panel["description"].rstrip().endswith("."), "a description is a sentence"
    assert len(panel["title"]) * TITLE_PIXELS < panel["gridPos"]["w"] * COLUMN_PIXELS - 16, (
        "the title is cut off"
    )
    if panel["type"] in UNIT_TYPES:
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["fieldConfig"]["defaults"]["noValue"]
    for target in panel.get("targets", []):
        assert target["datasource"]["uid"] == "${datasource}"


@together(PANELS)
def test_a_sum_over_partitions_says_that_these_may_share_nodes_and_jobs(name, panel):
    summed = [
        each["expr"]
        for each in panel.get("targets", [])
        if re.search(
            r"sum(?: by \((?:kind|state|reason|partition)\))? ?\((batch_cluster_|batch_queue_)", each["expr"]
        )
    ]
    several = [each for each in summed if "RUNNING" not in each and "_wait_job_seconds" not in each]
    assert not several or "counts in each" in panel["description"]


@together(
    [each for each in QUERIES if each[0] == "schedule" and re.search(r"\[(1h|\$__rate_interval)\]", each[2])]
)
def test_jobs_that_a_restarted_controller_counts_anew_have_not_ended_just_now(name, title, expression):
    assert (
        "unless on (cluster, instance, batch_system) changes(batch_schedule_begin_timestamp_seconds"
        in expression
    )


@together(PANELS)
def test_what_is_shown_as_present_is_asked_for_now(name, panel):
    """Of a query over time Grafana takes a series' last value, also where the series has ended long ago."""
    if panel["type"] in {"stat", "bargauge", "table"}:
        assert all(target["instant"] and not target["range"] for target in panel["targets"])


@together(QUERIES)
def test_a_query_asks_for_what_the_exporter_shows(name, title, expression):
    tree = parse(expression)
    found = selectors(tree)
    known = set()
    for selector in found:
        assert selector.name in DECLARED, f"{title}: no such metric"
        assert matchers(selector) <= DECLARED[selector.name], f"{title}: {selector.name} has no such label"
        known |= DECLARED[selector.name]
    assert grouped(tree) <= known, title


@together(QUERIES)
def test_a_query_is_cheap(name, title, expression):
    """It asks for one cluster at least, takes rates over what Grafana advises, and never counts a subquery."""
    tree = parse(expression)
    assert all("cluster" in matchers(selector) for selector in selectors(tree)), "of all clusters at once"
    assert not any(isinstance(node, promql.SubqueryExpr) for node in nodes(tree))
    for function, window in re.findall(r"(rate|increase)\([^\[\]]*\[([^\]]*)\]", expression):
        allowed = {"$__rate_interval"} if function == "rate" else {"$__rate_interval", "$__range", "1h"}
        assert window in allowed | ({"1h"} if name == "schedule" else set())


@together([each for each in QUERIES if each[0] != "job"])
def test_a_graph_has_few_series_however_large_the_site_is(name, title, expression):
    """Series by job, node or card are the highest ones, or those of what was chosen by name."""
    board = BOARDS[name]
    chosen = {each["name"] for each in board["templating"]["list"] if not each["includeAll"]}
    graphs = {panel["title"] for panel in panels_of(board) if panel["type"] == "timeseries"}
    if title in graphs and {"job_id", "uuid"} & labels_of_series(parse(expression)):
        assert chosen & {"instance", "user"}, title


def labels_of_series(tree) -> set[str]:
    """Return the labels that make series; none of topk, which bounds them."""
    if isinstance(tree, promql.AggregateExpr):
        return set() if "topk" in str(tree.op) else set(getattr(tree.modifier, "labels", None) or ())
    if isinstance(tree, promql.VectorSelector):
        return DECLARED[tree.name]
    if isinstance(tree, promql.MatrixSelector):
        return DECLARED[tree.vector_selector.name]
    if isinstance(tree, promql.BinaryExpr):
        return labels_of_series(tree.lhs) or labels_of_series(tree.rhs)
    if isinstance(tree, promql.Call):
        return set().union(*map(labels_of_series, tree.args))
    inner = getattr(tree, "expr", None)
    return set() if inner is None else labels_of_series(inner)


@together(QUERIES)
def test_ended_jobs_do_not_count_as_having_anything(name, title, expression):
    """The exporter shows them for two minutes more; only a job's own page, and that of exporters, shows them too."""
    has = {
        "batch_job_allocated_cpus",
        "batch_job_allocated_memory_bytes",
        "batch_job_gpu_allocated",
        "batch_job_info",
    }
    if title in {panel["title"] for panel in panels_of(BOARDS[name]) if panel["type"] == "table"}:
        has |= {
            "batch_job_gpu_utilization_ratio",
            "batch_job_gpu_memory_bytes",
            "batch_job_memory_charged_bytes",
        }
    names = {selector.name for selector in selectors(parse(expression))}
    if name not in {"job", "health"} and has & names:
        assert "batch_job_end_time_seconds" in names, title


def test_what_is_checked_can_fail():
    assert "batch_job_cpu_seconds" not in DECLARED
    assert "colour" not in DECLARED["batch_job_cpu_seconds_total"]
    assert labels_of_series(parse("rate(batch_job_cpu_seconds_total[5m]) / 2")) > {"job_id"}
    assert labels_of_series(parse("sum by (user) (batch_job_info) / 2")) == {"user"}
    assert labels_of_series(parse("topk(3, batch_job_info) / 2")) == set()
    assert grouped(parse("sum by (a, b) (x * on (c) group_left (d) y)")) == {"a", "b", "c", "d"}
    with pytest.raises(ValueError, match="unclosed left parenthesis"):
        parse("sum(rate(x[5m])")


@pytest.mark.parametrize("name", BOARDS)
def test_variables_that_are_used_are_there_and_others_are_not(name):
    board = BOARDS[name]
    variables = {each["name"]: each for each in board["templating"]["list"]}
    text = json.dumps([board["panels"], *(each.get("query") for each in variables.values())])
    used = set(re.findall(r"\$\{?(\w+)", text)) - {
        "__rate_interval",
        "__rate_interval_ms",
        "__range",
        "__url_time_range",
    }
    used = {word for word in used if not word.startswith("__") and not word.isdecimal()}  # of a pattern
    assert used == variables.keys()
    for each in variables.values():
        assert each["label"]
        assert each["description"]
        if each["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", each["query"]["query"]).groups()
            [selector] = selectors(parse(metric))
            assert {label, *matchers(selector)} <= DECLARED[selector.name]


@pytest.mark.parametrize("name", BOARDS)
def test_links_lead_to_dashboards_with_the_variables_they_set(name):
    found = re.findall(r"/d/([\w-]+)\?([^\"]*)", json.dumps(BOARDS[name], ensure_ascii=False))
    if name in {"node", "user", "gpu", "drains", "cluster", "schedule", "health", "job"}:
        assert found, "rows lead somewhere"
    for uid, parameters in found:
        variables = {each["name"] for each in NAMES[uid]["templating"]["list"]}
        assert set(re.findall(r"var-(\w+)=", parameters)) <= variables
        assert set(re.findall(r"\$\{(\w+):queryparam\}", parameters)) == {"datasource", "cluster"}
        assert "${__url_time_range}" in parameters


@pytest.mark.parametrize("name", BOARDS)
def test_what_a_link_takes_from_its_row_is_in_the_row(name):
    for panel in panels_of(BOARDS[name]):
        wanted = set(re.findall(r"__(?:data\.fields|field\.labels)\.(\w+)", json.dumps(panel)))
        for target in panel.get("targets", [])[:1]:
            have = grouped(parse(target["expr"])) | OF_TARGET
            series = set().union(*(DECLARED[each.name] for each in selectors(parse(target["expr"]))))
            assert wanted <= have | series, panel["title"]


def test_the_folder_that_is_provisioned_is_the_one_of_the_docs():
    page = (Path(__file__).parents[2] / "docs/grafana.md").read_text(encoding="utf-8")
    provider = (DASHBOARDS.parent / "provisioning/dashboards/jobfeatures.yml").read_text(encoding="utf-8")
    folder = re.search(r"path: (\S+)", provider)[1]
    assert folder in page
    assert all(f"`{name}.json`" in page for name in BOARDS)


def test_nothing_is_lost_on_a_round_trip_through_grafanas_own_library():
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()  # without it options of panels pass unchecked
    for name, board in json.loads(json.dumps(BOARDS)).items():
        for mark in board["annotations"]["list"]:  # without what is the data source's own
            for key in ("expr", "useValueForTime", "titleFormat", "tagKeys"):
                del mark[key]
        got = json.loads(json.dumps(Dashboard.from_json(json.loads(json.dumps(board))), cls=JSONEncoder))
        assert list(differences(board, got, name)) == []


def differences(want, got, where):
    if isinstance(want, dict) and isinstance(got, dict):
        for key, value in want.items():
            if key in got:
                yield from differences(value, got[key], f"{where}/{key}")
            elif value not in (None, [], {}):
                yield f"lost {where}/{key} = {value!r}"
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for index, (one, other) in enumerate(zip(want, got, strict=True)):
            yield from differences(one, other, f"{where}/{index}")
    elif want != got:
        yield f"changed {where}: {want!r} -> {got!r}"
