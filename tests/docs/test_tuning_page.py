"""The arithmetic on the page on tuning, from the defaults of settings and the figures of the benchmarks."""

import re

import pytest

from jobfeatures_exporter.config import ExporterConfig
from tests.docs.pages import text_of

PAGE, MEASURED = " ".join(text_of("docs/tuning.md").split()), text_of("docs/benchmarks.md")
CONFIG = ExporterConfig()


def measured(pattern):
    """Return the numbers that the benchmarks' page has there."""
    return [float(each.replace(",", "")) for each in re.search(pattern, MEASURED).groups()]


def test_what_a_node_spends():
    kernel, proc = measured(r"\| b \| ([\d.]+) \([^|]* \| ([\d.]+) \(")
    assert f"{kernel} ÷ 15 = {kernel / 15:.1f} ms a second with eBPF, {proc / 15:.1f} ms from" in PAGE


def test_when_jobs_reach_the_budget():
    found = re.search(
        r"about (\d+) series, each core (\d+), .* each job (\d+) more", text_of("docs/prometheus.md")
    )
    node, core, job = map(int, found.groups())
    node += 64 * core
    assert f"A node of 64 cores has about {node} series, each job {job} more: about 450 jobs" in PAGE
    assert (CONFIG.metrics.max_series - node) / job == pytest.approx(450, rel=0.02)


def test_what_two_thousand_nodes_ask():
    assert CONFIG.shared.batch.common.refresh_secs == 300
    rpcs, near = 16 + 4, 4 * (1 / 60 - 1 / 300)
    told = " ".join(PAGE.split())
    assert (
        f"(16 + 4) ÷ 300 s = {rpcs / 300:.2f} a second, of 2,000 nodes {2000 * rpcs / 300:.0f} a second"
        in told
    )
    assert f"{2000 * (rpcs / 300 + near):.0f} if a quarter of the jobs are that near their end" in told
    assert f"(16 ÷ 60 s + 4 ÷ 300 s) = {2000 * (16 / 60 + 4 / 300):.0f}, if `run` waits in all" in told
    assert f"4.3 ms for 16 jobs](#the-controller-role) {2000 / 60 * 0.0043:.2f} cores" in told
    assert "in which `run` waits | 16 | 4.3 ms" in told
    assert f"(16 + 4) ÷ 3600 × 2,000 = {2000 * rpcs / 3600:.0f} a second" in told


def test_prometheus_takes_more_series_than_the_budget_leaves():
    [limit] = re.findall(r"^ +sample_limit: (\d+)", text_of("grafana/prometheus.yml"), re.MULTILINE)
    [(raised, above)] = re.findall(
        r"max_series = (\d+) +# with sample_limit: (\d+)", text_of("docs/tuning.md")
    )
    assert int(limit) > CONFIG.metrics.max_series
    assert int(above) > int(raised) > CONFIG.metrics.max_series
