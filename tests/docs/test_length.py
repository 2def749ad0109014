"""Users' pages stay short: all of them, the generated reference included, are counted as `wc -w` counts."""

from tests.docs.pages import ROOT, links_in, text_of

INDEX = "docs/README.md"
FOR_DEVELOPERS = "## For developers"
MOST_WORDS = 35_000


def developers_pages():
    """Return the pages that the index names for developers."""
    _, _, rest = text_of(INDEX).partition(FOR_DEVELOPERS)
    section = rest.partition("\n## ")[0]
    return {f"docs/{link.partition('#')[0]}" for link in links_in(section) if ":" not in link}


def users_pages():
    every = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return {str(path.relative_to(ROOT)) for path in every} - developers_pages()


def test_users_pages_have_no_more_words_than_they_need():
    words = {name: len(text_of(name).split()) for name in users_pages()}
    longest = sorted(words, key=words.__getitem__, reverse=True)[:5]
    assert sum(words.values()) <= MOST_WORDS, [(name, words[name]) for name in longest]


def test_developers_pages_stand_apart():
    found = developers_pages()
    assert {"docs/development.md", "docs/benchmarks.md", "docs/figures.md"} <= found
    assert users_pages().isdisjoint(found)
    assert {"README.md", "docs/install.md", "docs/reference/commands.md"} <= users_pages()
