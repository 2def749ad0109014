"""The page on what the documents say: each test and each module that it names is there."""

import functools
import re

from tests.docs.pages import ROOT, faults_by_page, text_of

PAGE = "docs/sources.md"
FOLDERS = ("jobfeatures", "exporter/jobfeatures_exporter")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ROW = re.compile(r"(?m)^\| (?!Statement |---)(.+?) \| (.+?) \| (.+) \|$")


@functools.cache
def names_in(path):
    if not (ROOT / path).is_file():
        return frozenset()
    return frozenset(re.findall(r"(?m)^(?:async )?def (\w+)\(", text_of(path)))


def test_each_test_that_the_page_names_is_there():
    named = TEST.findall(text_of(PAGE))
    assert len(named) > 100
    assert [f"{path}::{name}" for path, name in named if name not in names_in(path)] == []


def test_each_module_that_the_page_names_is_there():
    named = {
        word
        for _, where, _ in ROW.findall(text_of(PAGE))
        for word in re.findall(r"`([a-z/]+(?:\.py|/))`", where)
    }
    assert len(named) > 40
    assert {word for word in named if not any((ROOT / folder / word).exists() for folder in FOLDERS)} == set()


def without_reason(name):
    """Yield the rows that name neither a test nor, in words, why there is none."""
    for statement, _, shown in ROW.findall(text_of(name)):
        if not TEST.search(shown) and not re.match(r"not done: |the published tables ", shown):
            yield statement


def test_each_statement_has_a_test_or_says_why_not():
    assert faults_by_page([PAGE], without_reason) == {}
