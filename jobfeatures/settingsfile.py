"""The file with the settings: read as it is, or refused in one line that says what to do."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Collection, Mapping
from typing import Any

from jobfeatures.errors import ConfigurationError, shown

MAX_BYTES = 4 * 2**20
MAX_DEPTH = 16
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1  # https://toml.io/en/v1.0.0#integer


def read_settings(path: str) -> dict[str, Any]:
    """Return the tables of a file. Raises ConfigurationError naming the file and what is wrong with it."""
    data = read_bytes(path)
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigurationError(path, f"is not text in UTF-8, see byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(path, f"is not TOML: {error}") from error
    except ValueError as error:  # of int(), which has a limit
        raise ConfigurationError(path, "is not TOML: a number is too long") from error
    except RecursionError as error:
        raise ConfigurationError(path, "is nested too deeply") from error
    _check(path, document)
    return document


def _check(path: str, document: Mapping[str, Any]) -> None:
    """Refuse what is deeper than any setting, and integers that TOML has not: a traceback each, later."""
    left: list[tuple[str, Any, int]] = [("", document, 0)]
    while left:
        key, value, depth = left.pop()
        where = f"{path}: {shown(key)[1:-1]}" if key else path
        if depth > MAX_DEPTH:
            raise ConfigurationError(where, "is nested too deeply")
        if isinstance(value, int) and not MIN_INTEGER <= value <= MAX_INTEGER:
            raise ConfigurationError(where, "is a whole number that 64 bits do not hold")
        if isinstance(value, dict):
            left += [(f"{key}.{name}" if key else name, each, depth + 1) for name, each in value.items()]
        elif isinstance(value, list):
            left += [(key, each, depth + 1) for each in value]


def read_bytes(path: str) -> bytes:
    """Return what a file of settings holds. Raises ConfigurationError where that is none."""
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            data = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise ConfigurationError(path, "is a folder; name the file in it") from None
    except PermissionError:
        raise ConfigurationError(
            path, f"cannot be read: Permission denied; uid {os.geteuid()} needs the right to"
        ) from None
    except FileNotFoundError:
        raise ConfigurationError(path, "cannot be read: there is no such file") from None
    except OSError as error:
        raise ConfigurationError(path, f"cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise ConfigurationError(path, f"is larger than {MAX_BYTES // 2**20} MiB: no file of settings")
    if not data.strip() and not stat.S_ISCHR(found.st_mode):  # a disk was full when it was written
        raise ConfigurationError(path, "is empty; for the defaults remove it, or put a comment into it")
    return data


def flatten(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return the values of nested tables by dotted key."""
    found: list[tuple[str, Any]] = []
    for name, value in table.items():
        found += flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, value)]
    return found


def nearest(word: str, known: Collection[str]) -> str:
    """Return ``; did you mean X?`` where one of the known words is like this one, else nothing."""
    import difflib  # only where somebody has made a mistake

    ends = [each for each in known if each.rpartition(".")[2] == word.rpartition(".")[2]]
    found = difflib.get_close_matches(word, known, 1, 0.6) or ends[:1]
    return f"; did you mean {found[0]}?" if found else ""
