"""Converts texts of SSS elements and attributes to bounded values, and back. Pure."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final
from urllib.parse import quote

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.vocabulary import FORMS, Type, type_of, words_of
from jobfeatures.formats.sss.xml import NOT_XML, Element, reason_at
from jobfeatures.records.quantities import MAX_SECS

MAX_NUMBER: Final = MAX_SECS  # 63 bits
MAX_ID_CHARACTERS: Final = 180  # percent-encoded, as a folder name
MAX_TEXT_CHARACTERS: Final = 1024
MAX_LONG_CHARACTERS: Final = 2**17  # of arguments and variables, as Linux has it: execve(2), MAX_ARG_STRLEN

BLANKS: Final = " \t\r\n"  # XML whitespace: nothing else is stripped from numbers and texts

Value = str | int | bool | Decimal | tuple[str, ...] | tuple[tuple[int, ...], ...]
MAX_DIGITS: Final = 32
MAX_POWER: Final = 99
_MANY_BLANKS = re.compile(f"[{BLANKS}]+")
_FORMS: Final = {kind: re.compile(form) for kind, form in FORMS.items()}


def error_at(element: Element, reason: str, text: str = "") -> ParseError:
    """Return an error that names an element, its line and its column."""
    return ParseError(reason_at(element, reason), line=element.line, field=element.name, text=text)


def refuse_text(element: Element) -> None:
    """Raise ParseError if an element that may hold only elements also holds text."""
    if text := element.text.strip(BLANKS):
        raise error_at(element, "there is text between elements", text)


def checked_id(text: str) -> str:
    """Return `text` if it can be a job id: printable, without blanks, 1 to 180 characters.

    An id becomes the name of a folder, so a non-ASCII character counts with its percent-encoded length.
    Raises ParseError if `text` cannot be an id.
    """
    reason = ""
    if not text:
        reason = "empty"
    elif " " in text or not text.isprintable():
        reason = "blank or unprintable character in a job id"
    elif len(quote(text, safe="")) > MAX_ID_CHARACTERS:
        reason = f"longer than {MAX_ID_CHARACTERS} characters"
    if reason:
        raise ParseError(reason, field="Id", text=text)
    return text


def checked_text(text: str, field: str) -> str:
    """Return `text` if it can be the value of a property of type String; raises ParseError otherwise."""
    if len(text) > MAX_TEXT_CHARACTERS:
        raise ParseError(f"longer than {MAX_TEXT_CHARACTERS} characters", field=field, text=text)
    if not text.isprintable():
        raise ParseError("has an unprintable character", field=field, text=text)
    return text


def parse_value(kind: Type, text: str) -> Value:
    """Parse the content of an element, or the value of an attribute, of the type `kind`.

    Surrounding blanks are stripped unless the type is TEXT. Raises ParseError for a value that is of another
    type, too long, beyond 63 bits, or not allowed in XML.
    """
    if kind is not Type.TEXT:
        text = text.strip(BLANKS)
    if len(text) > MAX_LONG_CHARACTERS:
        raise ParseError(f"longer than {MAX_LONG_CHARACTERS} characters", text=text)
    if kind in _FORMS:
        if not _FORMS[kind].fullmatch(_MANY_BLANKS.sub(" ", text)):
            raise ParseError(f"must be of type {kind.value}", text=text or "(empty)")
        return _number(kind, text)
    if NOT_XML.search(text):
        raise ParseError("has a character that XML does not allow", text=text)
    return split_words(text) if kind is Type.LIST else text


def _number(kind: Type, text: str) -> Value:
    if kind is Type.BOOLEAN:
        return text.lower() == "true"
    if kind is Type.GEOMETRY:
        sets = text.replace("}", "").split("{")[1:]
        return tuple(tuple(int(number) for number in each.split(",")) for each in sets)
    if kind in {Type.FLOAT, Type.AMOUNT}:
        value = Decimal(text)
        if len(value.as_tuple().digits) > MAX_DIGITS or abs(value.adjusted()) > MAX_POWER:
            raise ParseError("the number is too large, too small or too long", text=text)
        return value
    if abs(number := int(text)) > MAX_NUMBER:
        raise ParseError("number too large", text=text)
    return number


def format_value(value: Value) -> str:
    """Return a value as the text that `parse_value` reads back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        sets = [f"{{{','.join(map(str, each))}}}" for each in value if isinstance(each, tuple)]
        return "".join(sets) or ",".join(each for each in value if isinstance(each, str))
    return str(value)


def split_words(text: str) -> tuple[str, ...]:
    """Split a comma-separated list into its words; a blank text gives none."""
    return tuple(word.strip(BLANKS) for word in text.split(",")) if text.strip(BLANKS) else ()


def is_understood(element: str, attribute: str, value: str) -> bool:
    """Return whether the vocabulary allows this value of an element's attribute."""
    words, kind = words_of(element, attribute), type_of(attribute)
    if words is not None:
        return words.issuperset(split_words(value)) if kind is Type.LIST else value in words
    return kind not in _FORMS or _FORMS[kind].fullmatch(value.strip(BLANKS)) is not None
