"""The file with the settings: read as it is, or refused in one line that says what to do."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Collection, Mapping
from typing import Any

from jobfeatures.errors import ConfigurationError

MAX_BYTES = 4 * 2**20


def read_settings(path: str) -> dict[str, Any]:
    """Return the tables of a file. Raises ConfigurationError naming the file and what is wrong with it."""
    data = _read(path)
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigurationError(path, f"is not text in UTF-8, see byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(path, f"is not TOML: {error}") from error
    return document


def _read(path: str) -> bytes:
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
