"""Bytes to elements: places are right, and nothing hostile gets through."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.xml import Element, parse_element

LAUGHS = b"""<?xml version="1.0"?>
<!DOCTYPE Job [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>
<Job><Id>&c;</Id></Job>"""


def test_elements_know_their_text_attributes_and_places():
    root = parse_element(b'<A>\n  <B x="1" y="&lt;">t<!-- no text -->u</B>\n<C/></A>')
    assert root == Element(
        "A",
        text="\n  \n",
        line=1,
        column=1,
        children=(
            Element("B", {"x": "1", "y": "<"}, "tu", 2, 3),
            Element("C", line=3, column=1),
        ),
    )


def test_a_byte_order_mark_and_a_declared_utf8_are_accepted():
    data = b"\xef\xbb\xbf<?xml version='1.0' encoding='utf-8'?><A>" + "é".encode() + b"</A>"
    assert parse_element(data).text == "é"


def test_marked_sections_and_character_references_are_text():
    assert parse_element(b"<A><![CDATA[<&]]>&#65;&amp;</A>").text == "<&A&"


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"", 0, "the document is empty"),
        (b"  \n ", 2, "column 2: no element found"),
        (b"\x7fELF\x02\x01\x01", 1, "column 1: not well-formed (invalid token)"),
        (b"<A>\n<B></A>", 2, "column 6: mismatched tag"),
        (b"<A>\n", 2, "column 1: no element found"),
        (b"<A/>\n<B/>", 2, "column 1: junk after document element"),
        (b"<A x='1' x='2'/>", 1, "column 10: duplicate attribute"),
        (b"<A>&b;</A>", 1, "column 4: undefined entity"),
        (b"<A>\x00</A>", 1, "column 4: not UTF-8 text"),
        (b"<A>&#0;</A>", 1, "column 4: reference to invalid character number"),
        (b"<A>\nab\xff</A>", 2, "column 3: not UTF-8"),
        ("<A>é</A>".encode("latin-1"), 1, "column 4: not UTF-8"),
        ("<A/>".encode("utf-16"), 1, "column 1: not UTF-8"),
        ("<A/>".encode("utf-16-le"), 1, "column 2: not UTF-8 text"),
        ("<A/>".encode("utf-16-be"), 1, "column 1: not UTF-8 text"),
        (b"\xef\xbb\xbf" + "<A/>".encode("utf-16-le"), 1, "column 5: not UTF-8 text"),
        (LAUGHS, 2, "DOCTYPE is not accepted"),
        (b'<!DOCTYPE A [<!ENTITY x SYSTEM "file:///etc/passwd">]><A>&x;</A>', 1, "DOCTYPE is not"),
        (b'<!DOCTYPE A SYSTEM "http://127.0.0.1:9/a.dtd"><A/>', 1, "DOCTYPE is not"),
        (b'<!DOCTYPE A [<!ENTITY % x SYSTEM "file:///dev/zero"> %x;]><A/>', 1, "DOCTYPE is not"),
    ],
)
def test_what_is_not_a_document_is_refused_at_its_place(data, line, reason):
    with pytest.raises(ParseError) as caught:
        parse_element(data, source="there")
    assert (caught.value.source, caught.value.line) == ("there", line)
    assert reason in caught.value.reason


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "utf-16", "utf-7", "klingon", "idna"])
def test_a_declared_encoding_other_than_utf8_is_refused_by_name(encoding):
    data = f'<?xml version="1.0" encoding="{encoding}"?><A/>'.encode()
    with pytest.raises(ParseError, match="encoding is not UTF-8") as caught:
        parse_element(data)
    assert (caught.value.line, caught.value.field, caught.value.text) == (1, "encoding", encoding)


def test_elements_may_nest_as_deep_as_allowed_and_no_deeper():
    assert parse_element(b"<a><b/></a>", max_depth=2).children[0].name == "b"
    with pytest.raises(ParseError, match="nest deeper than 2") as caught:
        parse_element(b"<a>\n<b><c/></b></a>", max_depth=2)
    assert (caught.value.line, caught.value.field) == (2, "c")


def test_very_deep_nesting_is_refused_without_a_recursion_error():
    with pytest.raises(ParseError, match="nest deeper"):
        parse_element(b"<a>" * 300_000)


def test_there_may_be_as_many_elements_as_allowed_and_no_more():
    assert len(parse_element(b"<a><b/><b/></a>", max_elements=3).children) == 2
    with pytest.raises(ParseError, match="too many elements"):
        parse_element(b"<a><b/><b/><b/></a>", max_elements=3)


def test_a_document_may_be_as_large_as_allowed_and_no_larger():
    data = b"<a>" + b"x" * 93 + b"</a>"
    assert len(parse_element(data, max_bytes=100).text) == 93
    with pytest.raises(ParseError, match="larger than 100 bytes"):
        parse_element(data + b"\n", max_bytes=100)


def test_names_in_messages_are_cut():
    with pytest.raises(ParseError) as caught:
        parse_element(b"<a><" + b"x" * 5000 + b"/></a>", max_depth=1)
    assert len(str(caught.value)) < 300


@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.lists(
            st.sampled_from(
                [b"<a>", b"</a>", b"<a/>", b"<!DOCTYPE a [", b"]>", b"<!ENTITY x 'y'>", b"&x;", b"<?p?>", b"<![CDATA[",
                 b"]]>", b"<!--", b"-->", b"<?xml version='1.0' encoding='cp037'?>", b" b='", b"'", b"\xff", b"\x00", b"&#1;"]
            ),
            max_size=12,
        ).map(b"".join),
    )
)  # fmt: skip
@example(b"<?xml version='1.0' encoding='utf-32'?><a/>")
@example(b"<?xml version='1.0' standalone='yes' ?><a/>")
def test_any_bytes_give_an_element_or_a_parse_error(data):
    try:
        element = parse_element(data, source="s")
    except ParseError:
        return
    assert element.name
