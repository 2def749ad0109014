"""Queries and files for Prometheus that a page shows are right, and ask for what there is."""

import functools
import re
import shutil
import subprocess

import promql_parser as promql
import pytest

from jobfeatures_exporter.ingest import page as foreign
from jobfeatures_exporter.scrape import budget, collectors, profiles
from jobfeatures_exporter.web.configfile.options import parse_web_config
from tests.docs.pages import NAMES, ROOT, Block, blocks_of, faults_by_page, queries_in, text_of, words_in
from tests.yamltext import read_yaml

OF_TARGET = {"job", "instance", "node", "cluster"}  # labels that Prometheus or the site puts on
OF_PROMETHEUS = {"up": OF_TARGET, "scrape_duration_seconds": OF_TARGET, "ALERTS": {"alertname", "alertstate"}}
OTHER_WORDS = {"batch_system", "batch_nodes", "batch_controller"}  # a label, and names of scrape jobs


METRICS = [
    *(*collectors.METRICS, *budget.METRICS, profiles.SUCCESS, *foreign.METRICS),
    *(metric for each in collectors.COLLECTORS.values() for metric in each.metrics),
    *(metric for each in profiles.PROFILES.values() for metric in each.metrics),
]


def declared():
    """Return the labels of each sample name that some page of the exporter can have."""
    found = {}
    for metric in METRICS:
        names = [metric.sample_name]
        if metric.kind == "histogram":
            names = [f"{metric.name}_{part}" for part in ("bucket", "sum", "count")]
        for name in names:
            found[name] = found.get(name, set()) | set(metric.label_names) | OF_TARGET
            found[name] |= {"le"} if name.endswith("_bucket") else set()
    return found | OF_PROMETHEUS


DECLARED = declared()
FILES = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "grafana/rules").glob("*.yml"))]


def rules_in(text):
    return [rule for group in (loaded(text) or {}).get("groups", []) for rule in group["rules"]]


@functools.cache
def loaded(text):
    return read_yaml(text)


@functools.cache
def recorded():
    texts = [*FILES, *(block.text for block in blocks_of("yaml"))]
    return {rule["record"] for text in texts for rule in rules_in(text) if "record" in rule}


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
        if isinstance(node, promql.VectorSelector) and node.name not in recorded():
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


def faults_of_block(block):
    if not queries_in(block):
        yield "no query"
    for query in queries_in(block):
        yield from faults_of(query)


def test_a_query_asks_for_metrics_and_labels_that_there_are():
    assert faults_by_page(blocks_of("promql"), faults_of_block) == {}


def test_a_wrong_query_would_be_noticed():
    block = Block("", 1, "promql", "# a\nsum by (x) (\n  batch_job_info)\n\nup{y='1'} - nothing\n")
    first, second = queries_in(block)
    assert list(faults_of(first)) == ["no metric here has the label x"]
    assert list(faults_of(second)) == ["up: has no label y", "nothing: no such metric"]


EVERY = DECLARED.keys() | {re.sub(r"_(bucket|sum|count)$", "", each) for each in DECLARED}


def unknown_metrics(name):
    """A name that ends with … or _ stands for all that begin so."""
    for span in words_in(text_of(name)):
        for word, open_end in re.findall(r"(?<![\w.:-])(batch_[a-z0-9_]+)(…|\*)?", span):
            begins = open_end or word.endswith("_")
            found = any(each.startswith(word) for each in EVERY) if begins else word in EVERY
            if not found and word not in OTHER_WORDS:
                yield span


def test_a_metric_in_a_sentence_exists():
    assert faults_by_page(NAMES, unknown_metrics) == {}


def unrecorded(name):
    named = {word for word in words_in(text_of(name)) if re.fullmatch(r"[a-z_]+:[a-z0-9_]+:[a-z0-9_]+", word)}
    return named - recorded()


def test_a_recorded_series_in_a_sentence_is_recorded():
    assert faults_by_page(NAMES, unrecorded) == {}


def kind_of(block):
    """Return the file that the block is a part of: Prometheus', one with rules, or another."""
    document = loaded(block.text)
    kinds = {"scrape_configs": "config", "rule_files": "config", "remote_write": "config", "groups": "rules"}
    kinds |= dict.fromkeys(("tls_server_config", "basic_auth_users", "http_server_config"), "web")
    return next((kind for key, kind in kinds.items() if key in document), "")


def refused(block, file):
    if (kind := kind_of(block)) == "web":
        hashed = block.text.replace("$...", "$" + "a" * 53)
        return parse_web_config(hashed.encode(), source=block.place).warnings
    file.write_text(block.text)
    syntax = ["--syntax-only"] if kind == "config" else []
    command = ["promtool", "check", kind, *syntax, str(file)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return [checked.stdout + checked.stderr] if checked.returncode else []


@pytest.mark.program
@pytest.mark.parametrize("kinds", [("config", "rules"), ("web",)])
def test_a_file_for_prometheus_or_for_the_web_is_taken_by_its_checker(kinds, tmp_path):
    if kinds != ("web",) and shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    blocks = [block for block in blocks_of("yaml") if kind_of(block) in kinds]
    assert blocks
    assert faults_by_page(blocks, lambda block: refused(block, tmp_path / "file.yml")) == {}


def faults_of_rules(block):
    return [fault for rule in rules_in(block.text) for fault in faults_of(rule["expr"])]


def test_rules_on_a_page_ask_for_metrics_that_there_are():
    assert faults_by_page(blocks_of("yaml"), faults_of_rules) == {}
