"""ClassAds as JSON. The first answer was captured from printJson() of HTCondor 25.14.1's library; the others are constructed."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.classad.ad import ClassAd, Expression, Special
from jobfeatures.formats.classad.jsonform import MAX_AD_CHARACTERS, parse_json_ads, read_json_ads

CAPTURED = r"""{
  "A": 1,
  "B": "x/y\"é\n",
  "C": null,
  "D": "\/Expr(error)\/",
  "E": 1.5,
  "F": "\/Expr(time() - 5)\/",
  "G": true,
  "H": [
    1,
    "a"
  ],
  "I": {
    "j": 1,
    "k": "q"
  },
  "N": -5
}
"""


def test_what_the_library_prints_is_read():
    (ad,) = parse_json_ads(CAPTURED, source="x")
    assert ad.values == {
        "a": 1, "b": 'x/y"é\n', "c": Special.UNDEFINED, "d": Special.ERROR, "e": 1.5,
        "f": Expression("time() - 5"), "g": True, "h": Expression("{}"), "i": Expression("[]"), "n": -5,
    }  # fmt: skip


def test_the_library_itself_agrees():
    import classad2

    printed = classad2.ClassAd(
        '[A = 1; B = "x/y\\"é\\n"; C = undefined; F = time() - 5; G = true]'
    ).printJson()
    (ad,) = parse_json_ads(printed, source="x")
    assert ad.values == {
        "a": 1,
        "b": 'x/y"é\n',
        "c": Special.UNDEFINED,
        "f": Expression("time() - 5"),
        "g": True,
    }


@pytest.mark.parametrize(
    "text",
    [
        '[\n{"A": 1}\n,\n{"A": 2}\n]\n',
        '[{"A":1},{"A":2}]',
        '{"A": 1}\n{"A": 2}\n',
        '[\n{"A": 1}\n]\n\n[\n{"A": 2}\n]\n',
        'Welcome {guest}!\n-- Schedd: s\n[{"A":\n1}, {\n"A":2}]',
    ],
)
def test_ads_come_in_arrays_one_after_the_other_and_a_line_each(text):
    assert parse_json_ads(text, source="x") == [ClassAd({"a": 1}), ClassAd({"a": 2})]


@pytest.mark.parametrize("text", ["", "\n", "[\n]\n", "[]"])
def test_no_ads_are_no_ads(text):
    assert parse_json_ads(text, source="x") == []


@pytest.mark.parametrize(
    "text",
    [
        '[{"A": 1', '[{"A": 1}, {"B"', "All queues are empty", '{"A": }', '{"A": NaN}', '[{"A": 1}] oops',
        '{"a":' * 100_000 + "1" + "}" * 100_000, '{"A": "open}', '[{"A": 1} {', '{"A": "' + "x" * MAX_AD_CHARACTERS + '"\n}',
    ],
)  # fmt: skip
def test_what_is_cut_off_or_no_json_is_an_error(text):
    with pytest.raises(ParseError):
        parse_json_ads(text, source="x")


@pytest.mark.timeout(60)  # looked through anew from each quote, the first took a day
@pytest.mark.parametrize(
    "text", ['[{"A": "' + '\\"' * 500_000, '{"A": "' + "\\" * 999_999, '{"A": "x\\', '{"A": "' + "{" * 10**6]
)
def test_an_answer_cut_off_inside_a_string_is_read_once(text):
    with pytest.raises(ParseError, match="cut off"):
        parse_json_ads(text, source="x")


def test_a_bad_ad_costs_itself_only_where_a_file_is_read():
    found = list(read_json_ads(['{"A": 1}\n', '{"A": 1 1}\n', "oops\n", '{"A": 2}\n'], source="x"))
    assert [each for each in found if isinstance(each, ClassAd)] == [ClassAd({"a": 1}), ClassAd({"a": 2})]
    assert [each.line for each in found if isinstance(each, Rejected)] == [2, 3]


@pytest.mark.parametrize(
    ("number", "value"),
    [("9223372036854775807", 2**63 - 1), ("9223372036854775808", None), ("1e400", None), ("1.0", 1.0)],
)
def test_numbers_beyond_the_language_have_no_value(number, value):
    (ad,) = parse_json_ads(f'{{"A": {number}}}', source="x")
    assert ad.value("A") == (Special.ERROR if value is None else value)


@given(
    st.lists(
        st.dictionaries(
            st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True),
            st.text().filter(lambda text: not text.startswith("/Expr("))
            | st.integers(-(2**63), 2**63 - 1)
            | st.booleans(),
        )
    ),
    st.sampled_from([None, 2]),
)
def test_what_is_written_comes_back(ads, indent):
    clean = [
        {name: v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for name, v in ad.items()}
        for ad in ads
    ]
    assert [ad.values for ad in parse_json_ads(json.dumps(clean, indent=indent), source="x")] == clean


@given(st.text() | st.text(alphabet='[]{},:"\\\nA1.e-nulltrue/Expr()', max_size=80))
def test_any_text_gives_ads_or_a_parse_error(text):
    try:
        ads = parse_json_ads(text, source="x")
    except ParseError:
        return
    assert all(
        not isinstance(value, float) or math.isfinite(value) for ad in ads for value in ad.values.values()
    )


def test_a_line_separator_in_a_string_ends_no_ad():
    ads = parse_json_ads('{"A": "x\u2028{y"}\n{"A": "\x85}"}\n', source="condor_q")
    assert [each.text("A") for each in ads] == ["x\u2028{y", "\x85}"]
