"""Defines the machines of simulations, and parses their descriptions. Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from jobfeatures.errors import ConfigurationError, ParseError, shown
from jobfeatures.records.quantities import parse_binary_size

KIB: Final = 1024
MOST_NODES: Final = 100_000
MOST_OF_A_KIND: Final = 10**9  # processors or cards of a node, processors of a pool
_COUNT = re.compile(r"([0-9]{1,9})x(.+)\Z", re.ASCII | re.DOTALL)
_DEVICES = re.compile(r"([0-9]{1,10}) ?(cpu|gpu)s?\Z", re.ASCII)


class Node(NamedTuple):
    """Processors, memory (KiB) and GPUs of one node; memory None is unknown, and does not limit jobs."""

    cpus: int
    memory_kib: int | None = None
    gpus: int = 0


class Pool(NamedTuple):
    """A machine: nodes, in the order in which they are filled, or only a number of processors.

    `text` is the description from which it was parsed.
    """

    text: str  # as given
    processors: int
    nodes: tuple[Node, ...] = ()  # empty: only the number of processors matters


def one_pool(processors: int) -> Pool:
    """Return a machine of which only the number of processors counts."""
    return Pool(f"{processors} processors", processors)


def parse_processors(key: str, text: str) -> Pool:
    """Parse a number of processors, and return a machine with as many.

    Raises ConfigurationError, which names the setting `key`, for any other text.
    """
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 10 and 1 <= int(text) <= MOST_OF_A_KIND):
        raise ConfigurationError(key, f"not a number from 1 to {MOST_OF_A_KIND}: {shown(text)}")
    return one_pool(int(text))


def parse_nodes(key: str, text: str) -> Pool:
    """Parse the description of a machine of nodes, such as ``7x80cpu,504GB,4gpu;…`` (GB is 1024³ bytes).

    Raises ConfigurationError, which names the setting `key`, for a malformed description or too many nodes.
    """
    nodes: list[Node] = []
    kinds = [kind.strip() for kind in text.split(";")]
    for kind in kinds:
        match = _COUNT.match(kind)
        count = int(match[1]) if match is not None else 0
        if match is None or not count:
            raise ConfigurationError(key, f"not a kind of node, such as 7x80cpu,504GB,4gpu: {shown(kind)}")
        if len(nodes) + count > MOST_NODES:
            raise ConfigurationError(key, f"more than {MOST_NODES} nodes")
        nodes += [_parse_node(key, kind, match[2])] * count
    return Pool("; ".join(kinds), sum(node.cpus for node in nodes), tuple(nodes))


def _parse_node(key: str, kind: str, text: str) -> Node:
    found: dict[str, int] = {}
    for part in text.split(","):
        word = part.strip()
        devices = _DEVICES.match(word)
        if devices is not None:
            name, value = devices[2], int(devices[1])
        else:
            name, value = "memory", _parse_memory(key, word)
        if name in found:
            raise ConfigurationError(key, f"has {name} twice: {shown(kind)}")
        if name != "memory" and value > MOST_OF_A_KIND:
            raise ConfigurationError(key, f"more than {MOST_OF_A_KIND} {name}: {shown(kind)}")
        found[name] = value
    if not found.get("cpu"):
        raise ConfigurationError(key, f"a node without processors: {shown(kind)}")
    return Node(found["cpu"], found.get("memory"), found.get("gpu", 0))


def _parse_memory(key: str, word: str) -> int:
    if not word[-1:].isalpha():
        raise ConfigurationError(
            key, f"unit is missing: use cpu, gpu, or a size such as 504GB: {shown(word)}"
        )
    try:
        return parse_binary_size(word.removesuffix("iB")) // KIB
    except ParseError:
        raise ConfigurationError(key, f"neither cpu nor gpu nor a size: {shown(word)}") from None
