"""Makes HTML that is safe against injection: all text is escaped unless it was made here. Pure.

Users choose job names freely, so they may contain anything: markup, line breaks, characters that reverse the
text after them, ten thousand letters.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import cache

MAX_SHOWN = 48  # characters of a name
MAX_TITLE = 200  # characters of a shortened name's tooltip

# Control characters, direction marks and overrides, zero-width characters, line separators, surrogates.
_UNSHOWABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffc\ud800-\udfff]"
)
_VOID = frozenset({"meta", "link", "input", "br"})

Attribute = str | int | float | bool | None


class Html(str):
    """Text that is safe HTML. Any other text is escaped when it is put into an element."""

    __slots__ = ()


Child = str | None


def tag(element: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return an element: children that are not `Html` are escaped, None is skipped.

    ``class_`` becomes class, underscores in names become hyphens; True gives the bare
    name, False and None omit the attribute.
    """
    text = "".join(_attribute(each, value) for each, value in attributes.items())
    if element in _VOID:
        return Html(f"<{element}{text}>")
    return Html(f"<{element}{text}>{join(*children)}</{element}>")


def join(*children: Child) -> Html:
    """Return children concatenated, escaped unless they are `Html`."""
    return Html("".join(each if isinstance(each, Html) else escape(each) for each in children if each))


def listed(children: Sequence[Child], separator: str = ", ", most: int | None = None) -> Html:
    """Return children joined by separators; at most `most` of them, and then how many are left out."""
    shown = [join(separator, each) if number else join(each) for number, each in enumerate(children[:most])]
    more = len(children) - len(shown)
    return join(*shown, f" and {more:,} more" if more else None)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    return _attribute_name(name) if value is True else f'{_attribute_name(name)}="{escape(str(value))}"'


@cache  # names come from our code: few
def _attribute_name(name: str) -> str:
    return " " + name.rstrip("_").replace("_", "-")


def escape(text: str) -> str:
    """Return text escaped for content and attributes; unprintable characters become U+FFFD."""
    if text.isalnum() and text.isascii():
        return text
    if not (text.isascii() and text.isprintable()):
        text = _UNSHOWABLE.sub("\ufffd", text)
    return html.escape(text)


def shorten(text: str, limit: int = MAX_SHOWN) -> str:
    """Return at most `limit` characters, the last an ellipsis if the text was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def name(text: str, limit: int = MAX_SHOWN) -> Html:
    """Return a user-chosen name, shortened; its text direction does not affect what surrounds it."""
    title = shorten(text, MAX_TITLE) if len(text) > limit else None
    return tag("bdi", shorten(text, limit), title=title)
