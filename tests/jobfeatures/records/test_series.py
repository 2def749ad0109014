"""Pages and answers as series: whatever comes, there are series or a ParseError."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from jobfeatures.errors import ParseError
from jobfeatures.records.metrics import Metric
from jobfeatures.records.series import Series, parse_lines, parse_vector
from jobfeatures_exporter.families.exposition import Family, render


def test_lines_with_names_that_are_asked_for_are_read():
    page = '# HELP a_b x\na_b{x="1\\"\\\\\\n",y=""} +Inf\na_bc 3\nother 1\na_b NaN 1700000000000\n'
    first, second = parse_lines(page, {"a_b"})
    assert first == Series("a_b", {"x": '1"\\\n', "y": ""}, math.inf)
    assert (second.name, second.labels) == ("a_b", {})
    assert math.isnan(second.value)


def test_an_answer_has_series_and_what_the_server_says_of_them():
    result = [
        {"metric": {"__name__": "a", "x": "1", "odd": 7}, "value": [1.5, "+Inf"]},
        {"metric": {}, "value": [1, "2"]},
    ]
    document = {
        "status": "success",
        "data": {"resultType": "vector", "result": result},
        "warnings": ["one\x1b", 2],
    }
    answer = parse_vector(json.dumps(document))
    assert answer.series == (Series("a", {"x": "1"}, math.inf), Series("", {}, 2.0))
    assert answer.warnings == ("'one\\x1b'", "'2'")


@pytest.mark.parametrize(
    "text", ["a{x=1} 1", "a{x='1'} 1", "a{} x", "a 1 2 3", 'a{x="\\q"} 1', 'a{x="1"y="2"} 1', 'a{,x="1"} 1']
)
def test_a_line_that_cannot_be_read_is_named(text):
    with pytest.raises(ParseError, match="page:2"):
        parse_lines(f"\n{text}", {"a"}, source="page")


texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.tuples(texts, st.floats(allow_nan=False))))
def test_prometheus_client_reads_the_same_of_any_page_of_ours(samples):
    metric = Metric("a_seconds", "gauge", "A.", ("x", "y"))
    page = render(
        [Family(metric, [((text, "7"), value) for text, value in samples])], openmetrics=False
    ).decode()
    theirs = [each for family in text_string_to_metric_families(page) for each in family.samples]
    ours = parse_lines(page, {"a_seconds"})
    assert [(each.name, each.labels, each.value) for each in ours] == [
        (each.name, each.labels, each.value) for each in theirs
    ]


values = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["success", "vector", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["status", "data", "resultType", "result", "metric", "value", "__name__", "warnings", "error"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(values.map(json.dumps) | st.text(max_size=40))
def test_any_answer_gives_series_or_a_parse_error(text):
    try:
        parse_vector(text)
    except ParseError:
        pass


@given(values)
def test_any_result_gives_series_or_a_parse_error(result):
    text = json.dumps(
        {
            "status": "success",
            "data": {"resultType": "vector", "result": [result, {"metric": result, "value": [0, "1"]}]},
        }
    )
    try:
        parse_vector(text)
    except ParseError:
        pass


@given(st.text('a{}x="\\,1 \n+-eInfN', max_size=40))
def test_any_page_gives_series_or_a_parse_error(text):
    try:
        parse_lines(text, {"a"})
    except ParseError:
        pass


def test_samples_of_a_range_come_one_after_another():
    metric = {"__name__": "a_total", "job_id": "7"}
    result = [{"metric": metric, "values": [[1, "2"], [3, "0.5"]]}, {"metric": {}, "values": []}]
    text = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
    assert parse_vector(text, kind="matrix").series == tuple(
        Series("a_total", {"job_id": "7"}, value) for value in (2.0, 0.5)
    )
    with pytest.raises(ParseError, match="not a Prometheus vector"):
        parse_vector(text)
