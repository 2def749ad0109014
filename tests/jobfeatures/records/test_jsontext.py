import pytest

from jobfeatures.errors import ParseError
from jobfeatures.records.jsontext import is_of_later_version, parse_object, parse_own


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": NaN}', "[" * 100_000, b"\xff"])
def test_what_is_no_object_is_named(text):
    for parse in (parse_object, parse_own):
        with pytest.raises(ParseError, match="JSON"):
            parse(text, source="it")


def test_a_document_of_ours_says_no_format_and_one_of_a_later_version_says_one():
    assert parse_own('{"jobs": []}') == {"jobs": []}
    with pytest.raises(
        ParseError, match="it:format: written by a later version of this program: upgrade it: '2'"
    ):
        parse_own('{"format": 2, "jobs": "of another kind"}', source="it")


@pytest.mark.parametrize(
    ("text", "is_later"),
    [
        (b'{"format": 2}', True),
        (b'{"format": {"major": 3}}', True),
        (b'{"name": "\\"format\\""}', False),
        (b'{"format": 2', False),  # half of it
        (b"", False),
    ],
)
def test_only_a_whole_document_of_a_later_version_is_one(text, is_later):
    assert is_of_later_version(text) is is_later
