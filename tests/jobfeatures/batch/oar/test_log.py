"""A log of OAR's answers: of any version, one behind the other."""

from __future__ import annotations

import pytest

from jobfeatures.batch.oar.log import read_records, recognise
from jobfeatures.errors import Rejected
from jobfeatures.joblogs.loggedjob import Notes
from tests.docs.pages import ROOT

FIXTURES = ROOT / "tests/fixtures/oar"


@pytest.mark.parametrize("name", ["ended.json", "ended-2.6.1.json", "ended-3.0.2.json"])
def test_each_version_is_recognised_and_read(name):
    text = (FIXTURES / name).read_text()
    assert recognise(text[:4096])
    notes = Notes()
    found = list(read_records(text.splitlines(keepends=True), source=name, notes=notes))
    assert found
    assert not [each for each in found if isinstance(each, Rejected)]


def test_answers_may_follow_one_another():
    text = "".join((FIXTURES / name).read_text() for name in ("ended-2.6.1.json", "ended-3.0.2.json"))
    found = list(read_records([text], source="x", notes=Notes()))
    assert {"1905", "1915"} < {each.job_id for each in found}
    assert len(found) > 11


def test_an_answer_that_is_cut_costs_itself():
    text = (FIXTURES / "ended-3.0.2.json").read_text()
    *whole, broken = read_records([text, text[:300]], source="x", notes=Notes())
    assert len(whole) == 11
    assert isinstance(broken, Rejected)
