"""Nodes that have what jobs request. What the specification says stands beside each test."""

from __future__ import annotations

import pytest

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.inherit import resolve_job
from jobfeatures.formats.sss.reader import parse_object
from jobfeatures.formats.sss.requests.matching import match, parse_nodes

GIB = 2**30
NODES = parse_nodes(
    f'[{{"Node": "fr15n1", "Processors": 2, "Memory": {GIB}}}, '
    f'{{"Node": "fr15n2", "Processors": 16, "Memory": {2 * GIB}, "Resource License MATLAB": 1}}, '
    f'{{"Node": "fr16n1", "Processors": 32, "Memory": {4 * GIB}, "Resource License MATLAB": 0}}]'
)


def found(content: str) -> dict[str, str]:
    job = resolve_job(parse_object(f"<Job><Id>1</Id>{content}</Job>".encode()).root)
    return {each.of: ",".join(name for name, _ in each.nodes) for each in match(job, NODES)}


@pytest.mark.parametrize(
    ("content", "nodes"),
    [
        # "run this task only on nodes having the specified available resources"
        ("<Processors>16</Processors>", "fr15n2,fr16n1"),
        ("<Requested><Processors>16</Processors></Requested>", "fr15n2,fr16n1"),
        # the four examples of section 8.1, as far as they are about nodes
        ('<Requested><Processors op="GE">8</Processors><Processors op="LE">16</Processors></Requested>', "fr15n2,fr16n1"),
        ('<Requested><NodeCount>1</NodeCount><Node aggregation="Pattern">fr15.*</Node></Requested>', "fr15n1,fr15n2"),
        ('<Requested><User group="1">a</User><Account group="-1">b</Account></Requested>', "fr15n1,fr15n2,fr16n1"),
        ('<Requested><Memory preference="2">1024</Memory><Memory preference="1">2048</Memory></Requested>', "fr15n2,fr16n1,fr15n1"),
        ('<Requested><Memory op="GT" units="GB">2</Memory></Requested>', "fr16n1"),
        ('<Resource name="License" type="MATLAB">1</Resource>', "fr15n2"),
        # "Used - the task used the indicated resources"
        ('<Memory context="Used" units="GB">4</Memory>', "fr15n1,fr15n2,fr16n1"),
        # "a job that requests 3 nodes and 4 processors will have … two on one node and one on each of two nodes"
        ("<NodeCount>3</NodeCount><Processors>4</Processors>", "fr15n1,fr15n2,fr16n1"),
    ],
)  # fmt: skip
def test_which_nodes_have_what_is_requested(content, nodes):
    assert found(content) == {"1": nodes}


# "a master task group … might ask for a node with a MATLAB license … while a slave task group … could be
# targeted for nodes with more CPU bandwidth": section 3.0.
def test_each_task_group_has_nodes_of_its_own():
    assert found(
        "<TaskGroup><Name>Master</Name><Resource name='License' type='MATLAB'>1</Resource></TaskGroup>"
        "<TaskGroup><Requested><Processors>32</Processors></Requested></TaskGroup>"
    ) == {"1: task group Master": "fr15n2", "1: task group 2": "fr16n1"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"Node": 1}', "node 1 must be an object with the name of a node"),
        ("[[]]", "node 1 must be an object with the name of a node"),
        ('{"Node": "a", "Memory": true}', "Memory: node 1: must be a number, a text or a list of texts"),
        ('{"Node": "a", "Memory": NaN}', "Memory: node 1: must be a number, a text or a list of texts"),
        ('{"Node": "a", "Memory": null}', "Memory: node 1: must be a number, a text or a list of texts"),
        ("[" * 10_000, "not JSON"),
    ],
)
def test_what_is_no_description_of_a_node_is_refused(text, reason):
    with pytest.raises(ParseError, match=reason):
        parse_nodes(text)


@pytest.mark.parametrize("wrong", ["{", '{"Node": "n2", "Memory": 1e99922337203685477580}'])
def test_a_line_that_cannot_be_read_is_named(wrong):
    with pytest.raises(ParseError) as refused:
        parse_nodes(f'{{"Node": "n1"}}\n\n{wrong}\n')
    assert refused.value.line == 3


def test_a_separator_within_a_string_ends_no_line():
    assert parse_nodes('{"Node": "n1", "OpSys": "a\u2028b"}\r\n{"Node": "n2"}\n') == [
        {"Node": "n1", "OpSys": "a\u2028b"},
        {"Node": "n2"},
    ]
