"""Generates a package's configuration file from the table of settings: every key and its default. Pure."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from jobfeatures.settings.declare import Setting, ValueKind
from jobfeatures.settings.flags import display
from jobfeatures.settings.resolve import settings_of, tables_of

WIDTH = 100


def write_config(config: type[Any], head: str) -> str:
    """Return the TOML file of a configuration class, with every setting commented out."""
    groups: dict[str, list[Setting]] = {"": []}
    for each in settings_of(config):
        groups.setdefault(each.key.rpartition(".")[0], []).append(each)
    parts = [_comment(head)]
    for name, group in groups.items():
        if group and name:
            parts.append(f"[{name}]")
        parts += [_entry(each) for each in group]
    for table in tables_of(config):
        about = f"[{table.key}.NAME], NAME a {table.label.name}: {table.meaning}"
        lines = [f"#{key} = {_placeholder(kind)}" for key, kind in table.values.items()]
        parts.append("\n".join([_comment(about), f'#[{table.key}."NAME"]', *lines]))
    return "\n\n".join(parts) + "\n"


def _entry(each: Setting) -> str:
    known = each.kind.name.replace("|", ", ")
    if known != each.kind.name and not known.startswith("list of"):
        known = f"one of {known}"
    unset = "; not set by default" if each.default is None else ""
    value = _placeholder(each.kind) if each.default is None else toml_value(each.default)
    return f"{_comment(f'{each.meaning} ({known}{unset})')}\n#{each.key.rpartition('.')[2]} = {value}"


def _placeholder(kind: ValueKind) -> str:
    return _quoted(f"<{kind.name}>")


def toml_value(value: Any) -> str:
    """Return a default in TOML syntax."""
    if isinstance(value, tuple):
        return "[" + ", ".join(_quoted(each) for each in value) + "]"
    if isinstance(value, bool | int):
        return display(value)
    return _quoted(display(value))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # TOML does not allow JSON's surrogate pairs


def _comment(text: str) -> str:
    lines = [
        part
        for line in text.split("\n")
        for part in textwrap.wrap(line, WIDTH, break_on_hyphens=False) or [""]
    ]
    return "\n".join(f"# {line}".rstrip() for line in lines)
