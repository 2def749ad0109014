"""Messages that the page on troubleshooting quotes are messages of the programs, word by word."""

import ast
import functools
import re

from tests.docs.pages import ROOT, tokens_of

PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
KINDS = "### `batch_node_unreadable_readings_by_kind_total`"


@functools.cache
def sources():
    """Return the text of each file that says something."""
    folders = [ROOT / "exporter" / "jobfeatures_exporter", ROOT / "jobfeatures"]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    return {path: path.read_text(encoding="utf-8") for path in [*files, *(ROOT / "packaging").glob("*/*.sh")]}


def templates(path):
    """Yield all texts of a file, with … for what is filled in."""
    source = sources()[path]
    if path.suffix == ".sh":
        for text in re.findall(r'"([^"]*)"', source):
            yield re.sub(r"\$\{?\w+(:-\w+\})?", "…", text)
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"%[-.0-9]*[sdfr]", "…", node.value)


@functools.cache
def templates_in(path):
    """Return them in one text, each between two lines' ends."""
    return "\n" + "\n".join(re.sub(r"\s+", " ", text) for text in templates(path)) + "\n"


def is_in_a_template(pattern, words):
    """Search the texts of those files that have all these words: to parse every file takes a second."""
    files = [path for path, source in sources().items() if all(word in source for word in words)]
    return any(re.search(pattern, templates_in(path)) for path in files)


def cells():
    """Return the first two cells of each row of the page's tables, as what stands in backquotes there."""
    row, cell = [], None
    for token in tokens_of(PAGE):
        if token.type == "tr_open":
            row = []
        elif token.type == "td_open":
            cell = []
        elif token.type == "inline" and cell is not None:
            cell += [each.content for each in token.children if each.type == "code_inline"]
        elif token.type == "td_close":
            row.append(cell)
            cell = None
        elif token.type == "tr_close" and row:
            yield row


OTHERS = ("--", "/", "batch_", "jobfeatures", "packaging/")


def is_message(words):
    """Tell messages from names, flags, paths and commands: these have no spaces, or begin like what they are."""
    if (" = " in words and "…" not in words) or words.startswith(OTHERS):
        return False
    return " " in words and not re.match(
        r"(systemctl|ss|chmod|sysctl|chronyc|count|curl|drain|timestamp)\b", words
    )


def is_said(message):
    parts = message.strip("…").split("…")
    return is_in_a_template(".*?".join(map(re.escape, parts)), " ".join(parts).split())


def test_a_quoted_message_is_one_of_the_programs():
    quoted = {words for row in cells() for cell in row for words in cell if is_message(words)}
    assert len(quoted) > 25
    assert sorted(message for message in quoted if not is_said(message)) == []


def test_another_would_be_noticed():
    assert not is_said("the flux of … is not compensated")
    assert not is_said("too many passwords to eat")


def test_the_kinds_of_unreadable_readings_are_those_that_are_counted():
    section = PAGE[PAGE.index(KINDS) :].split("\n### ")[0]
    named = {
        kind for row in re.findall(r"(?m)^\| (`.*?) \|", section) for kind in re.findall(r"`(\w+)`", row)
    }
    assert len(named) > 10
    assert {kind for kind in named if not is_in_a_template(f"\n{kind}\n", [f'"{kind}"'])} == set()
