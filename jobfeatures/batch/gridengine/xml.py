"""Parse XML as ``qstat -xml`` and ``qhost -xml`` print it. Pure; safe with text from users.

The output is not always valid XML. Some versions write nameless elements (``<>``
and ``</>``, about an unknown job), job names may contain control characters or
bytes in any encoding, and a wrapper may print text before the document.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from xml.etree import ElementTree  # for the type: defusedxml parses

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import ParseError as XmlError
from defusedxml.ElementTree import fromstring

from jobfeatures.errors import ParseError

Element = ElementTree.Element
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_DECLARATION = re.compile(r"<\?xml[^>]*\?>")


def parse_xml(data: bytes, tags: Collection[str], about: str, *, source: str) -> Element:
    """Return an answer's root element, which must have one of `tags`; `about` names its subject for errors.

    Text before the declaration is dropped, as are characters that XML does not
    allow; bytes that are not UTF-8 are decoded as Latin-1. Raises ParseError, also
    for document types and entities, which no answer has.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    declaration = _DECLARATION.search(text)
    if declaration is None:
        raise ParseError("no XML", source=source, text=text.strip())
    body = _FORBIDDEN.sub("", text[declaration.end() :])
    body = body.replace("<>", "<element>").replace("</>", "</element>")
    try:
        root: Element = fromstring(body, forbid_dtd=True)
    except XmlError as error:
        line = getattr(error, "position", (0, 0))[0]
        raise ParseError(f"broken XML: {error}", source=source, line=line) from None
    except DefusedXmlException:
        raise ParseError("document type declarations are not accepted", source=source) from None
    if root.tag not in tags:
        raise ParseError(f"not an answer about {about}", source=source, text=root.tag)
    return root


def text_of(element: Element, name: str) -> str | None:
    """Return the text of the first child with this name; None if absent or empty."""
    child = element.find(name)
    return None if child is None else (child.text or "").strip() or None
