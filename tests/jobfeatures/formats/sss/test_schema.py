"""The schema beside the parser says what the parser does."""

from __future__ import annotations

from importlib.resources import files

import pytest
from hypothesis import given
from lxml import etree

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.reader import parse_object
from tests.jobfeatures.formats.sss.documents import as_bytes, documents

SCHEMA = etree.RelaxNG(etree.fromstring((files("jobfeatures.formats.sss") / "sss.rng").read_bytes()))


def validates(data: bytes) -> bool:
    return SCHEMA.validate(etree.fromstring(data))


def parses(data: bytes) -> bool:
    try:
        parse_object(data)
    except ParseError:
        return False
    return True


@pytest.mark.parametrize("name", ["very_simple", "moderate"])
def test_fixtures_are_valid(sss_fixtures, name):
    data = (sss_fixtures / f"{name}.xml").read_bytes()
    assert validates(data)
    assert parses(data)


def test_all_constructs_are_valid_once_what_the_policy_lets_pass_is_gone(sss_fixtures):
    lines = (sss_fixtures / "everything.xml").read_text().splitlines()
    assert not validates("\n".join(lines[1:]).encode())
    data = "\n".join(line for line in lines[1:] if "Telescope" not in line).encode()
    assert validates(data)
    assert parses(data)


@given(documents())
def test_the_parser_takes_what_the_schema_allows_and_nothing_else(document):
    data = as_bytes(document)
    assert parses(data) == validates(data)
