"""Compressed host lists: ``c[1-3,08-10]-[2-4]`` to names and back, by ClusterShell, within bounds.

ClusterShell knows groups (``@``) and set operators (``!``, ``&``, ``^``) and reads
configuration files for them; none of that is part of a batch system's host
list, so only names, commas and numeric brackets are let through to it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

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
    """Return the node names of a compressed list, without repetitions, zero padding kept.

    Source: slurm.conf(5) and ``scontrol show hostnames``; PBS and LSF print the
    plain subset. Parts between commas keep their order; the numbers of one
    bracket come out ascending, as Slurm writes them. "", ``(null)`` and
    ``None assigned`` are ().

    Raises ParseError for anything else, and for more than 100,000 names,
    which is found out before they are made.
    """
    if text in NO_NODES:
        return ()
    if "[" not in text and "," not in text:  # the usual case needs no library
        return (_checked_name(text),)
    pieces = list(_split(text))
    if sum(_count_names(piece, text) for piece in pieces) > MAX_NODES:
        raise ParseError(f"more than {MAX_NODES} nodes", field="node list", text=text)
    names: dict[str, None] = {}
    for piece in pieces:
        names.update(dict.fromkeys(_expand_brackets(piece) if "[" in piece else (_checked_name(piece),)))
    return tuple(names)


def fold_nodes(names: Iterable[str]) -> str:
    """Return node names as one compressed list, sorted; no names give "".

    Raises ParseError for a name that is not letters, digits, dots, dashes and underscores.
    """
    checked = [_checked_name(name) for name in names]
    if len(checked) < 2:
        return "".join(checked)
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    return str(NodeSet.fromlist(checked, resolver=RESOLVER_NOGROUP))


def fold_ranges(names: Iterable[str]) -> tuple[str, ...]:
    """Return node names as compressed ranges without commas between them: ``a1``, ``c[1-3,5]``.

    Raises ParseError as `fold_nodes` does.
    """
    text = fold_nodes(names)
    return tuple(_split(text)) if text else ()


def _checked_name(name: str) -> str:
    if len(name) > MAX_NAME_CHARACTERS or not _NAME.match(name):
        raise ParseError("not a node name", field="node list", text=name)
    return name


def _split(text: str) -> Iterator[str]:
    """Cut a list at the commas outside brackets."""
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


def _count_names(piece: str, text: str) -> int:
    if len(_BRACKET.sub("", piece)) > MAX_NAME_CHARACTERS:
        raise ParseError("not a node name", field="node list", text=piece)
    counts = []
    for bracket in _BRACKET.findall(piece):
        count = 0
        for part in bracket.split(","):
            low, _, high = part.partition("-")
            if high and int(high) < int(low):
                raise ParseError("range runs backwards", field="node list", text=part)
            count += int(high or low) - int(low) + 1
        counts.append(count)
        if math.prod(counts) > MAX_NODES:
            raise ParseError(f"more than {MAX_NODES} nodes", field="node list", text=text)
    return math.prod(counts)


def _expand_brackets(piece: str) -> Iterator[str]:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        yield from NodeSet(piece, resolver=RESOLVER_NOGROUP)
    except NodeSetException as error:
        raise ParseError(f"not a node list ({error})", field="node list", text=piece) from error
