"""The pages as their readers see them: blocks, words in backquotes, links and headings."""

import functools
import itertools
import re
from dataclasses import dataclass
from pathlib import Path

import markdown_it

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "packaging").glob("*/README.md"),
        *(ROOT / "grafana").rglob("*.md"),
        ROOT / "tests/sources.md",
    ]
)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
HISTORY = [ROOT / "CHANGELOG.md"]  # tells what was: its links are checked, not its commands


@dataclass(frozen=True)
class Block:
    """A fenced block; `marks` are the words of HTML comments right above it."""

    page: str
    line: int
    language: str
    text: str
    marks: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@functools.cache
def tokens_of(text):
    return markdown_it.MarkdownIt("commonmark").enable("table").parse(text)


@functools.cache
def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_in(text, page="page"):
    found, marks = [], ()
    for token in tokens_of(text):
        if token.type == "html_block":
            marks += tuple(re.findall(r"<!--\s*(.*?)\s*-->", token.content))
        elif token.type == "fence":
            found.append(Block(page, token.map[0] + 1, token.info.strip(), token.content, marks))
            marks = ()
        elif token.level == 0 and not token.type.endswith("_close"):
            marks = ()
    return found


def queries_in(block):
    """Return the queries of a block: each begins at the margin, comments and empty lines stand between them."""
    found = []
    for line in block.text.splitlines():
        if line.startswith((" ", ")")) and found:
            found[-1] += "\n" + line
        elif line.strip() and not line.startswith("#"):
            found.append(line)
    return found


def inline_in(text):
    for token in tokens_of(text):
        yield from token.children or ()


def words_in(text):
    """Return what stands in backquotes."""
    return [token.content for token in inline_in(text) if token.type == "code_inline"]


def links_in(text):
    """Return where links and pictures lead."""
    found = [token.attrGet("href") for token in inline_in(text) if token.type == "link_open"]
    return found + [token.attrGet("src") for token in inline_in(text) if token.type == "image"]


def anchors_in(text):
    """Return the anchors that headings get where Markdown is shown on the web, as GitHub makes them."""
    found, counts = set(), {}
    tokens = tokens_of(text)
    for token, content in itertools.pairwise(tokens):
        if token.type == "heading_open":
            words = "".join(each.content for each in content.children if each.type in {"text", "code_inline"})
            anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
            count = counts[anchor] = counts.get(anchor, -1) + 1
            found.add(f"{anchor}-{count}" if count else anchor)
    return found


@functools.cache
def blocks_of(*languages):
    """Return the blocks of all pages in these languages."""
    every = [block for name in NAMES for block in blocks_in(text_of(name), name)]
    return [block for block in every if block.language in languages]


def faults_by_page(things, faults_of):
    """Return what is wrong, by the thing (a page, a block) that it is found in; of a block its place."""
    found = {getattr(thing, "place", thing): list(faults_of(thing)) for thing in things}
    return {place: faults for place, faults in found.items() if faults}
