"""Expands compressed host lists such as ``c[1-3,08-10]-[2-4]``, and compresses lists of names.

Lists are expanded by Slurm's rule, a Cartesian product, and compressed by ClusterShell. Text outside the
brackets is literal, digits included: ``n1[8-11]`` is n18, n19, n110 and n111. (ClusterShell would make digits
before a bracket part of the range: n18 to n111.)
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jobfeatures.errors import ParseError

MAX_NODES = 100_000
MAX_NAME_CHARACTERS = 255
MAX_TEXT_CHARACTERS = 2**20
NO_NODES = frozenset({"", "(null)", "None assigned"})

_NAME = re.compile(r"[A-Za-z0-9._-]+\Z")
_RANGE = r"[0-9]{1,12}(?:-[0-9]{1,12})?"
_BRACKET = re.compile(rf"\[({_RANGE}(?:,{_RANGE})*)\]")
_PIECE = re.compile(rf"(?:[A-Za-z0-9._-]|\[{_RANGE}(?:,{_RANGE})*\])+")


def expand_nodes(text: str) -> tuple[str, ...]:
    """Return the node names in a compressed list, without repetitions, with zero padding.

    Source: slurm.conf(5) and ``scontrol show hostnames``; PBS and LSF print a plain subset of this form.
    Names keep the list's order, the last bracket's numbers vary fastest, and a range is padded to the width
    of its first number. Text after the last bracket, which Slurm does not allow, is accepted. "", ``(null)``
    and ``None assigned`` give ().

    Raises ParseError for anything else, and for more than 100,000 names, which are counted before they are
    generated.
    """
    if text in NO_NODES:
        return ()
    if "[" not in text and "," not in text:  # the usual case
        return (_checked_name(text),)
    pieces = [_parse_piece(piece) for piece in _split(text)]
    if sum(math.prod(map(_count, piece)) for piece in pieces) > MAX_NODES:
        raise ParseError(f"more than {MAX_NODES} nodes", field="node list", text=text)
    return tuple(dict.fromkeys("".join(parts) for piece in pieces for parts in _product(piece)))


def fold_nodes(names: Iterable[str]) -> str:
    """Compress names into one sorted list; "" without names. Raises ParseError for an invalid name."""
    checked = [_checked_name(name) for name in names]
    if len(checked) < 2:
        return "".join(checked)
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    return str(NodeSet.fromlist(checked, resolver=RESOLVER_NOGROUP))


def fold_ranges(names: Iterable[str]) -> tuple[str, ...]:
    """Compress names into ranges such as ``a1`` and ``c[1-3,5]``. Raises ParseError for an invalid name."""
    text = fold_nodes(names)
    return tuple(_split(text)) if text else ()


def _checked_name(name: str) -> str:
    if len(name) > MAX_NAME_CHARACTERS or not _NAME.match(name):
        raise ParseError("not a node name", field="node list", text=name)
    return name


def _split(text: str) -> Iterator[str]:
    if len(text) > MAX_TEXT_CHARACTERS:
        raise ParseError(f"longer than {MAX_TEXT_CHARACTERS} characters", field="node list", text=text)
    position = 0
    while True:
        match = _PIECE.match(text, position)
        if match is None:
            raise ParseError("not a node list", field="node list", text=text[position:] or text)
        yield match.group()
        if match.end() == len(text):
            return
        if text[match.end()] != ",":
            raise ParseError("not a node list", field="node list", text=text[match.end() :])
        position = match.end() + 1


class _Range(NamedTuple):
    low: int
    high: int
    width: int

    def __str__(self) -> str:
        return f"{self.high:0{self.width}d}"


def _parse_piece(piece: str) -> list[str | list[_Range]]:
    """Return literal texts and bracket ranges, alternately, of a piece without commas outside brackets."""
    parts: list[str | list[_Range]] = list(_BRACKET.split(piece))
    parts[1::2] = [[_parse_range(part) for part in str(bracket).split(",")] for bracket in parts[1::2]]
    longest = sum(
        len(part) if isinstance(part, str) else max(len(str(each)) for each in part) for part in parts
    )
    if not 0 < longest <= MAX_NAME_CHARACTERS:
        raise ParseError("not a node name", field="node list", text=piece)
    return parts


def _parse_range(text: str) -> _Range:
    low, _, high = text.partition("-")
    found = _Range(int(low), int(high or low), len(low))
    if found.high < found.low:
        raise ParseError("the range ends before it begins", field="node list", text=text)
    return found


def _count(part: str | list[_Range]) -> int:
    return 1 if isinstance(part, str) else sum(each.high - each.low + 1 for each in part)


def _product(piece: list[str | list[_Range]]) -> Iterator[tuple[str, ...]]:
    return itertools.product(
        *(
            (part,)
            if isinstance(part, str)
            else [f"{n:0{each.width}d}" for each in part for n in range(each.low, each.high + 1)]
            for part in piece
        )
    )


def is_same_host(one: str, other: str) -> bool:
    """Return whether two names are of the same host, ignoring case.

    A name without domain matches any domain.
    """
    one, other = one.lower(), other.lower()
    if "." in one and "." in other:
        return one == other
    return one.partition(".")[0] == other.partition(".")[0]
