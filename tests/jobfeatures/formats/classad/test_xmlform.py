"""ClassAds as XML, constructed by HTCondor's document type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.classad import ClassAd, Expression, Special
from jobfeatures.formats.classad.xmlform import MAX_DEPTH, MAX_TEXT_CHARACTERS, parse_xml_ads, read_xml_ads

HEAD = '<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n'
AD = """<c>
    <a n="ClusterId"><i>12</i></a>
    <a n="Name"><s>a &lt;b&gt; &amp; é
c</s></a>
    <a n="Real"><r>1.5000000000E+00</r></a>
    <a n="Yes"><b v="t"/></a><a n="No"><b v="f"/></a>
    <a n="Undef"><un/></a><a n="Bad"><er/></a>
    <a n="Expr"><e>A &lt; 3</e></a>
    <a n="List"><l><i>1</i><s>two</s></l></a>
    <a n="Nested"><c><a n="ClusterId"><i>99</i></a></c></a>
    <a n="Huge"><i>99999999999999999999</i></a>
</c>
"""


def test_every_kind_of_value_is_told_apart():
    (ad,) = parse_xml_ads(f"{HEAD}{AD}</classads>\n", source="x")
    assert ad.values == {
        "clusterid": 12, "name": "a <b> & é\nc", "real": 1.5, "yes": True, "no": False, "undef": Special.UNDEFINED,
        "bad": Special.ERROR, "expr": Expression("A < 3"), "list": Expression("{}"), "nested": Expression("[]"),
        "huge": Expression("99999999999999999999"),
    }  # fmt: skip


def test_ads_come_as_the_lines_come():
    lines = iter([HEAD, AD, AD, "<oops>"])
    found = read_xml_ads(lines, source="x")
    assert isinstance(next(found), ClassAd)
    assert next(lines) == AD


@pytest.mark.parametrize(
    ("text", "ads"),
    [
        ("", 0), (HEAD, 0), (f"{HEAD}{AD}", 1), (f"{HEAD}{AD}{AD}<c><a", 2), ("Welcome\n" + HEAD, 0), ("{}", 0),
        (f"{HEAD}{AD}" + "<c>" * MAX_DEPTH, 1), (f'{HEAD}{AD}<c><a n="A"><s>{"x" * MAX_TEXT_CHARACTERS}y</s></a></c></classads>', 1),
    ],
)  # fmt: skip
def test_what_is_cut_off_costs_what_follows_only(text, ads):
    *whole, last = read_xml_ads([text], source="x")
    assert isinstance(last, Rejected)
    assert [isinstance(each, ClassAd) for each in whole] == [True] * ads
    with pytest.raises(ParseError):
        parse_xml_ads(text, source="x")


@pytest.mark.parametrize(
    "document_type",
    [
        '<!DOCTYPE c [<!ENTITY a "b">]>',
        '<!DOCTYPE c [<!ENTITY a SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE c [<!ENTITY % a SYSTEM "file:///etc/hostname"> %a;]>',
    ],
)
def test_entities_are_refused(document_type):
    text = f'<?xml version="1.0"?>{document_type}<classads><c><a n="A"><s>&a;</s></a></c></classads>'
    (found,) = read_xml_ads([text], source="x")
    assert isinstance(found, Rejected)


@given(st.text() | st.text(alphabet='<>/can="isebvt ', max_size=60))
def test_any_text_gives_ads_or_a_parse_error(text):
    for document in (text, f"<classads><c>{text}</c></classads>"):
        try:
            parse_xml_ads(document, source="x")
        except ParseError:
            continue
