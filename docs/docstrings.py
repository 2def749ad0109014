"""Pages on figures: a block names what computes a figure, and is filled with what the docstrings there say.

``<!--docstrings: package.module#2 package.other:function,Class.method-->`` names modules, whose own
docstrings are taken, and things in modules; ``#2`` takes two paragraphs alone.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import textwrap
from types import ModuleType

BLOCK = re.compile(r"(<!--docstrings: (.+?)-->\n).*?(<!--/-->)", re.DOTALL)
_KINDS = re.compile(r"(?:[:.] [Pp]ure\b[^.]*|[:.] [Dd]oes no I/O, but keeps state|: numpy)\.$")
_FOR_CALLERS = re.compile(r"`(?![A-Z])|Raises ")


def filled(text: str) -> str:
    """Return a page with each block's text as the docstrings have it now."""
    return BLOCK.sub(lambda found: f"{found[1]}{_block(found[2])}\n{found[3]}", text)


def _block(places: str) -> str:
    parts = []
    for place in places.split():
        name, _, things = place.partition("#")[0].partition(":")
        most = int(place.partition("#")[2] or 99)
        module = importlib.import_module(name)
        file = inspect.getsourcefile(module) or ""
        path = file[file.rindex(f"/{name.replace('.', '/')}") + 1 :]
        path = path if path.startswith("jobfeatures/") else f"exporter/{path}"
        for each in things.split(","):
            thing = functools.reduce(getattr, each.split("."), module) if each else module
            first, *rest = _said(thing, module)[:most]
            parts.append(f"[{each or '/'.join(path.split('/')[-2:])}](../{path}): {first}")
            if rest and not rest[0].startswith("```"):
                parts[-1] += f" {rest.pop(0)}"
            parts += rest
    return "\n\n".join(map(_wrapped, parts))


def _said(thing: object, module: ModuleType) -> list[str]:
    """Return the paragraphs of a docstring without what only callers need."""
    text = thing.__doc__ or ""
    indent = len(text) - len(text.rstrip(" "))  # of the closing quotes: formulas stand further to the right
    lines = [line[indent:] if line[:indent].isspace() else line for line in text.rstrip().splitlines()]
    first, *rest = "\n".join(lines).split("\n\n")
    said = [_KINDS.sub(".", first).removeprefix("Return "), *rest]
    return [_words(each, module) for each in said if not _FOR_CALLERS.match(each)]


def _words(text: str, module: ModuleType) -> str:
    """Return text as a reader of the page needs it: a formula as a block, constants by their values."""
    if text.startswith("    "):
        return f"```\n{inspect.cleandoc(text)}\n```"
    text = re.sub(r"`([A-Z][A-Z_]+)`", lambda found: _shown(getattr(module, found[1])), text)
    text = re.sub(r"\s+Raises [^.]*\.(?=\s|$)", "", text).replace("``", "`")
    return text.replace("; None if", "; unknown if").replace("None if", "Unknown if")


def _shown(value: float | str) -> str:
    return f"`{value}`" if isinstance(value, str) else f"{value:,g}"


def _wrapped(text: str) -> str:
    if text.startswith(("```", "- ")):
        return text
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)
