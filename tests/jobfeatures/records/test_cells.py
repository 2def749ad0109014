from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.cells import align, clean, fit, width_of


def test_nothing_moves_the_cursor():
    assert clean("a\x1b[2Jb\rc\x07\nd\x9bm") == "a\ufffd[2Jb\ufffdc\ufffd\ufffdd\ufffdm"
    assert clean("\u202eevil\u200b\ud800") == "\ufffdevil\ufffd\ufffd"
    assert clean("1\u202fs\u00a0x\u3000y") == "1 s x y"


def test_a_letter_has_few_marks():
    assert clean("e" + "\u0301" * 9 + "x") == "e\u0301\u0301x"
    assert clean("\u0301a") == "a"


def test_wide_characters_take_two_columns():
    assert width_of("日本") == 4
    assert fit("日本語", 5) == "日本…"
    assert fit("abc", 3) == "abc"
    assert fit("abcd", 3) == "ab…"
    assert fit("abcd", 0) == ""


def test_columns_are_aligned():
    assert align([["a", "1"], ["日本", "20"]]) == ["a      1", "日本  20"]
    assert align([]) == []


@given(st.text(max_size=40), st.integers(0, 20))
def test_any_text_fits_and_is_printable(text, columns):
    shown = fit(text, columns)
    assert width_of(shown) <= columns
    assert shown == "" or shown.isprintable()
    assert clean(shown) == shown
