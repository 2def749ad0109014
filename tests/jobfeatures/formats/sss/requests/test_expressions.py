"""Requests over candidates. Expected values are worked out by hand from section 8.1."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.objects import Property
from jobfeatures.formats.sss.reader import parse_object
from jobfeatures.formats.sss.requests.expressions import (
    MAX_DEPTH,
    Parenthesis,
    evaluate,
    parse_expression,
    rank,
)

MIB = 2**20


def request(content: str) -> Parenthesis:
    data = f"<Job><Id>1</Id><Requested>{content}</Requested></Job>"
    return parse_expression(parse_object(data.encode()).root.requested)


def satisfied(content: str, **candidate) -> bool | None:
    return evaluate(request(content), candidate).is_satisfied


@pytest.mark.parametrize(
    ("op", "holds"),
    [
        ("EQ", [False, True, False]),
        ("NE", [True, False, True]),
        ("LT", [True, False, False]),
        ("LE", [True, True, False]),
        ("GT", [False, False, True]),
        ("GE", [False, True, True]),
    ],
)
def test_operators_compare_amounts_in_their_units(op, holds):
    content = f'<Memory op="{op}" units="GB">2</Memory>'
    assert [satisfied(content, Memory=amount * MIB) for amount in (2047, 2048, 2049)] == holds
    assert satisfied(content, Memory=Decimal(2048 * MIB)) is holds[1]


def test_a_range_is_two_requests():
    content = '<Processors op="GE">8</Processors><Processors op="LE">16</Processors><Duration>3600</Duration>'
    expression = request(content)
    found = [
        evaluate(expression, {"Processors": n}, about={"Processors"}).is_satisfied for n in (7, 8, 16, 17)
    ]
    assert found == [False, True, True, False]
    assert satisfied(content, Processors=8) is None
    assert satisfied(content, Processors=8, Duration=3600) is True


def test_groups_are_parentheses():
    """The third example of section 8.1, with other names."""
    content = (
        '<User group="1">ada</User><Account group="-1">ice</Account>'
        '<User conj="Or" group="1">grace</User><Account group="-1">sea</Account>'
    )
    pairs = [("ada", "ice"), ("ada", "sea"), ("grace", "ice"), ("grace", "sea")]
    found = [satisfied(content, User=user, Account=account) for user, account in pairs]
    assert found == [True, False, False, True]


@pytest.mark.parametrize(
    ("conj", "table"),
    [
        ("And", [False, False, False, True]),
        ("Or", [False, True, True, True]),
        ("Nand", [False, False, True, False]),  # "and not"
        ("Nor", [True, False, True, True]),  # "or not"
    ],
)
def test_conjunctions(conj, table):
    content = f'<User>a</User><Queue conj="{conj}">q</Queue>'
    found = [satisfied(content, User=user, Queue=queue) for user in "xa" for queue in "xq"]
    assert found == table


def test_without_groups_properties_are_joined_from_left_to_right():
    content = '<User>a</User><Queue conj="Or">q</Queue><Machine>m</Machine>'
    assert satisfied(content, User="a", Queue="x", Machine="x") is False
    assert satisfied(content, User="x", Queue="q", Machine="m") is True
    grouped = '<User>a</User><Queue conj="Or" group="1">q</Queue><Machine group="-1">m</Machine>'
    assert satisfied(grouped, User="a", Queue="x", Machine="x") is True


def test_a_group_is_negated_as_a_whole():
    content = '<User>a</User><Queue conj="Nand" group="2">q</Queue><Machine group="-2">m</Machine>'
    assert satisfied(content, User="a", Queue="q", Machine="m") is False
    assert satisfied(content, User="a", Queue="q", Machine="x") is True
    assert satisfied('<Queue conj="Nor">q</Queue>', Queue="x") is True


@pytest.mark.parametrize(
    ("content", "candidate", "expected"),
    [
        ("<User>a</User><Queue>q</Queue>", {"User": "a"}, None),
        ("<User>a</User><Queue>q</Queue>", {"User": "x"}, False),
        ('<User>a</User><Queue conj="Or">q</Queue>', {"User": "a"}, True),
        ('<User>a</User><Queue conj="Or">q</Queue>', {"User": "x"}, None),
        ('<User>a</User><Queue conj="Nand">q</Queue>', {"User": "a"}, None),
        ("<User>a</User>", {"User": None}, None),
        ("", {}, True),
    ],
)
def test_what_a_candidate_does_not_say_is_neither_true_nor_false(content, candidate, expected):
    assert evaluate(request(content), candidate).is_satisfied is expected


# --- several names in one -------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "value", "expected"),
    [
        ('<Node aggregation="Pattern">fr15.*</Node>', "fr15n03", True),
        ('<Node aggregation="List">n1,n2</Node>', "n2", True),
        ('<Node aggregation="Range">n[1-3]</Node>', "n4", False),
        ('<Node op="NE">n1</Node>', "n2", True),
        ('<Queue op="Match">batch_.*</Queue>', "batch_normal", True),
        ('<Feature aggregation="List">ib,gpu</Feature>', ["ib", "gpu", "big"], True),
        ('<Feature aggregation="List">ib,gpu</Feature>', ["ib", "big"], False),
        ('<Feature aggregation="Pattern">gpu.*</Feature>', {"ib", "gpu80"}, True),
        ('<Feature op="NE">gpu</Feature>', {"ib", "gpu"}, False),
        ('<Node aggregation="Pattern" count="2">n.*</Node>', ["n1", "n2", "m1"], True),
        ('<Node aggregation="Pattern" count="3">n.*</Node>', ["n1", "n2", "n2"], False),
        ('<Node aggregation="List" count="1">n1,n2</Node>', ["n2"], True),
        ('<Node count="2">n1</Node>', "n1", False),
    ],
)
def test_features_and_nodes(content, value, expected):
    name = content[1:].split()[0]
    assert satisfied(content, **{name: value}) is expected


def test_resources_have_names_and_types():
    content = '<Resource name="License" type="MATLAB" op="GE">2</Resource><Resource name="Tape">1</Resource>'
    assert evaluate(request(content), {"Resource License MATLAB": 3, "Resource Tape": 1}).is_satisfied
    assert evaluate(request(content), {"Resource License": 3, "Resource Tape": 1}).is_satisfied is None


# --- preferences ------------------------------------------------------------------------


def test_of_positive_preferences_one_has_to_hold_and_the_heavier_comes_first():
    expression = request(
        '<Processors op="GE">4</Processors><Memory preference="2">1024</Memory><Memory preference="1">512</Memory>'
    )
    nodes = [
        {"Processors": 4, "Memory": 256 * MIB},
        {"Processors": 8, "Memory": 512 * MIB},
        {"Processors": 4, "Memory": 1024 * MIB},
        {"Processors": 2, "Memory": 1024 * MIB},
        {"Processors": 8, "Memory": 512 * MIB},
    ]
    found = rank(expression, nodes)
    assert [(place, verdict.score) for place, verdict in found] == [
        (2, Fraction(2, 3)),
        (1, Fraction(1, 3)),
        (4, Fraction(1, 3)),
    ]


def test_negative_preferences_need_not_hold():
    expression = request(
        '<Queue>q</Queue><Feature preference="-3">ib</Feature><Feature preference="-1">gpu</Feature>'
    )
    nodes = [{"Queue": "q", "Feature": features} for features in ([], ["gpu"], ["ib"], ["gpu", "ib"])]
    found = rank(expression, [*nodes, {"Queue": "x", "Feature": ["ib"]}, {"Queue": "q"}])
    assert [(place, verdict.score) for place, verdict in found] == [
        (3, 1),
        (2, Fraction(3, 4)),
        (1, Fraction(1, 4)),
        (0, 0),
        (5, 0),
    ]
    assert rank(request('<Queue preference="-1">q</Queue>'), [{"Queue": "x"}])


def test_weights_are_ratios_within_their_group():
    content = (
        '<Memory preference="1">1</Memory>'
        '<Queue group="1" preference="3">a</Queue><Queue group="-1" preference="1">b</Queue>'
    )
    verdict = evaluate(request(content), {"Memory": MIB, "Queue": "b"})
    assert (verdict.is_satisfied, verdict.score) == (True, 1 + Fraction(1, 4))


def test_what_is_negated_is_no_preference():
    content = '<User>a</User><Queue conj="Nand" group="1" preference="1">q</Queue><Queue group="-1" preference="1">r</Queue>'
    verdict = evaluate(request(content), {"User": "a", "Queue": "x"})
    assert (verdict.is_satisfied, verdict.score) == (True, 0)
    assert evaluate(request(content), {"User": "a", "Queue": "r"}).is_satisfied is False


def test_performance_factors_of_what_holds_are_handed_on():
    expression = request(
        '<Processors performanceFactor="1.5">8</Processors><Processors conj="Or" performanceFactor="2">16</Processors>'
    )
    assert evaluate(expression, {"Processors": 16}).performance_factors == (Decimal(2),)
    assert evaluate(expression, {"Processors": 8}).by[0].value == 8
    assert evaluate(expression, {"Processors": 9}).performance_factors == ()


# --- faults -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('<User group="-1">a</User>', "closes a group that is not open"),
        ('<User group="1">a</User>', "opens a group that is not closed"),
        ('<User group="1">a</User><User group="-2">a</User>', "closes a group that is not open"),
        (
            '<User group="9999999999">a</User>',
            f"groups of properties (attribute group) nest deeper than {MAX_DEPTH}",
        ),
    ],
)
def test_groups_have_to_be_closed_and_open(content, reason):
    with pytest.raises(ParseError) as caught:
        request(content)
    assert reason in caught.value.reason
    assert (caught.value.line, caught.value.field) == (1, "User")


def test_texts_have_no_order():
    with pytest.raises(ParseError, match="GE compares numbers, not texts"):
        satisfied('<Queue op="GE">a</Queue>', Queue="b")


REQUESTS = st.lists(
    st.builds(
        Property,
        st.sampled_from(["Memory", "User", "Node", "Feature"]),
        st.sampled_from([1, 2, Decimal("1.5"), "a", "b,c", "n[1-2]", "("]),
        st.dictionaries(
            st.sampled_from(["op", "conj", "group", "preference", "aggregation", "count"]),
            st.sampled_from(["EQ", "NE", "Match", "GE", "And", "Or", "Nand", "Nor", "List", "Range", -2, -1, 0, 1, 2]),
        ),
    ).filter(
        lambda each: each.attributes.get("op", "EQ") in {"EQ", "NE", "Match", "GE"}
        and each.attributes.get("conj", "And") in {"And", "Or", "Nand", "Nor"}
    ),
    max_size=6,
)  # fmt: skip
CANDIDATES = st.dictionaries(
    st.sampled_from(["Memory", "User", "Node", "Feature"]),
    st.sampled_from([None, 0, MIB, Decimal("1.5"), "a", "n1", ("a", "b", "c"), ()]),
)


@given(REQUESTS, CANDIDATES)
def test_any_request_gives_a_verdict_or_a_parse_error(requests, candidate):
    try:
        verdict = evaluate(parse_expression(requests), candidate)
    except ParseError:
        return
    assert verdict.is_satisfied in {True, False, None}
    assert verdict.score >= 0
    assert verdict.is_satisfied or not verdict.by


@given(
    st.lists(st.tuples(st.sampled_from(["And", "Or", "Nand", "Nor"]), st.booleans()), min_size=1, max_size=6)
)
def test_plain_chains_are_what_python_makes_of_them(chain):
    requests = [Property("User", "a" if holds else "b", {"conj": conj}) for conj, holds in chain]
    (first, truth), *rest = chain
    truth = truth != (first in {"Nand", "Nor"})
    for conj, holds in rest:
        value = holds != (conj in {"Nand", "Nor"})
        truth = (truth or value) if conj in {"Or", "Nor"} else (truth and value)
    assert evaluate(parse_expression(requests), {"User": "a"}).is_satisfied is truth
