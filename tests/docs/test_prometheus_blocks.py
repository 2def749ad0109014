"""Queries and files for Prometheus that a page shows are right, and ask for what there is."""

import re
import shutil
import subprocess

import promql_parser as promql
import pytest
import yaml

from exporter import budget, collectors, profiles
from exporter.ingest import page as foreign
from exporter.web.webconfig import parse_web_config
from tests.docs.pages import NAMES, ROOT, Block, blocks_of, queries_in, text_of, words_in

OF_TARGET = {"job", "instance", "node", "cluster"}  # labels that Prometheus or the site puts on
OF_PROMETHEUS = {"up": OF_TARGET, "scrape_duration_seconds": OF_TARGET, "ALERTS": {"alertname", "alertstate"}}
OTHER_WORDS = {"batch_system", "batch_nodes", "batch_controller"}  # a label, and names of scrape jobs


def declared():
    """Return the labels of each sample name that some page of the exporter can have."""
    every = [*collectors.METRICS, *budget.METRICS, profiles.SUCCESS, *foreign.METRICS]
    every += [metric for each in collectors.COLLECTORS.values() for metric in each.metrics]
    every += [metric for each in profiles.PROFILES.values() for metric in each.metrics]
    found = {}
    for metric in every:
        names = [metric.sample_name]
        if metric.kind == "histogram":
            names = [f"{metric.name}_{part}" for part in ("bucket", "sum", "count")]
        for name in names:
            found[name] = found.get(name, set()) | set(metric.label_names) | OF_TARGET
            found[name] |= {"le"} if name.endswith("_bucket") else set()
    return found | OF_PROMETHEUS


DECLARED = declared()
FILES = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "grafana/rules").glob("*.yml"))]
RECORDED = {
    rule["record"]
    for text in [*FILES, *(block.text for block in blocks_of("yaml"))]
    for group in (yaml.safe_load(text) or {}).get("groups", [])
    for rule in group["rules"]
    if "record" in rule
}


def nodes(tree):
    yield tree
    for name in ("expr", "lhs", "rhs", "vector_selector"):
        if (child := getattr(tree, name, None)) is not None:
            yield from nodes(child)
    for child in getattr(tree, "args", None) or []:
        yield from nodes(child)


def faults_of(query):
    tree = promql.parse(query)
    known = set()
    for node in nodes(tree):
        if isinstance(node, promql.VectorSelector) and node.name not in RECORDED:
            if node.name not in DECLARED:
                yield f"{node.name}: no such metric"
                continue
            known |= DECLARED[node.name]
            for each in node.matchers.matchers:
                if each.name not in DECLARED[node.name]:
                    yield f"{node.name}: has no label {each.name}"
    for node in nodes(tree):
        for group in re.findall(r"\(([^()]*)\)", str(getattr(node, "modifier", None) or "")):
            for label in {word.strip() for word in group.split(",") if word.strip()} - known:
                yield f"no metric here has the label {label}"


@pytest.mark.parametrize("block", blocks_of("promql"), ids=lambda block: block.place)
def test_a_query_asks_for_metrics_and_labels_that_there_are(block):
    assert queries_in(block)
    assert [fault for query in queries_in(block) for fault in faults_of(query)] == []


def test_a_wrong_query_would_be_noticed():
    block = Block("", 1, "promql", "# a\nsum by (x) (\n  batch_job_info)\n\nup{y='1'} - nothing\n")
    first, second = queries_in(block)
    assert list(faults_of(first)) == ["no metric here has the label x"]
    assert list(faults_of(second)) == ["up: has no label y", "nothing: no such metric"]


@pytest.mark.parametrize("name", NAMES)
def test_a_metric_in_a_sentence_exists(name):
    """A name that ends with … or _ stands for all that begin so."""
    every = DECLARED.keys() | {re.sub(r"_(bucket|sum|count)$", "", each) for each in DECLARED}
    wrong = []
    for span in words_in(text_of(name)):
        for word, open_end in re.findall(r"(?<![\w.:-])(batch_[a-z0-9_]+)(…|\*)?", span):
            begins = open_end or word.endswith("_")
            found = any(each.startswith(word) for each in every) if begins else word in every
            if not found and word not in OTHER_WORDS:
                wrong.append(span)
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_series_in_a_sentence_is_recorded(name):
    named = {word for word in words_in(text_of(name)) if re.fullmatch(r"[a-z_]+:[a-z0-9_]+:[a-z0-9_]+", word)}
    assert named - RECORDED == set()


def kind_of(block):
    """Return the file that the block is a part of: Prometheus', one with rules, or another."""
    document = yaml.safe_load(block.text)
    kinds = {"scrape_configs": "config", "rule_files": "config", "remote_write": "config", "groups": "rules"}
    kinds |= dict.fromkeys(("tls_server_config", "basic_auth_users", "http_server_config"), "web")
    return next((kind for key, kind in kinds.items() if key in document), "")


@pytest.mark.program
@pytest.mark.parametrize("block", list(filter(kind_of, blocks_of("yaml"))), ids=lambda block: block.place)
def test_a_file_for_prometheus_or_for_the_web_is_taken_by_its_checker(block, tmp_path):
    if (kind := kind_of(block)) == "web":
        hashed = block.text.replace("$...", "$" + "a" * 53)
        assert parse_web_config(hashed.encode(), source=block.place).warnings == ()
        return
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    file = tmp_path / "file.yml"
    file.write_text(block.text)
    syntax = ["--syntax-only"] if kind == "config" else []
    checked = subprocess.run(
        ["promtool", "check", kind, *syntax, str(file)], capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("block", blocks_of("yaml"), ids=lambda block: block.place)
def test_rules_on_a_page_ask_for_metrics_that_there_are(block):
    groups = (yaml.safe_load(block.text) or {}).get("groups", [])
    expressions = [rule["expr"] for group in groups for rule in group["rules"]]
    assert [fault for each in expressions for fault in faults_of(each)] == []
