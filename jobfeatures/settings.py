"""Settings from flags, environment, file and defaults, in that order of precedence.

A configuration is a frozen dataclass whose fields are made by `setting()`; the
class is the one place that names each setting, its default and its meaning.
From its dotted key follow the flag (``web.listen_address`` →
``--web.listen-address``), the variable (``JOBFEATURES_WEB_LISTEN_ADDRESS``) and
the place in the TOML file (``[web] listen_address``).
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar

from jobfeatures.errors import ConfigurationError, shown

DEFAULT_FILE = "/etc/jobfeatures/config.toml"
FILE_FLAG = "--config.file"
FILE_VARIABLE = "JOBFEATURES_CONFIG_FILE"

ConfigT = TypeVar("ConfigT")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: `parse` takes text (or a TOML value) and raises ValueError with the reason."""

    name: str
    parse: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as documentation and parsers see it."""

    key: str
    kind: Kind
    default: Any
    meaning: str
    field_name: str

    @property
    def flag(self) -> str:
        """Return the command line flag."""
        return "--" + self.key.replace("_", "-")

    @property
    def variable(self) -> str:
        """Return the environment variable."""
        return "JOBFEATURES_" + self.key.replace(".", "_").upper()


def setting(key: str, kind: Kind, default: Any, meaning: str) -> Any:
    """Declare a dataclass field as a setting."""
    return field(default=default, metadata={"setting": (key, kind, meaning)})


def settings_of(config: type[Any]) -> tuple[Setting, ...]:
    """Return the settings that a configuration class declares, in order."""
    return tuple(_setting_of(each) for each in fields(config) if "setting" in each.metadata)


def _setting_of(declared: Field[Any]) -> Setting:
    key, kind, meaning = declared.metadata["setting"]
    return Setting(
        key, kind, None if declared.default is MISSING else declared.default, meaning, declared.name
    )


# --- kinds -----------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value or "\n" in value:
        raise ValueError("must be one line of text")
    return value


def _path(value: Any) -> str:
    path = _text(value)
    if not os.path.isabs(path):
        raise ValueError("must be an absolute path")
    return os.path.normpath(path)


def _plain_path(value: Any) -> str:
    path = _path(value)
    if not re.fullmatch(r"[A-Za-z0-9/._+@%-]+", path):
        raise ValueError("must need no quotes in a shell")
    return path


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(value, str) and value.lower() in known:
        return known[value.lower()]
    raise ValueError("must be true or false")


def _count(value: Any) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,18}", str(value)):
        raise ValueError("must be a whole number, 0 or more")
    return int(value)


def _decimal(value: Any) -> str:
    """Keep the text: HS06 ratings are published with the digits that the site wrote."""
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", str(value)):
        raise ValueError("must be a plain decimal number, such as 171.04")
    return str(value)


_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _duration(value: Any) -> float:
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)?", str(value))
    if isinstance(value, bool) or match is None:
        raise ValueError("must be a duration such as 500ms, 10s, 2m, or a number of seconds")
    return float(match[1]) * _DURATION_UNITS[match[2] or "s"]


def _positive_duration(value: Any) -> float:
    secs = _duration(value)
    if secs <= 0:
        raise ValueError("must be longer than 0")
    return secs


def _address(value: Any) -> str:
    text = _text(value)
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):([0-9]{1,5})", text)
    if match is None or int(match[2]) > 65535:
        raise ValueError("must be HOST:PORT, [IPV6]:PORT or :PORT")
    return text


TEXT = Kind("text", _text)
PATH = Kind("path", _path)
PLAIN_PATH = Kind("path", _plain_path)
BOOLEAN = Kind("boolean", _boolean)
COUNT = Kind("count", _count)
DECIMAL = Kind("decimal", _decimal)
DURATION = Kind("duration", _duration)
POSITIVE_DURATION = Kind("duration", _positive_duration)
ADDRESS = Kind("address", _address)


def choice(*allowed: str) -> Kind:
    """Return a kind that takes one of some words."""

    def parse(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return str(value)

    return Kind("|".join(allowed), parse)


def words(*allowed: str) -> Kind:
    """Return a kind that takes some words: a TOML list, or text with commas."""

    def parse(value: Any) -> tuple[str, ...]:
        found = value.split(",") if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
            raise ValueError("must be a list of words")
        found = [word.strip() for word in found if word.strip()]
        unknown = [word for word in found if word not in allowed]
        if unknown:
            raise ValueError(f"{shown(unknown[0])} is not one of {', '.join(allowed)}")
        return tuple(dict.fromkeys(found))

    return Kind("list of " + "|".join(allowed), parse)


# --- reading them ------------------------------------------------------------


def add_flags(parser: argparse.ArgumentParser, config: type[Any]) -> None:
    """Add ``--config.file`` and one flag for each setting; booleans also get a ``--no-`` form.

    Values stay text here: `load_config` parses them, so that every origin gets
    the same checks and the same words.
    """
    parser.add_argument(
        FILE_FLAG, metavar="PATH", help=f"TOML file with settings (default: {DEFAULT_FILE} if it exists)"
    )
    for each in settings_of(config):
        shown_default = "" if each.default is None else f" (default: {display(each.default)})"
        text = f"{each.meaning}{shown_default}".replace("%", "%%")
        if each.kind is BOOLEAN:
            group = parser.add_mutually_exclusive_group()
            group.add_argument(each.flag, dest=each.key, action="store_const", const="true", help=text)
            group.add_argument(
                "--no-" + each.flag[2:],
                dest=each.key,
                action="store_const",
                const="false",
                help=argparse.SUPPRESS,
            )
        else:
            parser.add_argument(
                each.flag, dest=each.key, metavar=each.kind.name.split("|")[0].upper(), help=text
            )


def display(value: Any) -> str:
    """Return a default as its user would write it on a command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}s"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def load_config(
    config: type[ConfigT],
    *,
    flags: Mapping[str, str | None] | None = None,
    environ: Mapping[str, str] | None = None,
    file: str | None = None,
    strict: bool = True,
) -> ConfigT:
    """Return the configuration: flag > environment > file > default.

    `file` None means the variable ``JOBFEATURES_CONFIG_FILE``, else the default
    file where it exists. With `strict` a key of the file that the class does
    not know is an error; a hook, which knows only some of the daemon's
    settings, passes over them. Raises ConfigurationError naming flag, variable
    or file and key.
    """
    flags, environ = flags or {}, os.environ if environ is None else environ
    path = file or environ.get(FILE_VARIABLE)
    values: dict[str, Any] = {}
    if path is not None or os.path.exists(DEFAULT_FILE):
        values = _read_file(path or DEFAULT_FILE)
    known = settings_of(config)
    if strict:
        unknown = sorted(set(values) - {each.key for each in known})
        if unknown:
            raise ConfigurationError(f"{path or DEFAULT_FILE}: {unknown[0]}", "there is no such setting")
    chosen: dict[str, Any] = {}
    for each in known:
        flag_value = flags.get(each.key)
        if flag_value is not None:
            chosen[each.field_name] = _parse(each, each.flag, flag_value)
        elif each.variable in environ:
            chosen[each.field_name] = _parse(each, each.variable, environ[each.variable])
        elif each.key in values:
            chosen[each.field_name] = _parse(each, f"{path or DEFAULT_FILE}: {each.key}", values[each.key])
    return config(**chosen)


def _parse(each: Setting, origin: str, value: Any) -> Any:
    try:
        return each.kind.parse(value)
    except ValueError as error:
        raise ConfigurationError(origin, f"{error}, not {shown(str(value))}") from None


def _read_file(path: str) -> dict[str, Any]:
    import tomllib  # only where there is a file: hooks start often

    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise ConfigurationError(path, f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(path, f"is not TOML: {error}") from error
    return dict(_flatten(document, ""))


def _flatten(table: Mapping[str, Any], prefix: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in table.items():
        found += _flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, value)]
    return found
