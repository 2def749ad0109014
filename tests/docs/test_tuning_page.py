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
    every = CONFIG.sample_interval_secs
    assert f"{kernel} ÷ 15 + {kernel} ÷ {every:.0f} = {kernel / 15 + kernel / every:.1f} ms a second" in PAGE
    assert f"kernel, {proc / 15 + proc / every:.1f} ms from `/proc` alone" in PAGE


def test_when_jobs_reach_the_budget():
    few, few_series = measured(r"\| (16) \(([\d,]+) series\)")
    many, many_series = measured(r"\| (500) \(([\d,]+) series\)")
    each = (many_series - few_series) / (many - few)
    assert f"a job has {each:.0f} series and the node {few_series - few * round(each):.0f}" in PAGE
    assert (CONFIG.metrics_max_series - 574) / each == pytest.approx(600, rel=0.02)


def test_what_two_thousand_nodes_ask():
    assert CONFIG.batch_refresh_secs == 300
    rpcs = 2 * 16 + 4
    told = " ".join(PAGE.split())
    assert (
        f"(2 × 16 + 4) ÷ 300 s = {rpcs / 300:.2f} a second, of 2,000 nodes {2000 * rpcs / 300:.0f} a second"
        in told
    )
    assert f"(2 × 16 + 4) ÷ 3600 × 2,000 = {2000 * rpcs / 3600:.0f} a second" in told
