"""The whole page of one constructed context, as it stands in tests/fixtures/golden.

After a change that is meant, write it anew: JOBFEATURES_WRITE_GOLDEN=1 pytest tests/exporter/scrape/collectors/test_golden.py
"""

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from jobfeatures.drains import nodemetrics
from jobfeatures.records import metrics
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.scrape import budget, collectors
from jobfeatures_exporter.scrape.collectors import COLLECTORS, METRICS, collect
from jobfeatures_exporter.scrape.pagetext import PageMaker

GOLDEN = Path(__file__).parents[3] / "fixtures/golden"
# What differs from run to run: how long a collector took, and the process's own figures and versions.
VARYING = re.compile(
    r"^((?:batch_exporter_collectors?_duration_seconds|process_\w+)(?:\{.*\})?) .*$|revision=\"[^\"]*\",python=\"[^\"]*\"",
    re.MULTILINE,
)


@pytest.fixture
def context(context, monkeypatch):
    """Return the context with the job that no source knows as one that has left processes; all collectors are slow.

    Else no advice on the node would be whole. The pilot's last payload began before the pilot: more than
    it can lose.
    """
    monkeypatch.setattr(collectors, "SLOW_SECS", 0.0)
    leftovers = {JobKey("slurm", "99"): context.now_secs - 120}
    pilot = JobKey("spool", 'pilot "7"\\\n')
    started = replace(context.jobs[pilot], start_secs=int(context.now_secs) - 400)
    jobs = {**context.jobs, pilot: started}
    return replace(context, leftovers=leftovers, jobs=jobs)


def page(context, *, openmetrics):
    text = PageMaker(COLLECTORS.keys(), (), 0).render(context, openmetrics=openmetrics).decode()
    return VARYING.sub(lambda match: f"{match[1]} 0" if match[1] else 'revision="",python="3"', text)


@pytest.mark.parametrize(("name", "openmetrics"), [("metrics.txt", False), ("openmetrics.txt", True)])
def test_the_page_is_the_golden_one(context, name, openmetrics):
    text = page(context, openmetrics=openmetrics)
    if os.environ.get("JOBFEATURES_WRITE_GOLDEN"):
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


def test_every_declared_metric_is_in_the_golden_page():
    text = (GOLDEN / "metrics.txt").read_text(encoding="utf-8")
    declared = [
        *METRICS,
        *budget.METRICS,
        *(metric for collector in COLLECTORS.values() for metric in collector.metrics),
    ]
    assert [metric.sample_name for metric in declared if f"# TYPE {metric.sample_name} " not in text] == []
    assert len({metric.name for metric in declared}) == len(declared)


def test_what_stands_low_is_shown_by_a_collector_and_plans_read_nothing_else():
    declared = {metric for collector in COLLECTORS.values() for metric in collector.metrics}
    low = {each for each in vars(metrics).values() if isinstance(each, metrics.Metric)}
    assert low <= declared
    assert set(nodemetrics.READ) == low


def test_every_series_has_the_labels_that_its_metric_declares(context):
    for family in collect(context, COLLECTORS.keys()):
        for values, _value in family.samples:
            assert len(values) == len(family.metric.label_names), family.metric.name
            assert all(isinstance(value, str) for value in values), family.metric.name


def test_no_series_stands_there_twice(context):
    lines = [
        line.rpartition(" ")[0] for line in page(context, openmetrics=False).splitlines() if line[0] != "#"
    ]
    assert len(set(lines)) == len(lines)


def test_prometheus_client_takes_it_for_openmetrics(context):
    families = list(parse_openmetrics(page(context, openmetrics=True)))
    shown = [*(family.metric for family in collect(context, COLLECTORS.keys())), *budget.METRICS]
    assert len(families) == len(shown)


@pytest.mark.program
def test_promtool_has_nothing_to_say_about_it():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    golden = (GOLDEN / "metrics.txt").read_bytes()
    done = subprocess.run([promtool, "check", "metrics"], input=golden, capture_output=True, check=False)
    assert done.stdout + done.stderr == b""
    assert done.returncode == 0
