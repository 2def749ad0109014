"""The comparison is dated, links what it speaks of, says what each does better, and quotes what was measured."""

import re

import pytest

from jobfeatures_exporter.profiles import PROFILES
from tests.docs.pages import text_of

PAGE, MEASURED = text_of("docs/comparison.md"), text_of("docs/benchmarks.md")
SECTIONS = re.findall(r"(?ms)^### (.+?)\n(.*?)(?=^##)", PAGE.partition("## Public dashboards")[0])


def test_it_is_dated():
    assert re.search(
        r"^As of \d{4}-\d{2}-\d{2}, from the documentation and sources that are linked", PAGE, re.MULTILINE
    )


@pytest.mark.parametrize(("heading", "text"), SECTIONS, ids=[heading for heading, _ in SECTIONS])
def test_each_is_linked_and_judged_from_both_sides(heading, text):
    assert "](https://" in heading
    assert "**Better:**" in text
    assert "**We:**" in text
    assert text.index("**Better:**") < text.index("**We:**")


def test_profiles_are_named_where_their_exporters_are():
    named = re.findall(r"--metrics\.profile ([\w-]+)", PAGE)
    assert sorted(named) == sorted(PROFILES)


def test_figures_are_those_of_the_benchmarks():
    ours, node = re.search(r"^\| d \| ([\d.]+) .* \| ([\d.]+) \([\d.]+\) \|", MEASURED, re.MULTILINE).groups()
    assert f"half of our CPU time a scrape at most ({node} against {ours} ms)" in " ".join(PAGE.split())
    assert float(node) / float(ours) < 0.5
