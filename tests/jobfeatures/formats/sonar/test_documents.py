from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.formats.sonar.documents import MAX_BAD_DOCUMENTS, iterate_documents

TWO = [{"a": [1, {"b": "}"}]}, {"c": "\n{"}]


def values(text, **how):
    return [each.value for each in iterate_documents(text, **how) if not each.reason]


def reasons(text, **how):
    return [(each.number, each.line, each.reason) for each in iterate_documents(text, **how) if each.reason]


@pytest.mark.parametrize(
    "text",
    [
        "".join(map(json.dumps, TWO)),
        "\n".join(map(json.dumps, TWO)) + "\n",
        "\ufeff\r\n" + " ".join(json.dumps(each, indent=2) for each in TWO),
        json.dumps(TWO),
        "\n" + json.dumps(TWO, indent=4) + "\n",
    ],
)
def test_documents_come_in_any_layout(text):
    assert values(text) == TWO
    assert reasons(text) == []


def test_nothing_has_no_documents():
    assert (
        list(iterate_documents("")) == list(iterate_documents(" \n\t")) == list(iterate_documents("[]")) == []
    )


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ('{"a":1', "is not JSON: Expecting property name enclosed in double quotes at character 9"),
        ('{"a":NaN}', "has NaN, which JSON does not allow"),
        ('{"a":-Infinity}', "has -Infinity, which JSON does not allow"),
        ('{"a":1,"a":2}', "has the same name twice in one object"),
        ('{"a":' + "1" * 5000 + "}", "has a number that is too long"),
        ('{"a":' + "[" * 100_000, "is nested too deeply"),
        ('{"a":"\x01"}', "is not JSON: Invalid control character at at character 7"),
        ("1", "is not an object"),
        ("lost words", "is not an object"),
    ],
)
def test_a_bad_document_costs_itself_only_and_is_named(bad, reason):
    text = f'{{"n":1}}\n{bad}\n{{"n":2}}\n'
    assert values(text) == [{"n": 1}, {"n": 2}]
    ((number, line, found),) = reasons(text)
    assert (number, line) == (2, 2)
    assert found.startswith(reason.partition(" at character")[0].partition(":")[0])


def test_bad_documents_are_bounded():
    text = '{"a"\n' * 1000
    assert len(list(iterate_documents(text))) == MAX_BAD_DOCUMENTS


def test_text_after_an_array_is_a_fault():
    assert reasons('[{}] {"a":1}') == [(2, 1, "there is text after the array")]
    assert reasons("[{},") != []


def test_what_is_still_being_written_waits():
    text = '{"n":1}\n{"n":'
    (only,) = iterate_documents(text, growing=True)
    assert (only.value, only.end) == ({"n": 1}, 7)
    assert values(text[only.end :] + "2}", growing=True) == [{"n": 2}]
    assert [each[0] for each in reasons(text + '\n{"n":3}', growing=True)] == [2]


@given(st.text())
def test_no_text_raises(text):
    for growing in (True, False):
        list(iterate_documents(text, growing=growing))


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text()), max_size=5), st.text(" \n\r\t"))
def test_what_was_written_is_read(documents, between):
    assert values(between.join(map(json.dumps, documents))) == documents


@given(st.binary())
def test_no_bytes_raise(content):
    list(iterate_documents(content.decode("utf-8", "surrogateescape")))
