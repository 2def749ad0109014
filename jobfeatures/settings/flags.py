"""Adds settings to a command line: one flag each, and ``--set KEY=VALUE`` for any of them."""

from __future__ import annotations

import argparse
from typing import Any

from jobfeatures.errors import ConfigurationError, nearest, shown
from jobfeatures.settings.declare import BOOLEAN, POSITIVE_DURATION, ValueKind
from jobfeatures.settings.resolve import DEFAULT_FILE, FILE_FLAG, settings_of
from jobfeatures.settings.usage import SETTINGS_TITLE, Parser

MAX_WORDS_CHARACTERS = 24  # of a choice's words, so that help fits into 80 columns


def add_flags(parser: argparse.ArgumentParser, config: type[Any]) -> None:
    """Add ``--config.file``, ``--set`` and one flag for each setting; booleans also get a ``--no-`` form.

    If the configuration class has an attribute `FOLDED`, --help shows one sentence instead of all flags of a
    group of settings: `FOLDED` holds the sentence by the group's name, such as ``collector``.
    """
    # Values stay text here: `load_config` parses them, with the same error messages for every origin.
    settings = settings_of(config)
    group = parser.add_argument_group(SETTINGS_TITLE)
    group.add_argument(
        FILE_FLAG, metavar="PATH", help=f"TOML file with settings (default: {DEFAULT_FILE} if it exists)"
    )
    group.add_argument(
        "--set",
        action=_Set,
        const=tuple(each.key for each in settings),
        metavar="KEY=VALUE",
        help="any setting, such as node.name=n1 (all: --help-all); may be repeated",
    )
    for each in settings:
        shown_default = "" if each.default in (None, "", ()) else f" (default: {display(each.default)})"
        text = f"{each.meaning}{shown_default}".replace("%", "%%")
        if each.kind is BOOLEAN:
            pair = group.add_mutually_exclusive_group()
            pair.add_argument(each.flag, dest=each.key, action="store_const", const="true", help=text)
            pair.add_argument(
                "--no-" + each.flag[2:],
                dest=each.key,
                action="store_const",
                const="false",
                help=argparse.SUPPRESS,
            )
        else:
            group.add_argument(each.flag, dest=each.key, metavar=_metavar(each.kind), help=text)
    if isinstance(parser, Parser):
        parser.show_later(each.key for each in settings if not each.is_common)
        parser.folded = getattr(config, "FOLDED", {})


def parse_duration_flag(flag: str, text: str) -> float:
    """Return the seconds in the text of a flag's value, such as ``90s`` or ``2h``.

    Raises ConfigurationError, naming the flag.
    """
    try:
        return float(POSITIVE_DURATION.parse(text))
    except ValueError as error:
        raise ConfigurationError(flag, f"{error.args[0]}, not {shown(text)}") from None


class _Set(argparse.Action):
    """``--set KEY=VALUE``: equivalent to the setting's flag."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, *_: object
    ) -> None:
        key, equals, text = value.partition("=")
        if not equals:
            parser.error(f"--set: must be KEY=VALUE, not {shown(value)}")
        if key not in self.const:
            parser.error(f"--set: there is no setting {shown(key)}{nearest(key, self.const)}")
        setattr(namespace, key, text)


def _metavar(kind: ValueKind) -> str:
    """Return the placeholder for a value in help: a choice's words if they are short, else the kind."""
    if kind.name.startswith("list of "):
        return "WORD,..."
    if "|" in kind.name:
        return kind.name if len(kind.name) <= MAX_WORDS_CHARACTERS else "WORD"
    return kind.name.upper()


def display(value: Any) -> str:
    """Return a setting's default as a user would write it on the command line."""
    if isinstance(value, bool | float):
        return str(value).lower() if isinstance(value, bool) else f"{value:g}s"
    return ",".join(value) if isinstance(value, tuple) else str(value)
