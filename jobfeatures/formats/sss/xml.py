"""Parses XML into a small tree of elements with their positions, and formats it. Safe for hostile documents.

Documents are rejected if they are not UTF-8, have a document type declaration (and thus any entity except the
five of XML itself), or have more bytes, depth or elements than allowed. Nothing outside the document is ever
fetched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple
from xml.sax import SAXParseException  # types only: the parser itself is defusedxml's
from xml.sax.expatreader import ExpatLocator
from xml.sax.handler import ContentHandler
from xml.sax.saxutils import escape, quoteattr  # text only, nothing is parsed
from xml.sax.xmlreader import Locator

from defusedxml.common import DefusedXmlException
from defusedxml.expatreader import DefusedExpatParser

from jobfeatures.errors import SHOWN_CHARACTERS, ParseError, shown

MAX_BYTES: Final = 2**20
MAX_DEPTH: Final = 64
MAX_ELEMENTS: Final = 50_000
CHUNK_CHARACTERS: Final = 2**16
GROUP: Final = "JobGroup"  # whose children are read one by one

_DECLARED_ENCODING = re.compile(rb"\A(?:\xef\xbb\xbf)?<\?xml[^>]{0,200}?\sencoding\s*=\s*[\"']([^\"'>]*)")
_UTF8_NAMES = frozenset({b"utf-8", b"utf8", b"us-ascii", b"ascii"})
DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>'
NOT_XML: Final = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")

# A comment, a marked section, or a tag; an unclosed one extends to the end, so that it is scanned once.
_MARKUP = re.compile(r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[^\W\d][^<>]*>", re.DOTALL)
_ATTRIBUTE = re.compile(
    r"""<!(?s:.*)|"[^"]*"|'[^']*'|(?P<name>\s[^\s=<>"']{1,80}\s{0,8}=\s{0,8})[“”„‟″‘’](?P<value>[^“”„‟″‘’<>]*)[“”„‟″‘’]"""
)
_NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Element:
    """One XML element: its name, attributes, children, and `text`, which excludes the text of its children.

    `line` and `column` count from 1.
    """

    name: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    line: int = 0
    column: int = 0
    children: tuple[Element, ...] = ()


def parse_element(
    data: bytes,
    *,
    source: str = "",
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
    max_elements: int = MAX_ELEMENTS,
    lenient: bool = False,
) -> Element:
    """Return the root element of a document.

    `lenient` repairs typographic quotes first, see `repair_quotes`. Namespaces
    are not resolved: a prefix is part of the name.

    Raises ParseError, with line and column, if it is malformed or beyond a bound.
    """
    _check_encoding(data, source, max_bytes)
    text = data.decode()  # overrides the declared encoding
    builder = _Builder(source, max_depth, max_elements)
    parser = _Parser(builder)
    try:
        parser.feed(repair_quotes(text) if lenient else text)
        parser.close()
    except SAXParseException as error:
        raise _placed(error.getMessage(), source, *_place_of(error)) from None
    except DefusedXmlException:
        line, column = builder.place()
        raise _placed("DOCTYPE is not accepted", source, line, column) from None
    if builder.root is None:
        raise ParseError("no element found", source=source)
    return builder.root


class _Open(NamedTuple):
    """An element whose end has not been read yet."""

    name: str
    attributes: Mapping[str, str]
    line: int
    column: int
    pieces: list[str]
    children: list[Element]


class _Builder(ContentHandler):
    def __init__(self, source: str, max_depth: int, max_elements: int) -> None:
        super().__init__()
        self.root: Element | None = None
        self._places: Locator | None = None
        self._source = source
        self._max_depth = max_depth
        self._elements_left = max_elements
        self._open: list[_Open] = []

    def place(self) -> tuple[int, int]:
        """Return the parser's current line and column, both from 1."""
        if self._places is None:
            return 0, 0
        return self._places.getLineNumber() or 0, (self._places.getColumnNumber() or 0) + 1

    def setDocumentLocator(self, locator: Locator) -> None:  # noqa: N802  # the parser's name
        self._places = locator

    def start(self, name: str, attributes: Mapping[str, str], line: int, column: int) -> None:
        if len(self._open) >= self._max_depth:
            raise _placed(f"elements nest deeper than {self._max_depth}", self._source, line, column, name)
        self._elements_left -= 1
        if self._elements_left < 0:
            raise _placed("too many elements", self._source, line, column, name)
        self._open.append(_Open(name, attributes or _NO_ATTRIBUTES, line, column, [], []))

    def characters(self, content: str) -> None:
        self._open[-1].pieces.append(content)

    def end(self) -> None:
        done = self._open.pop()
        element = Element(
            done.name, done.attributes, "".join(done.pieces), done.line, done.column, tuple(done.children)
        )
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element


