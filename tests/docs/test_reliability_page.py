"""The page on reliability: each hostile attempt that it tells of has an outcome, and tests that are there."""

import re

from tests.docs.pages import text_of
from tests.docs.test_sources import TEST, names_in

ROW = re.compile(r"(?m)^\| (.+?) \| (.+?) \| (`.+) \|$")
ATTEMPTS = text_of("docs/reliability.md").partition("## Hostile")[2].partition("\n## ")[0]


def test_each_test_that_the_page_names_is_there():
    named = TEST.findall(text_of("docs/reliability.md"))
    assert len(named) > 45
    assert [f"{path}::{name}" for path, name in named if name not in names_in(path)] == []


def test_each_attempt_has_an_outcome_and_a_test():
    rows = ROW.findall(ATTEMPTS)
    assert len(rows) == len(re.findall(r"(?m)^\| ", ATTEMPTS)) - 1  # the head
    assert len(rows) > 25
    assert [
        attempt for attempt, outcome, tests in rows if not outcome.strip() or not TEST.search(tests)
    ] == []
