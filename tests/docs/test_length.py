"""Pages stay short: all of them, the generated reference included, are counted as `wc -w` counts."""

import pytest

from tests.docs.pages import ROOT, links_in, text_of

INDEX = "docs/README.md"
FOR_DEVELOPERS = "## For developers"
MOST_WORDS = 38_600
OF_ALL = 48_700
A_TABLE = "docs/behaviour.md"  # has a limit of its own, in lines (test_behaviour_page.py)
OF_PAGES = {"README.md": 1_400, "docs/benchmarks.md": 1_500, "docs/reliability.md": 1_500}


def developers_pages():
    """Return the pages that the index names for developers."""
    _, _, rest = text_of(INDEX).partition(FOR_DEVELOPERS)
    section = rest.partition("\n## ")[0]
    return {f"docs/{link.partition('#')[0]}" for link in links_in(section) if ":" not in link} - {A_TABLE}


def all_pages():
    every = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return {str(path.relative_to(ROOT)) for path in every} - {A_TABLE}


def users_pages():
    return all_pages() - developers_pages()


@pytest.mark.parametrize(("pages", "most"), [(users_pages, MOST_WORDS), (all_pages, OF_ALL)])
def test_pages_have_no_more_words_than_they_need(pages, most):
    words = {name: len(text_of(name).split()) for name in pages()}
    longest = sorted(words, key=words.__getitem__, reverse=True)[:5]
    assert sum(words.values()) <= most, [(name, words[name]) for name in longest]


@pytest.mark.parametrize("name", OF_PAGES)
def test_a_page_that_grows_by_itself_has_a_limit_of_its_own(name):
    assert len(text_of(name).split()) <= OF_PAGES[name]


def test_developers_pages_stand_apart():
    found = developers_pages()
    assert {"docs/development.md", "docs/benchmarks.md", "docs/figures.md"} <= found
    assert users_pages().isdisjoint(found)
    assert {"README.md", "docs/install.md", "docs/reference/commands.md"} <= users_pages()
