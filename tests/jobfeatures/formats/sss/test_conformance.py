"""What the specification forbids, and `check` finds though logs with it are read."""

import pytest

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.conformance import check_conformance, check_elements
from jobfeatures.formats.sss.reader import parse_object


def check(content: str) -> None:
    parsed = parse_object(f"<Job><Id>1</Id>{content}</Job>".encode())
    check_elements(parsed.element)
    check_conformance(parsed.root)


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("<TaskGroup><Id>a</Id><Task><Id>1</Id></Task><Task><Id>1</Id></Task></TaskGroup>", "Task"),
        ("<TaskGroup><Id>a</Id></TaskGroup><TaskGroup><Id>a</Id></TaskGroup>", "TaskGroup"),
        ("<TaskGroup/>", "TaskGroup"),
        ("<SubmitTime>4294967296</SubmitTime>", "SubmitTime"),
        ("<Duration>4294967296</Duration>", "Duration"),
        ('<Dependency condition="OnSuccess" code="3">2</Dependency>', "Dependency"),
        ('<Feature delimiter=";">a;b</Feature>', "Feature"),
        ("<Requested></Requested>", "Requested"),
        ("<TaskGroup><Delivered/></TaskGroup>", "Delivered"),
        ('<Node aggregation="Range">fr[23-5]</Node>', "Node"),
        ('<Requested><Node aggregation="Range">fr[2</Node></Requested>', "Node"),
        ('<Node aggregation="Pattern">node[1-5</Node>', "Node"),
        ('<Feature aggregation="Pattern">a(b</Feature>', "Feature"),
        ('<Requested><Queue op="Match">*a</Queue></Requested>', "Queue"),
    ],
)
def test_a_breach_is_named(content, field):
    with pytest.raises(ParseError) as caught:
        check(content)
    assert (caught.value.field, caught.value.line) == (field, 1)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "<TaskGroup><Id>a</Id><Task><Id>1</Id></Task></TaskGroup><TaskGroup><Id>b</Id><Task><Id>1</Id></Task></TaskGroup>",
        "<SubmitTime>4294967295</SubmitTime>",
        '<Dependency condition="OnExit" code="3">2</Dependency>',
        '<Feature aggregation="List" delimiter=";">a;b</Feature>',
        '<Node aggregation="Range">fr[5-23,77]</Node>',
        '<Node aggregation="Pattern">node[1-5]</Node>',
        r'<Node aggregation="Pattern">n(?|a|b)\Q[\E</Node>',  # of Perl alone
        "<NodeCount>+3</NodeCount>",
        '<Requested awarenessPolicy="Ignore"><Telescope>1</Telescope></Requested>',
    ],
)
def test_what_is_allowed_passes(content):
    check(content)
