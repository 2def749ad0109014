"""The page on behaviour that nobody would guess, from its table: docs/behaviour.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

TABLE = Path(__file__).parent / "behaviour.toml"
NEEDED = ("system", "version", "guess", "happens", "product", "test", "source")
MORE = ("next", "package", "check")
SOURCES = ("run", "capture", "document")
NEXT = ("pypi", "sid", "sonar")
HEAD = """# What nobody would guess

<!-- Written by docs/generate.py from docs/behaviour.toml. -->

Behaviour of others that touches a figure, a label, a message or a cost of ours, and the test that shows
what is done about it. Seen in a run beside the real thing, in a captured answer or in a public document.
`.ci/run next` tries lines marked → with what PyPI and Debian's sid have today. More, with scripts:
[findings](../findings/README.md).
"""
COLUMNS = ("version", "one would guess", "what happens", "what is done", "test", "seen in")


def read_lines() -> list[Mapping[str, str]]:
    """Return the lines of the table."""
    lines: list[Mapping[str, str]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["line"]
    return lines


def behaviour_page() -> str:
    """Return the page: a table for each system, in the order of the lines."""
    parts, system = [HEAD], ""
    for line in read_lines():
        if line["system"] != system:
            system = line["system"]
            parts.append(f"\n## {system}\n\n{_row(*COLUMNS)}{_row(*['---'] * len(COLUMNS))}")
        path, _, name = line["test"].partition("::")
        seen = line["source"] + (" →" if "next" in line else "")
        said = (line[each] for each in ("version", "guess", "happens", "product"))
        parts.append(_row(*said, f"[{_words(name)}](../{path})", seen))
    return "".join(parts)


def _words(name: str) -> str:
    return re.sub(r"_s(?=_|$)", "'s", name.removeprefix("test_")).replace("_", " ")


def _row(*cells: str) -> str:
    return f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |\n"
