"""ClassAds as XML, as the commands print them with ``-xml``: no entity is expanded, nothing is fetched.

Source: HTCondor's ``classads.dtd``. ``<classads>`` holds ``<c>``, an ad, which
holds ``<a n="Name">``, an attribute with one value: ``<i>`` integer, ``<r>``
real, ``<s>`` string, ``<b v="t"/>`` boolean, ``<un/>`` undefined, ``<er/>``
error, ``<e>`` expression, and lists, ads and times, which stay unevaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from xml.sax import SAXParseException  # types only: the parser itself is defusedxml's
from xml.sax.handler import ContentHandler, feature_external_ges, feature_external_pes
from xml.sax.xmlreader import AttributesImpl

from defusedxml.common import DefusedXmlException
from defusedxml.expatreader import DefusedExpatParser

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.classad.ad import ClassAd, Expression, Special, Value
from jobfeatures.formats.classad.longform import parse_value

_OTHERS: Final[dict[str, Value]] = {
    "un": Special.UNDEFINED,
    "er": Special.ERROR,
    "l": Expression("{}"),  # nobody here asks what is in a list or an ad
    "c": Expression("[]"),
}
MAX_DEPTH: Final = 64
MAX_TEXT_CHARACTERS: Final = 2**22  # of one ad


def parse_xml_ads(text: str, *, source: str) -> list[ClassAd]:
    """Return the ads of a document. Raises ParseError."""
    ads = []
    for each in read_xml_ads([text], source=source):
        if isinstance(each, Rejected):
            raise ParseError(each.reason, source=source, line=each.line)
        ads.append(each)
    return ads


def read_xml_ads(lines: Iterable[str], *, source: str) -> Iterator[ClassAd | Rejected]:
    """Return the ads as the lines come; what is not XML ends them."""
    handler = _Handler()
    # The document type that the commands declare is a file elsewhere: it may be named, and is not fetched.
    parser = DefusedExpatParser(forbid_dtd=False, forbid_entities=True, forbid_external=False)
    parser.setFeature(feature_external_ges, False)
    parser.setFeature(feature_external_pes, False)
    parser.setContentHandler(handler)
    try:
        for line in lines:
            parser.feed(line)
            yield from handler.take()
        parser.close()
    except SAXParseException as error:
        yield from handler.take()
        yield Rejected(source, f"not XML: {error.getMessage()}", error.getLineNumber() or 0)
    except (DefusedXmlException, ParseError) as error:
        yield from handler.take()
        reason = error.reason if isinstance(error, ParseError) else type(error).__name__
        yield Rejected(source, f"refused XML: {reason}")


class _Handler(ContentHandler):
    """Collects ads. What is nested below a value is text, and kept from meaning anything."""

    def __init__(self) -> None:
        super().__init__()
        self._ads: list[ClassAd] = []
        self._path: list[str] = []
        self._values: dict[str, Value] = {}
        self._name = ""
        self._value: Value | None = None
        self._text: list[str] = []
        self._size = 0

    def take(self) -> list[ClassAd]:
        """Return the ads that are whole, and forget them."""
        ads, self._ads = self._ads, []
        return ads

    def startElement(self, name: str, attrs: AttributesImpl) -> None:  # noqa: N802  # of the protocol
        self._path.append(name)
        depth = len(self._path)
        if depth > MAX_DEPTH:
            raise ParseError("nested too deeply")
        if depth == 2:
            self._values, self._size = {}, 0
        elif depth == 3:
            self._name, self._value = attrs.get("n", ""), None
        elif depth == 4:
            self._text = []
            if name == "b":
                self._value = {"t": True, "f": False}.get(attrs.get("v", ""), Special.ERROR)

    def characters(self, content: str) -> None:
        if len(self._path) == 4:
            self._size += len(content)
            if self._size > MAX_TEXT_CHARACTERS:
                raise ParseError(f"ad has more than {MAX_TEXT_CHARACTERS} characters")
            self._text.append(content)

    def endElement(self, name: str) -> None:  # noqa: N802
        depth = len(self._path)
        self._path.pop()
        if depth == 4 and self._value is None:
            self._value = _value(name, "".join(self._text))
        elif depth == 3 and name == "a" and self._name and self._value is not None:
            self._values[self._name.lower()] = self._value
        elif depth == 2 and name == "c":
            self._ads.append(ClassAd(self._values))


def _value(kind: str, text: str) -> Value:
    if kind == "s":
        return text
    if kind in {"i", "r"}:
        number = parse_value(text)
        return number if isinstance(number, int | float) else Expression(text)
    return _OTHERS.get(kind, Expression(text))
