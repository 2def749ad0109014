"""Reads a page as a browser does, as far as tests need it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br"}


@dataclass
class Element:
    """An element; `text` is all text within it."""

    tag: str
    attributes: dict[str, str | None]
    children: list[Element] = field(default_factory=list)
    parts: list[str | Element] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(each if isinstance(each, str) else each.text for each in self.parts)

    @cached_property
    def within(self) -> list[Element]:
        """This element and all in it, in their order. It is asked for when all is read."""
        found, todo = [], [self]
        while todo:
            found.append(todo.pop())
            todo += reversed(found[-1].children)
        return found

    def all(self, tag: str, **attributes: str) -> list[Element]:
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [each for each in self.within if each.tag == tag and wanted.items() <= each.attributes.items()]


class _Parser(HTMLParser):
    """Refuses what is not closed, or closed in the wrong place."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open = [Element("document", {})]

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"an attribute twice: {attrs}"
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        self.open[-1].parts.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop().tag == tag

    def handle_data(self, data):
        self.open[-1].parts.append(data)


def read_page(text: str) -> Element:
    """Return the document."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert len(parser.open) == 1, f"not closed: {parser.open[-1].tag}"
    return parser.open[0]
