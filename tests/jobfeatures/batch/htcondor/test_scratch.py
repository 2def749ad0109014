"""Ads as HTCondor writes them below EXECUTE, with what their user may put into them."""

import errno
import os

import pytest

from jobfeatures.batch.htcondor import scratch
from jobfeatures.batch.htcondor.scratch import MAX_LINE_BYTES, read_one_ad
from jobfeatures.errors import ParseError
from jobfeatures.formats.classad.ad import Special
from jobfeatures.formats.classad.longform import parse_ad


@pytest.fixture
def read(tmp_path):
    def read(*lines):
        (tmp_path / "ad").write_text("\n".join(lines) + "\n")
        return read_one_ad(str(tmp_path / "ad"))

    return read


@pytest.mark.parametrize("size", [MAX_LINE_BYTES, 2**20 + 1, 6 * 2**20])
@pytest.mark.parametrize("value", ['"{}"', '"\\"{}"', '"{}\\"', "{{ {} }}", '"{}" + "a"', '"{}\\\\"'])
def test_a_long_value_is_unknown_and_the_rest_of_the_ad_is_read(read, size, value):
    ad = read("ClusterId = 7", f"Big = {value.format('x' * size)}", 'Owner = "alice"')
    assert (ad.integer("ClusterId"), ad.text("Owner")) == (7, "alice")
    assert ad.value("Big") is Special.TOO_LONG


def test_many_long_values_cost_no_more_than_one(read):
    ad = read(*(f'A{number} = "{"x" * 400_000}"' for number in range(60)), "ClusterId = 7")
    assert ad.integer("ClusterId") == 7


@pytest.mark.parametrize("value", ['"{}', '"a" + "{}', '"{}\\"', '{}"', 'f("{}\\"'])
@pytest.mark.parametrize("size", [100, MAX_LINE_BYTES, 2**20])
def test_a_long_string_that_goes_on_after_its_line_imitates_no_attribute(read, size, value):
    # the same as that of a short one, which is taken for a whole string if only its last quote is escaped
    text = f"Big = {value.format('x' * size)}"
    follows = ("ClusterId = 8", 'End = ""')
    try:
        short = parse_ad("\n".join([f"Big = {value.format('x')}", *follows]))
    except ParseError:
        with pytest.raises(ParseError, match="no closing quote"):
            read(text, *follows)
    else:
        assert read(text, *follows).integer("ClusterId") == short.integer("ClusterId")


@pytest.mark.parametrize("at", range(-4, 4))
@pytest.mark.parametrize("rest", ["x" * 9 + '"', ""])  # "": the text ends with a backslash
def test_an_escaped_quote_is_one_wherever_a_piece_of_the_line_ends(read, at, rest):
    begin = 'Big = "'
    text = begin + "x" * (MAX_LINE_BYTES - len(begin) + at) + '\\"' + rest
    assert read(text, "ClusterId = 7").integer("ClusterId") == 7


def test_what_is_too_large_even_so_is_refused(read, tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "MAX_FILE_BYTES", 2**21)
    with (tmp_path / "ad").open("wb") as file:
        file.truncate(2**40)  # a line without end
    with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        read_one_ad(str(tmp_path / "ad"))
    monkeypatch.undo()
    with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        read(*(f'A{number} = "{"x" * 200_000}"' for number in range(90)))