class _Parser(DefusedExpatParser):
    """Passes elements directly to a builder, without the objects that SAX creates for each."""

    def __init__(self, builder: _Builder) -> None:
        super().__init__(forbid_dtd=True)
        self._builder = builder
        self.setContentHandler(builder)
        builder.setDocumentLocator(ExpatLocator(self))

    def offset(self) -> int:
        """Return the byte offset of the markup being parsed."""
        return int(self._parser.CurrentByteIndex)  # type: ignore[attr-defined]  # expat's own

    def start_element(self, name: str, attrs: Mapping[str, str]) -> None:
        self._builder.start(name, attrs, self.getLineNumber() or 0, (self.getColumnNumber() or 0) + 1)

    def end_element(self, name: str) -> None:
        del name
        self._builder.end()


class XmlEvent(NamedTuple):
    """One event in a stream of documents: the start of a group, a complete child of a group, or its end.

    `kind` is "open" (start), "part" (child) or "close" (end) for a JobGroup, "root" for any other root
    element. `begin` is the offset of the element; `last_tag` is that of the tag which caused the event, or of
    the end of an empty element. Both are in UTF-8 bytes since the start of the feed.
    """

    kind: str
    element: Element
    begin: int
    last_tag: int


class ElementFeed:
    """Parses consecutive documents line by line, with only one child of a group at a time in memory.

    `line` is the number of the first line to be fed. With `in_group`, the lines continue a JobGroup that
    began earlier.
    """

    def __init__(self, *, line: int, in_group: bool) -> None:
        self._fed = 0
        before = "<_>\n"  # an element around all documents
        if in_group:
            before += f"<{GROUP}>\n"
        self._builder = _StreamBuilder(line - before.count("\n"), len(before))
        self._parser = _Parser(self._builder)
        self._builder.offset_now = self._parser.offset
        list(self.feed(before))

    def feed(self, line: str) -> Iterator[XmlEvent]:
        """Parse a line; yield its events. Raises ParseError for unacceptable XML; the feed then ends."""
        for start in range(0, len(line), CHUNK_CHARACTERS):  # all jobs may stand on one line
            yield from self._feed_chunk(line[start : start + CHUNK_CHARACTERS])

    def finish(self) -> Iterator[XmlEvent]:
        """Yield the remaining events at the end of the input.

        Raises ParseError if a document is unfinished.
        """
        self._builder.check_end()
        yield from self.feed("</_>")

    def _feed_chunk(self, chunk: str) -> Iterator[XmlEvent]:
        """Parse a part of a line; events before an error in it are still yielded."""
        self._fed += len(chunk)
        if self._fed > MAX_BYTES:
            raise _placed(f"larger than {MAX_BYTES} characters", "", *self._builder.place())
        fault: ParseError | None = None
        try:
            self._parser.feed(chunk)
        except SAXParseException as error:
            line, column = _place_of(error)
            fault = _placed(error.getMessage(), "", self._builder.shifted(line), column)
        except DefusedXmlException:
            fault = _placed("DOCTYPE is not accepted", "", *self._builder.place())
        except ParseError as error:  # of the builder
            fault = error
        events = self._builder.take_events()
        if events:
            self._fed = len(chunk)
        yield from events
        if fault is not None:
            raise fault


def repair_quotes(text: str) -> str:
    """Return a document in which typographic quotes around attribute values are replaced by straight ones.

    Word processors turn straight quotes into typographic ones. Quotes in comments and marked sections are
    kept.
    """
    return _MARKUP.sub(lambda markup: _ATTRIBUTE.sub(_straight, markup[0]), text)


def _straight(found: re.Match[str]) -> str:
    if found["value"] is None:
        return found[0]
    return found["name"] + '"' + found["value"].replace('"', "&quot;") + '"'


def format_element(element: Element, indent: str = "") -> str:
    """Return an element as indented XML without a final newline. Raises ParseError for invalid characters."""
    attributes = "".join(
        f" {name}={quoteattr(_checked(value, f'{element.name}@{name}'))}"
        for name, value in element.attributes.items()
    )
    start = f"{indent}<{element.name}{attributes}"
    if element.children:
        inner = "\n".join(format_element(child, indent + "  ") for child in element.children)
        return f"{start}>\n{inner}\n{indent}</{element.name}>"
    if not element.text:
        return f"{start}/>"
    text = escape(_checked(element.text, element.name), {"\r": "&#13;"})
    return f"{start}>{text}</{element.name}>"


