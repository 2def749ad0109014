import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.simulate.placing import Shape, make_shape
from jobfeatures.analysis.simulate.policies import Policy, parse_policies
from jobfeatures.analysis.simulate.pools import Node, parse_nodes, parse_processors
from jobfeatures.errors import ConfigurationError


def test_kinds_of_nodes_are_told_one_after_the_other():
    pool = parse_nodes("--nodes", "2x80cpu,504GB,4gpu; 1x16cpus")
    assert pool.nodes == (Node(80, 504 << 20, 4), Node(80, 504 << 20, 4), Node(16, None, 0))
    assert (pool.processors, pool.text) == (176, "2x80cpu,504GB,4gpu; 1x16cpus")
    assert parse_nodes("--nodes", "1x1cpu,1.5GiB,2gpus").nodes == (Node(1, 3 << 19, 2),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a kind of node"),
        ("7", "not a kind of node"),
        ("7x", "not a kind of node"),
        ("0x8cpu", "not a kind of node"),
        ("-1x8cpu", "not a kind of node"),
        ("7x80", "unit is missing"),
        ("7x504GB", "without processors"),
        ("7x0cpu", "without processors"),
        ("7x8cpu,", "unit is missing"),
        ("7x8cpu,4cpu", "has cpu twice"),
        ("7x8cpu,1GB,2GB", "has memory twice"),
        ("7x8cpu,4tapes", "neither cpu nor gpu nor a size"),
        ("7x8cpu;", "not a kind of node"),
        ("99999999x8cpu", "more than 100000 nodes"),
        ("1x9999999999cpu", "more than 1000000000 cpu"),
        ("٣x8cpu", "not a kind of node"),
    ],
)
def test_what_is_no_pool_is_told_in_words(text, words):
    with pytest.raises(ConfigurationError, match="--nodes: ") as error:
        parse_nodes("--nodes", text)
    assert words in str(error.value)


@given(st.text("0123456789xcpugGB,;. \n-٣", max_size=30))
def test_any_text_is_a_pool_or_told_to_be_none(text):
    for parse in (parse_nodes, parse_processors):
        try:
            pool = parse("key", text)
        except ConfigurationError:
            continue
        assert pool.processors > 0


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "1e3", "99999999999", "٣"])
def test_a_pool_has_a_number_of_processors(text):
    with pytest.raises(ConfigurationError, match="not a number from 1"):
        parse_processors("--processors", text)


def test_policies_are_named_one_by_one_or_all():
    assert parse_policies("--simulate", "all") == tuple(Policy)
    assert parse_policies("--simulate", "easy, fifo,easy") == (Policy.EASY, Policy.FIFO)
    with pytest.raises(
        ConfigurationError, match="'lifo' is not one of fifo, fairshare, easy, fairshare\\+easy, all"
    ):
        parse_policies("--simulate", "fifo,lifo")


@pytest.mark.parametrize(
    ("asked", "shape"),
    [
        ((4, 0, 0), Shape(4, 1, 0, 0)),
        ((4, 10, 0), Shape(4, 1, 3, 0)),  # a part's memory is rounded up
        ((8, 16, 4), Shape(4, 2, 4, 1)),
        ((5, 0, 2), Shape(1, 5, 0, 2)),
        ((0, 7, 0), Shape(1, 0, 7, 0)),
        ((0, 0, 2), Shape(2, 0, 0, 1)),
        ((0, 0, 0), Shape(0, 0, 0, 0)),
    ],
)
def test_a_job_is_made_of_the_smallest_equal_parts(asked, shape):
    assert make_shape(*asked) == shape
