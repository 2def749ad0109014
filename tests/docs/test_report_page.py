"""The page on `report` has every hint, with its bounds, and names metrics that there are."""

import re
from pathlib import Path

from jobfeatures_exporter.scrape.collectors import COLLECTORS
from jobfeatures_exporter.view.judge import RULES

PAGE = (Path(__file__).parents[2] / "docs/report.md").read_text(encoding="utf-8")


def test_every_hint_has_a_row():
    assert [rule.name for rule in RULES if f"| `{rule.name}` | {rule.meaning} |" not in PAGE] == []


def test_metrics_are_those_of_the_collectors():
    declared = {metric.sample_name for each in COLLECTORS.values() for metric in each.metrics}
    named = set(re.findall(r"`(batch_[a-z_]+)`", PAGE))
    assert len(named) > 8
    assert named - declared == set()
