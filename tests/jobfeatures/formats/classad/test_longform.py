"""ClassAds in their long form; the ads are constructed after the manual's examples."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.classad.ad import ClassAd, Expression, Special
from jobfeatures.formats.classad.longform import parse_ad, parse_value, read_long_ads

JOB = r"""# a comment
ClusterId = 1234
ProcId = 7
Owner = "alice"
Cmd = "/home/alice/\"run\" it"
JobStatus=2
	RemoteUserCpu	=	12.5
WantCheckpoint = FALSE
ExitSignal = undefined
Requirements = (TARGET.Arch == "X86_64") && (TARGET.Memory >= RequestMemory)
MaxRetries = error
"""


def read(text):
    return list(read_long_ads(text.split("\n"), source="x"))


def test_literals_become_values_and_the_rest_stays_text():
    ad = parse_ad(JOB)
    assert (ad.integer("clusterid"), ad.integer("ProcId"), ad.text("OWNER")) == (1234, 7, "alice")
    assert ad.text("Cmd") == '/home/alice/"run" it'
    assert ad.values["remoteusercpu"] == 12.5
    assert ad.values["wantcheckpoint"] is False
    assert ad.values["exitsignal"] is Special.UNDEFINED
    assert ad.values["maxretries"] is Special.ERROR
    assert isinstance(ad.values["requirements"], Expression)


@pytest.mark.parametrize("number", ["0x1F", "08", "1e", "5G", "1_000", "0b1"])
@pytest.mark.parametrize("before", ["", "A = 1\n"])
def test_a_number_that_htcondor_cannot_read_costs_its_own_line_and_none_behind_it(before, number):
    """classad2 25.14.1 ends the ad there, without a word."""
    ad = parse_ad(f'{before}C = {number}\nRequestCpus = 2\nOwner = "ann"\n')
    assert (ad.integer("RequestCpus"), ad.text("Owner")) == (2, "ann")
    assert ad.integer("C") in {None, 8}


def test_a_value_of_another_type_is_none_of_this_type():
    ad = parse_ad('A = true\nB = "1"\nC = 1.0\n')
    assert [ad.integer(name) for name in "ABCD"] == [None] * 4
    assert [ad.text(name) for name in "ACD"] == [None] * 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-5", -5), ("+5", 5), ("007", 7), ("9223372036854775807", 2**63 - 1), ("1e3", 1000.0), ("-.5", -0.5),
        ("5.", 5.0), ("1.5E-3", 0.0015), ("TRUE", True), ("Undefined", Special.UNDEFINED), ('""', ""),
        (r'"a\tb\n\\\"x"', r'a\tb\n\\"x'), (r'"\101\60\7"', r"\101\60\7"), (r'"C:\dir\0"', r"C:\dir\0"),
        ('"é"', "é"), (r'"end\"', "end\\"), (r'"q\"q"', 'q"q'), ('"' + r'\\"x' + '"', r'\"x'),
        ("9223372036854775808", Special.ERROR), ("1e9999", Expression("1e9999")),
        ("٣", Expression("٣")), ("1 + 1", Expression("1 + 1")), ('"a" + "b"', Expression('"a" + "b"')),
        ("{ 1, 2 }", Expression("{ 1, 2 }")), ("12abc", Expression("12abc")), ("time()", Expression("time()")),
    ],
)  # fmt: skip
def test_values(text, value):
    found = parse_value(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("A = 1\nnonsense\n", 2),
        ("A =\n", 1),
        ("= 1\n", 1),
        ("A == 1\n", 1),
        ("A =?= 1\n", 1),
        ("1A = 1\n", 1),
        ('A = "open\n', 1),
        ('\n\nA = "open\n', 3),
        ('A = strcat("a\n","b")\n', 1),
        ('A = "x\\"\nA = 7\n#"\n', 2),
        ("a = 1\nB = 2\nA = 2\n", 3),
        ("A B = 1\n", 1),
    ],
)
def test_what_is_no_attribute_is_named_by_its_line(text, line):
    with pytest.raises(ParseError) as caught:
        parse_ad(text, source="x")
    assert (caught.value.source, caught.value.line) == ("x", line)


def test_ads_end_at_empty_lines_and_at_the_marks_of_a_history_file():
    ads = read("\n\nA = 1\nB = 2\n\n\r\nA = 3\n*** Offset = 0 ClusterId = 1\nA = 4")
    assert [ad.integer("A") for ad in ads] == [1, 3, 4]
    with pytest.raises(ParseError):
        parse_ad("A = 1\n\nA = 2\n")
    assert parse_ad("\n# nothing\n") == ClassAd()


@given(st.text() | st.text(alphabet='Aa1 ="\\\n#*.e+-{}', max_size=120))
def test_any_text_gives_ads_or_faults(text):
    for ad in read(text):
        if isinstance(ad, Rejected):
            continue
        assert ad.values
        assert all(not isinstance(value, float) or math.isfinite(value) for value in ad.values.values())


@given(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])))
def test_a_string_that_is_escaped_comes_back(text):
    escaped = text.replace('"', '\\"')
    assert parse_ad(f'Name = "{escaped}"\n').text("Name") == text


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_integer_comes_back(number):
    assert parse_ad(f"Name = {number}\n").integer("name") == number
