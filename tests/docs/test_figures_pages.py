"""How figures are made is said by the docstrings of the code that makes them: the pages are mostly these."""

import re
import runpy

import pytest

from tests.docs.pages import ROOT, text_of

DOCSTRINGS = runpy.run_path(str(ROOT / "docs/docstrings.py"))
BLOCK, filled = DOCSTRINGS["BLOCK"], DOCSTRINGS["filled"]


@pytest.mark.parametrize(("page", "least"), [("docs/figures.md", 0.4), ("docs/methods.md", 0.7)])
def test_most_of_a_page_is_docstrings(page, least):
    text = text_of(page)
    said = "".join(re.sub("<!--.*?-->", "", found[0]) for found in BLOCK.finditer(text))
    assert len(said.split()) / len(text.split()) > least


def test_a_block_has_formulas_and_constants_but_nothing_for_callers_alone():
    places = (
        "jobfeatures.status.waste:compute_kill_waste "
        "jobfeatures_exporter.sampling.groups.turns "
        "jobfeatures_exporter.sampling.processes.accumulate:Accumulator"
    )
    text = filled(f"<!--docstrings: {places}-->\nold\n<!--/-->")
    assert "```\nadd_uncom_time + used_CPU × (now − last_job_start)\n```" in text
    assert "`PER_LOOK`" not in text
    assert "brings_life" not in text
    assert "old" not in text.split()


def test_paragraphs_can_be_left_out():
    name = "jobfeatures.analysis.simulate.backfill"
    first, whole = (filled(f"<!--docstrings: {name}{end}-->\n<!--/-->") for end in ("#2", ""))
    assert "shadow time" in first
    assert "Waiting jobs of equal size and estimate" in whole
    assert "Waiting jobs of equal size and estimate" not in first
