"""Contents of SSS elements → values, within bounds: pure. Used for reading and for writing."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Final, TypeVar
from urllib.parse import quote

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.vocabulary import FORMS, UNITS, Type, type_of, words_of
from jobfeatures.formats.sss.xml import NOT_XML, Element, reason_at
from jobfeatures.quantities import MAX_SECS, parse_count

MAX_NUMBER: Final = MAX_SECS  # 63 bits
MAX_ID_CHARACTERS: Final = 180  # percent-encoded: it names a folder
MAX_TEXT_CHARACTERS: Final = 1024
MAX_LONG_CHARACTERS: Final = 2**17  # of arguments and variables, as Linux has it: execve(2), MAX_ARG_STRLEN
MIN_PROCESS: Final = 2  # 0 is the kernel's, 1 is init: no job's
MAX_PROCESS: Final = 2**22  # proc(5), /proc/sys/kernel/pid_max

BLANKS: Final = " \t\r\n"  # those of XML: no others are stripped off numbers and texts

T = TypeVar("T")
Value = str | int | bool | Decimal | tuple[str, ...] | tuple[tuple[int, ...], ...]
MAX_DIGITS: Final = 32
MAX_POWER: Final = 99
_MANY_BLANKS = re.compile(f"[{BLANKS}]+")
_FORMS: Final = {kind: re.compile(form) for kind, form in FORMS.items()}


def error_at(element: Element, reason: str, text: str = "") -> ParseError:
    """Return an error that names an element, its line and its column."""
    return ParseError(reason_at(element, reason), line=element.line, field=element.name, text=text)


def read_id(element: Element) -> str:
    """Return a job id; raises ParseError as `checked_id` does."""
    return _placed(element, checked_id, element.text.strip())


def checked_id(text: str) -> str:
    """Return `text` if it can be a job id: printable, without blanks, 1 to 180 characters.

    It names a folder, where characters outside ASCII count as they are encoded.

    Raises ParseError otherwise.
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


def read_text(element: Element) -> str | None:
    """Return a text without the blanks around it, None for an empty one.

    Raises ParseError for unprintable characters and for more than 1,024 characters.
    """
    return read_name(element, element.text.strip()) or None


def read_name(element: Element, text: str) -> str:
    """Return a part of an element's text; raises ParseError as `read_text` does."""
    return _placed(element, partial(checked_text, field=element.name), text)


def checked_text(text: str, field: str) -> str:
    """Return `text` if it can be the value of a property of type String; raises ParseError otherwise."""
    if len(text) > MAX_TEXT_CHARACTERS:
        raise ParseError(f"longer than {MAX_TEXT_CHARACTERS} characters", field=field, text=text)
    if not text.isprintable():
        raise ParseError("unprintable character", field=field, text=text)
    return text


def read_count(element: Element) -> int:
    """Return a non-negative integer of at most 63 bits; raises ParseError for anything else."""
    return _placed(element, parse_count, element.text.strip())


def read_integer(element: Element) -> int:
    """Return an integer of at most 63 bits and a sign; raises ParseError."""
    return int(str(_placed(element, partial(parse_value, Type.INTEGER), element.text)))


def read_number(element: Element) -> int:
    """Return an amount without units, rounded down; raises ParseError."""
    return _scaled(element, 1)


def read_words(element: Element) -> tuple[str, ...]:
    """Return the words of a list, each printable; raises ParseError."""
    return tuple(read_name(element, word) for word in split_words(element.text))


def read_duration(element: Element) -> int:
    """Return seconds; raises ParseError."""
    units, default = UNITS["Duration"]
    return _bounded(element, read_count(element) * units[element.attributes.get("units", default)])


def read_size(element: Element) -> int:
    """Return bytes, rounded down, of a Memory, Swap or Disk in its units; raises ParseError."""
    units, default = UNITS[element.name]
    return _scaled(element, units[element.attributes.get("units", default)])


def read_limit_size(element: Element) -> int:
    """Return bytes, rounded down, of a ResourceLimit in megabytes, the default unit of Memory and Disk."""
    return _scaled(element, 2**20)


def read_process(element: Element) -> int:
    """Return the id of a process or a session that can be a job's; raises ParseError."""
    number = read_count(element)
    if not MIN_PROCESS <= number <= MAX_PROCESS:
        raise error_at(element, "not the id of a job's process", element.text.strip())
    return number


def _placed(element: Element, read: Callable[[str], T], text: str) -> T:
    try:
        return read(text)
    except ParseError as error:
        raise error_at(element, error.reason, text or "(empty)") from None


def _scaled(element: Element, scale: int) -> int:
    """Return a Float times `scale`, computed exactly and rounded down.

    Signs, INF and NaN, which the type allows, are no amounts and are refused.
    """
    text = element.text.strip()
    if not _FORMS[Type.AMOUNT].fullmatch(text):
        raise error_at(element, "not a non-negative number", text or "(empty)")
    if text.isdigit():  # the usual case
        return _bounded(element, int(text) * scale)
    return _bounded(element, int(Fraction(_placed(element, _decimal, text)) * scale))


def _bounded(element: Element, value: int) -> int:
    if value > MAX_NUMBER:
        raise error_at(element, "number too large", element.text.strip())
    return value


def parse_value(kind: Type, text: str) -> Value:
    """Return a content or an attribute's value as its type has it.

    Blanks around it are left out unless it is TEXT. Raises ParseError for what
    is not of the type, beyond 63 bits, too long, or not allowed in XML.
    """
    if kind is not Type.TEXT:
        text = text.strip(BLANKS)
    if len(text) > MAX_LONG_CHARACTERS:
        raise ParseError(f"longer than {MAX_LONG_CHARACTERS} characters", text=text)
    if kind in _FORMS:
        if not _FORMS[kind].fullmatch(_MANY_BLANKS.sub(" ", text)):
            raise ParseError(f"not of type {kind.value}", text=text or "(empty)")
        return _number(kind, text)
    if NOT_XML.search(text):
        raise ParseError("character that XML does not allow", text=text)
    return split_words(text) if kind is Type.LIST else text


def _number(kind: Type, text: str) -> Value:
    if kind is Type.BOOLEAN:
        return text.lower() == "true"
    if kind is Type.GEOMETRY:
        sets = text.replace("}", "").split("{")[1:]
        return tuple(tuple(int(number) for number in each.split(",")) for each in sets)
    if kind in {Type.FLOAT, Type.AMOUNT}:
        return _decimal(text)
    if abs(number := int(text)) > MAX_NUMBER:
        raise ParseError("number too large", text=text)
    return number


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if len(value.as_tuple().digits) > MAX_DIGITS or abs(value.adjusted()) > MAX_POWER:
        raise ParseError("number too large, too small or too long", text=text)
    return value


def format_value(value: Value) -> str:
    """Return a value as `parse_value` reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        sets = [f"{{{','.join(map(str, each))}}}" for each in value if isinstance(each, tuple)]
        return "".join(sets) or ",".join(each for each in value if isinstance(each, str))
    return str(value)


def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a list with commas between them; an empty text has none."""
    return tuple(word.strip(BLANKS) for word in text.split(",")) if text.strip(BLANKS) else ()


def is_understood(element: str, attribute: str, value: str) -> bool:
    """Tell whether the vocabulary has a meaning for an attribute's value."""
    words, kind = words_of(element, attribute), type_of(attribute)
    if words is not None:
        return words.issuperset(split_words(value)) if kind is Type.LIST else value in words
    return kind not in _FORMS or _FORMS[kind].fullmatch(value.strip(BLANKS)) is not None
