"""Lists, ranges and patterns of features and nodes."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.objects import Property
from jobfeatures.formats.sss.requests.names import expand_names, make_matcher


def node(text: str, **attributes) -> Property:
    return Property("Node", text, attributes, line=7, column=3)


@pytest.mark.parametrize(
    ("each", "names"),
    [
        (node("n1"), ("n1",)),
        (node("a,b"), ("a,b",)),
        (node(""), ()),
        (node("n1, n2,,n1", aggregation="List"), ("n1", "n2")),
        (node("n 1;n,2", aggregation="List", delimiter=";"), ("n 1", "n,2")),
        (node("a::b", aggregation="List", delimiter="::"), ("a", "b")),
        (node("a,b", aggregation="List", delimiter=""), ("a", "b")),
        (node("node[5-7,77]", aggregation="Range"), ("node5", "node6", "node7", "node77")),
        (node("n[08-10]", aggregation="Range"), ("n08", "n09", "n10")),
        (node("plain", aggregation="Range"), ("plain",)),
    ],
)
def test_lists_and_ranges_are_expanded(each, names):
    assert expand_names(each) == names


@pytest.mark.parametrize(
    ("each", "reason"),
    [
        (node("n.*", aggregation="Pattern"), "must be a list of names, not a pattern"),
        (node("n[1-", aggregation="Range"), "not a node list"),
        (node("n[9-1]", aggregation="Range"), "the range ends before it begins"),
        (node("n[1-999999999]", aggregation="Range"), "more than 100000 nodes"),
        (node("@all", aggregation="Range"), "not a node name"),
    ],
)
def test_what_lists_no_names_is_refused_at_its_place(each, reason):
    with pytest.raises(ParseError) as caught:
        expand_names(each)
    assert (caught.value.line, caught.value.field) == (7, "Node")
    assert caught.value.reason.startswith("column 3: ")
    assert reason in caught.value.reason


CANDIDATES = ("node1", "node2", "node10", "fr15n03", "Node1")


@pytest.mark.parametrize(
    ("each", "names"),
    [
        (node("node[1-5]", aggregation="Pattern"), ("node1", "node2")),
        (node("fr15n.*", aggregation="Pattern"), ("fr15n03",)),
        (node(r"node\d{2}|Node1", aggregation="Pattern"), ("node10", "Node1")),
        (node("(?i)NODE1", op="Match"), ("node1", "Node1")),
        (node("node[1-10]", aggregation="Range"), ("node1", "node2", "node10")),
        (node("node2,other", aggregation="List"), ("node2",)),
        (node("node2"), ("node2",)),
    ],
)
def test_names_are_matched_as_a_whole(each, names):
    assert tuple(filter(make_matcher(each), CANDIDATES)) == names


@pytest.mark.parametrize(
    "pattern", ["(", "a{2,1}", r"(a)\1", "(?=a)", "(((a{1000}){1000}){1000})", "x" * 5000]
)
def test_a_pattern_that_cannot_be_used_is_refused(pattern):
    with pytest.raises(ParseError, match="pattern"):
        make_matcher(node(pattern, aggregation="Pattern"))


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(.*)*(.*)*(.*)*b", "a?" * 100 + "a" * 100])
def test_no_pattern_takes_long(pattern):
    matches = make_matcher(node(pattern, aggregation="Pattern"))
    assert not matches("a" * 50 + "c")  # a matcher that goes back would run into the timeout


def test_without_the_library_only_patterns_are_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    assert make_matcher(node("n1"))("n1")
    with pytest.raises(ParseError, match="google-re2"):
        make_matcher(node("n.*", aggregation="Pattern"))


@given(
    st.text(max_size=30),
    st.sampled_from(["", "List", "Range", "Pattern"]),
    st.text(max_size=2),
    st.text(max_size=9),
)
def test_any_text_is_matched_or_refused(text, aggregation, delimiter, name):
    each = node(text, aggregation=aggregation, delimiter=delimiter)
    try:
        matches = make_matcher(each)
    except ParseError:
        return
    assert matches(name) in {True, False}
