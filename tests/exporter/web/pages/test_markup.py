import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.web.pages.markup import Html, join, name, shorten, tag
from tests.exporter.web.pages.reading import read_page

# What breaks out of careless pages: markup, quotes, comments, overrides, half characters, line ends.
HOSTILE = st.one_of(
    st.text(),
    st.text(alphabet=st.sampled_from("<>&\"'=/-! \n\r\t\0\u202e\u2066\u200b\u2028\ud800\x1bab;#x3")),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            '"><img src=x onerror=alert(1)>',
            "]]>--><!--",
            "&lt;b&gt;",
            "\u202egnp.exe",
            "a" * 10_000,
            "</bdi></td></table><h1>",
        ]
    ),
)


@given(HOSTILE, HOSTILE)
def test_no_text_breaks_out_of_an_element_or_an_attribute(text, value):
    page = read_page(tag("p", text, title=value))
    (element,) = page.children
    assert (element.tag, element.children, list(element.attributes)) == ("p", [], ["title"])
    if text.isprintable():
        assert element.text == text
    if value.isprintable():
        assert element.attributes["title"] == value


@given(HOSTILE)
def test_a_name_has_no_character_that_would_move_others_and_ends(text):
    element = read_page(name(text)).children[0]
    assert element.tag == "bdi"
    assert len(element.text) <= 48
    assert not set(element.text) & set(
        "\0\n\r\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u200f\u2028\ud800"
    )
    assert len(element.attributes.get("title") or "") <= 200


def test_a_short_name_needs_no_title_and_a_long_one_has_it():
    assert name("wrf") == "<bdi>wrf</bdi>"
    assert name("x" * 60) == f'<bdi title="{"x" * 60}">{"x" * 47}…</bdi>'


@pytest.mark.parametrize(("text", "limit", "short"), [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("", 3, "")])
def test_a_text_is_shortened_to_its_limit(text, limit, short):
    assert shorten(text, limit) == short


def test_markup_stays_markup_and_nothing_is_nothing():
    assert join("<", None, Html("<b></b>"), "") == "&lt;<b></b>"
    assert tag("input", disabled=True, value=None, class_="a", data_order=1.5) == (
        '<input disabled class="a" data-order="1.5">'
    )
