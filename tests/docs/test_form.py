"""The form of pages: tables that show whole, headings in order, lines and pages that can be read."""

import itertools
import re

import pytest

from tests.docs.pages import NAMES, text_of, tokens_of

WRITTEN = [name for name in NAMES if "/reference/" not in name]
LONGEST_PAGE = 330


def outside_of_blocks(text):
    """Return the lines of a page, those of fenced blocks left empty."""
    lines = text.splitlines()
    for token in tokens_of(text):
        if token.type == "fence":
            first, last = token.map
            lines[first:last] = [""] * (last - first)
    return lines


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_a_table_have_as_many_cells_as_its_head(name):
    wrong, width = [], None
    for number, line in enumerate(outside_of_blocks(text_of(name)), 1):
        if not line.startswith("|"):
            width = None
            continue
        count = len(re.findall(r"(?<!\\)\|", line))
        width = width or count
        if count != width:
            wrong.append((number, line))
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_headings_go_down_by_one_level(name):
    levels = [int(token.tag[1]) for token in tokens_of(text_of(name)) if token.type == "heading_open"]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below <= above + 1 for above, below in itertools.pairwise(levels))


@pytest.mark.parametrize("name", WRITTEN)
def test_a_page_can_be_read_in_one_go(name):
    assert len(text_of(name).splitlines()) <= LONGEST_PAGE


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_no_blanks_at_ends_of_lines_and_ends_with_one_newline(name):
    text = text_of(name)
    assert re.findall(r"(?m)^.*[ \t]+$", text) == []
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
