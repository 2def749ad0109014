import re

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from jobfeatures.records.metrics import NODE_CPUS, Metric
from jobfeatures_exporter.families.exposition import Family, histogram_samples, render
from jobfeatures_exporter.registry import NodeCollector
from jobfeatures_exporter.scrape.collectors import COLLECTORS
from jobfeatures_exporter.scrape.pagetext import PageMaker
from jobfeatures_exporter.scrape.profiles import PROFILES

HISTOGRAM = Metric("batch_waits", "histogram", "Waits.", ("queue", "le"))
TWICE = Metric("batch_new_seconds", "gauge", "New.", ("job_id",), "seconds")
FOREIGN = (
    Metric("job_reads_total", "counter", "Theirs, with the suffix.", ("id",), verbatim=True),
    Metric("job_writes", "counter", "Theirs, without.", ("id",), verbatim=True),
)
ODD = [
    Family(HISTOGRAM, histogram_samples(("long",), (0.5, 10), (1, 2, 4), 31.5)),
    Family(TWICE, [(("1",), 3)]),
    Family(TWICE, [(("2",), float("inf"))]),
    *(Family(each, [(('a "b"\n\\ ü',), 5)]) for each in FOREIGN),
    Family(Metric("batch_none", "gauge", "No samples."), []),
]


class Served:
    """What has families, as the daemon has them."""

    def __init__(self, families):
        self.families = lambda: families


def samples(parse, text):
    return {
        (sample.name, tuple(sorted(sample.labels.items())), sample.value)
        for family in parse(text.decode())
        for sample in family.samples
    }


def lines(text):
    """Return name, labels and value of each line as it stands: the parser would give counters a suffix."""
    words = [each.rpartition(" ") for each in text.decode().splitlines() if not each.startswith("#")]
    return {
        (series.partition("{")[0], frozenset(re.findall(r'\w+="(?:[^"\\]|\\.)*"', series)), float(value))
        for series, _, value in words
    }


def families(context, profiles=()):
    return PageMaker(COLLECTORS.keys(), profiles, 0).families(context)


@pytest.mark.parametrize("profiles", [(), tuple(PROFILES)], ids=["ours", "with other names"])
def test_a_registry_gives_the_series_of_the_page(context, profiles):
    made = families(context, profiles)
    registry = CollectorRegistry()
    registry.register(NodeCollector(Served(made)))
    ours = render(made, openmetrics=False)
    assert len(samples(parse_text, ours)) > 300
    assert samples(parse_text, generate_latest(registry)) == samples(parse_text, ours)


def test_as_open_metrics_too(context):
    made = families(context)
    registry = CollectorRegistry()
    registry.register(NodeCollector(Served(made)))
    theirs, ours = generate_openmetrics(registry), render(made, openmetrics=True)
    assert samples(parse_openmetrics, theirs) == samples(parse_openmetrics, ours)
    kinds = [{each.name: each.type for each in parse_openmetrics(text.decode())} for text in (theirs, ours)]
    assert kinds[0] == kinds[1]


def test_histograms_and_the_names_of_others_stand_as_on_the_page():
    registry = CollectorRegistry()
    registry.register(NodeCollector(Served(ODD)))
    assert lines(generate_latest(registry)) == lines(render(ODD, openmetrics=False))


def test_a_program_of_its_own_registers_it_and_has_the_node(tmp_path):
    collector = NodeCollector.from_settings(
        {"features.publish": "false", "batch.sources": "spool", "spool.directory": str(tmp_path)}
    )
    registry = CollectorRegistry()
    registry.register(collector)
    collector.start()
    try:
        names = {name for name, _, _ in samples(parse_text, generate_latest(registry))}
    finally:
        collector.stop()
    assert NODE_CPUS.name in names
    assert not [name for name in names if name.startswith("process_")], "the program has its own"
