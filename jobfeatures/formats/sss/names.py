"""Features and nodes that one expression describes: lists, ranges and patterns.

Source: SSS Job Object Specification 3.1.0, section 5.1 (Feature, Node). Ranges are expanded within the bounds
of `nodelist`. A pattern has to match a name as a whole. Patterns come from strangers: they are run by RE2,
whose time is linear in the text; what of Perl it does not have (references back, looking around) is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.objects import Property
from jobfeatures.formats.sss.values import BLANKS
from jobfeatures.nodelist import expand_nodes

MAX_PATTERN_CHARACTERS: Final = 4096
PATTERN_BYTES: Final = 2**20  # that RE2 may take for one


def expand_names(each: Property) -> tuple[str, ...]:
    """Return the names that a Feature or Node lists, each once. Raises ParseError: a pattern, too many."""
    aggregation = each.text("aggregation")
    text = str(each.value)
    if aggregation == "Pattern":
        raise each.error("a pattern lists no names", text)
    if aggregation == "Range":
        try:
            return expand_nodes(text)
        except ParseError as error:
            raise each.error(error.reason, error.text) from None
    parts = text.split(each.text("delimiter") or ",") if aggregation == "List" else [text]
    return tuple(dict.fromkeys(filter(None, (part.strip(BLANKS) for part in parts))))


def make_matcher(each: Property) -> Callable[[str], bool]:
    """Return a function that says whether a name is one of those described.

    A value of any property is a pattern with op Match. Raises ParseError as
    `expand_names` does, and for a pattern that cannot be used.
    """
    if each.text("aggregation") == "Pattern" or each.text("op") == "Match":
        return _pattern(each)
    return frozenset(expand_names(each)).__contains__


def _pattern(each: Property) -> Callable[[str], bool]:
    text = str(each.value)
    try:
        import re2  # an extra: few need it
    except ImportError:
        raise each.error("patterns need the package google-re2 (extra: sss)") from None
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise each.error(f"pattern longer than {MAX_PATTERN_CHARACTERS} characters", text)
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES
    try:
        pattern = re2.compile(text, options)
    except re2.error:
        raise each.error("not a pattern that can be used", text) from None
    return lambda name: pattern.fullmatch(name.encode("utf-8", "replace").decode()) is not None
