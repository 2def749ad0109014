"""The form of pages: tables that show whole, headings in order, lines and pages that can be read."""

import itertools
import re

from tests.docs.pages import NAMES, faults_by_page, text_of, tokens_of

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


def rows_of_another_width(name):
    wrong, width = [], None
    for number, line in enumerate(outside_of_blocks(text_of(name)), 1):
        if not line.startswith("|"):
            width = None
            continue
        count = len(re.findall(r"(?<!\\)\|", line))
        width = width or count
        if count != width:
            wrong.append((number, line))
    return wrong


def test_rows_of_a_table_have_as_many_cells_as_its_head():
    assert faults_by_page(NAMES, rows_of_another_width) == {}


def misplaced_headings(name):
    levels = [int(token.tag[1]) for token in tokens_of(text_of(name)) if token.type == "heading_open"]
    if levels[:1] != [1] or levels.count(1) != 1:
        yield "not one heading of level 1 at the top"
    yield from ((above, below) for above, below in itertools.pairwise(levels) if below > above + 1)


def test_headings_go_down_by_one_level():
    assert faults_by_page(NAMES, misplaced_headings) == {}


def test_a_page_can_be_read_in_one_go():
    lines = {name: len(text_of(name).splitlines()) for name in WRITTEN}
    assert {name: count for name, count in lines.items() if count > LONGEST_PAGE} == {}


def blank_ends(name):
    text = text_of(name)
    yield from re.findall(r"(?m)^.*[ \t]+$", text)
    if not text.endswith("\n") or text.endswith("\n\n"):
        yield "the end"


def test_a_page_has_no_blanks_at_ends_of_lines_and_ends_with_one_newline():
    assert faults_by_page(NAMES, blank_ends) == {}
