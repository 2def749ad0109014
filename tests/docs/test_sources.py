"""The page on what the documents say: each test that it names is there, and each statement has one."""

import functools
import re

from tests.docs.pages import ROOT, faults_by_page, text_of

PAGE = "tests/sources.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@functools.cache
def names_in(path):
    if not (ROOT / path).is_file():
        return frozenset()
    return frozenset(re.findall(r"(?m)^(?:async )?def (\w+)\(", text_of(path)))


def test_each_test_that_the_page_names_is_there():
    named = TEST.findall(text_of(PAGE))
    assert len(named) > 100
    assert [f"{path}::{name}" for path, name in named if name not in names_in(path)] == []


def without_reason(name):
    """Yield the statements that name neither a test nor, in words, why there is none."""
    statements = re.findall(r"(?m)^- .+", text_of(name))
    assert len(statements) > 80
    for statement in statements:
        if not TEST.search(statement) and not re.search(r": (not done: |the published tables )", statement):
            yield statement


def test_each_statement_has_a_test_or_says_why_not():
    assert faults_by_page([PAGE], without_reason) == {}