def _checked(text: str, field: str) -> str:
    if NOT_XML.search(text):
        raise ParseError("has a character that XML does not allow", field=field, text=text)
    return text


class _StreamBuilder(_Builder):
    """Emits the parts of a stream as events instead of building one tree."""

    def __init__(self, line: int, first_byte: int) -> None:
        super().__init__("", MAX_DEPTH + 1, MAX_ELEMENTS)
        self._first_line = line
        self._first_byte = first_byte
        self._begun = [0, 0, 0]  # offsets of the open elements, outermost first
        self.offset_now: Callable[[], int] = int
        self._events: list[XmlEvent] = []

    def take_events(self) -> list[XmlEvent]:
        events, self._events = self._events, []
        return events

    def check_end(self) -> None:
        """Raise ParseError if the stream ends within a document."""
        if len(self._open) > 1:
            raise _placed("the document is not complete", "", *self.place())
        self._refuse_text("".join(self._open[-1].pieces))

    def _refuse_text(self, text: str) -> None:
        if text and not text.isspace():
            raise _placed("there is text between elements", "", *self.place(), self._open[-1].name)

    def shifted(self, line: int) -> int:
        """Convert a line number of the parser to one of the stream."""
        return line + self._first_line - 1

    def place(self) -> tuple[int, int]:
        line, column = super().place()
        return self.shifted(line), column

    def start(self, name: str, attributes: Mapping[str, str], line: int, column: int) -> None:
        super().start(name, attributes, self.shifted(line), column)
        depth = len(self._open)
        if depth <= 3:
            self._begun[depth - 1] = at = self.offset_now() - self._first_byte
        if depth == 2 and name == GROUP:
            group = self._open[1]
            element = Element(name, group.attributes, "", group.line, group.column)
            self._events.append(XmlEvent("open", element, at, at))

    def end(self) -> None:
        super().end()
        depth = len(self._open)
        if depth not in {1, 2} or (depth == 2 and self._open[1].name != GROUP):
            return
        element = self._open[-1].children.pop()
        kind = "part" if depth == 2 else "close" if element.name == GROUP else "root"
        self._events.append(XmlEvent(kind, element, self._begun[depth], self.offset_now() - self._first_byte))
        self._elements_left = MAX_ELEMENTS
        around = "".join(self._open[-1].pieces)
        self._open[-1].pieces.clear()  # do not accumulate blank lines
        self._refuse_text(around + element.text if kind == "close" else around)


def _check_encoding(data: bytes, source: str, max_bytes: int) -> None:
    if not data:
        raise ParseError("the document is empty", source=source)
    if len(data) > max_bytes:
        raise ParseError(f"larger than {max_bytes} bytes", source=source)
    try:
        data.decode("utf-8")
        bad = data.find(b"\0")  # the parser might take such a document for UTF-16
    except UnicodeDecodeError as error:
        bad = error.start
    if bad >= 0:
        line = data.count(b"\n", 0, bad) + 1
        column = bad - (data.rfind(b"\n", 0, bad) + 1) + 1
        raise _placed("not UTF-8 text", source, line, column)
    declared = _DECLARED_ENCODING.match(data)
    if declared is not None and declared[1].lower() not in _UTF8_NAMES:
        encoding = declared[1].decode("utf-8", "replace")
        raise ParseError("encoding is not UTF-8", source=source, line=1, field="encoding", text=encoding)


def _place_of(error: SAXParseException) -> tuple[int, int]:
    return error.getLineNumber() or 0, (error.getColumnNumber() or 0) + 1


def _placed(reason: str, source: str, line: int, column: int, name: str = "") -> ParseError:
    return ParseError(f"column {column}: {reason}", source=source, line=line, field=shown_name(name))


def reason_at(element: Element, reason: str) -> str:
    """Return the text of an error, `reason`, with the element's column in front if the column is known."""
    return f"column {element.column}: {reason}" if element.column else reason


def shown_name(name: str) -> str:
    """Return a name from a document in a form safe for messages: escaped and cut if long or odd."""
    return name if len(name) <= SHOWN_CHARACTERS and name.isprintable() else shown(name)
