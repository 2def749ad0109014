"""Interprets texts that name several features or nodes: as a list, as ranges or as a pattern.

Source: SSS Job Object Specification 3.1.0, section 5.1 (Feature, Node). Ranges are expanded within the bounds
of `nodelist`. A pattern has to match an entire name. Patterns are untrusted: RE2 runs them in time linear in
the text; Perl features that it lacks (backreferences, lookaround) are rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.objects import Property
from jobfeatures.formats.sss.values import BLANKS
from jobfeatures.records.nodelist import expand_nodes

MAX_PATTERN_CHARACTERS: Final = 4096
PATTERN_BYTES: Final = 2**20  # of memory that RE2 may use for one pattern


def expand_names(each: Property) -> tuple[str, ...]:
    """Return the distinct names that a Feature or Node property lists.

    Raises ParseError for a pattern, and for too many names.
    """
    aggregation = each.text("aggregation")
    text = str(each.value)
    if aggregation == "Pattern":
        raise each.error("must be a list of names, not a pattern", text)
    if aggregation == "Range":
        try:
            return expand_nodes(text)
        except ParseError as error:
            raise each.error(error.reason, error.text) from None
    parts = text.split(each.text("delimiter") or ",") if aggregation == "List" else [text]
    return tuple(dict.fromkeys(filter(None, (part.strip(BLANKS) for part in parts))))


def make_matcher(each: Property) -> Callable[[str], bool]:
    """Return a function that says whether a name is among those that a Feature or Node property describes.

    The property's value is a pattern if its op is Match or its aggregation is Pattern. Else it is one name,
    or a list or range of names. Raises ParseError for an invalid pattern, or for too many names.
    """
    if each.text("aggregation") == "Pattern" or each.text("op") == "Match":
        return _pattern(each)
    return frozenset(expand_names(each)).__contains__


def _pattern(each: Property) -> Callable[[str], bool]:
    text = str(each.value)
    try:
        import re2  # an optional dependency
    except ImportError:
        raise each.error("patterns need google-re2: pip install 'jobfeatures-exporter[sss]'") from None
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise each.error(f"the pattern is longer than {MAX_PATTERN_CHARACTERS} characters", text)
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES
    try:
        pattern = re2.compile(text, options)
    except re2.error:
        raise each.error("not a valid pattern", text) from None
    return lambda name: pattern.fullmatch(name.encode("utf-8", "replace").decode()) is not None
