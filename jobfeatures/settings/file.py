"""Reads the settings file and its drop-ins; an error is one line that says what to do.

The drop-ins of config.toml are in conf.d next to it, those of any other NAME.toml in NAME.d. They are read
after the file, in the order of their names; if several contain the same setting, the last one applies.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jobfeatures.errors import ConfigurationError, shown
from jobfeatures.system.privatefile import open_at_once, version_of

MAX_BYTES = 4 * 2**20
MAX_DEPTH = 16
MAX_FILES = 100
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1  # https://toml.io/en/v1.0.0#integer


class SettingsFile(NamedTuple):
    """One file of settings: its bytes (`data`) and its parsed content (`table`)."""

    path: str
    data: bytes
    table: Mapping[str, Any]


class Document(NamedTuple):
    """The settings file and its drop-ins in the order read, and their merged content."""

    path: str
    files: tuple[SettingsFile, ...]
    table: dict[str, Any]

    def origin(self, *key: str) -> str:
        """Return ``FILE: KEY`` of a setting, with the file whose value applies."""
        return f"{self._file(key)[0]}: {dotted(key)}"

    def place(self, *key: str) -> str:
        """Return ``FILE:LINE: KEY`` of a setting, with the file whose value applies."""
        path, data = self._file(key)
        return f"{path}{at_line(data, key)}: {dotted(key)}"

    def _file(self, key: Sequence[str]) -> tuple[str, bytes]:
        holding = [each for each in self.files if _holds(each.table, key)]
        return (holding[-1].path, holding[-1].data) if holding else (self.path, b"")


def read_settings(path: str, *, is_needed: bool = True) -> Document:
    """Read a file and its drop-ins; the file may be absent unless `is_needed`.

    Raises ConfigurationError if one cannot be read, is malformed, or others may write to it.
    """
    paths = drop_ins_of(path)
    if is_needed or os.path.exists(path):
        paths = [path, *paths]
    files: list[SettingsFile] = []
    for each in paths:
        data = read_bytes(each, is_drop_in=each != path)
        files.append(SettingsFile(each, data, _parse(each, data)))
    document = Document(path, tuple(files), {})
    for file in files:
        _merge(document.table, file.table, file)
    return document


def drop_ins_of(path: str) -> list[str]:
    """Return the paths of a file's drop-ins in the order in which they are read.

    Raises ConfigurationError if their folder cannot be read, is unsafe, or holds too many.
    """
    stem = os.path.basename(path).removesuffix(".toml")
    folder = os.path.join(os.path.dirname(path), f"{'conf' if stem == 'config' else stem}.d")
    try:
        found = os.stat(folder)
        names = sorted(name for name in os.listdir(folder) if name.endswith(".toml") and name[0] != ".")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ConfigurationError(folder, f"cannot be read: {error.strerror}") from error
    _refuse_unsafe(folder, found)
    if len(names) > MAX_FILES:
        raise ConfigurationError(folder, f"has more than {MAX_FILES} files of settings")
    return [os.path.join(folder, name) for name in names]


def stamp_of(path: str) -> tuple[object, ...]:
    """Return a tuple that differs once a file or its drop-ins have changed. Raises OSError without a file."""
    try:
        paths = drop_ins_of(path)
    except ConfigurationError as error:
        return (str(error),)
    if not paths or os.path.exists(path):
        paths = [path, *paths]
    statuses = [(each, os.stat(each)) for each in paths]
    return tuple(
        (each, found.st_dev, found.st_mode, found.st_uid, *version_of(found)) for each, found in statuses
    )


def _merge(
    into: dict[str, Any], table: Mapping[str, Any], file: SettingsFile, above: Sequence[str] = ()
) -> None:
    for name, value in table.items():
        key = (*above, name)
        if name in into and isinstance(into[name], dict) != isinstance(value, dict):
            place = f"{file.path}{at_line(file.data, key)}: {dotted(key)}"
            raise ConfigurationError(place, "is a table in one file and a value in another")
        if isinstance(value, dict):
            _merge(into.setdefault(name, {}), value, file, key)
        else:
            into[name] = value


def _holds(value: Any, key: Sequence[str]) -> bool:
    for part in key:
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return True


def at_line(data: bytes, key: Sequence[str]) -> str:
    """Return ``:LINE``, the line on which a TOML file first mentions a key; an empty string if it does not.

    `data` is the file's content, `key` the parts of the dotted key.
    """
    lines = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").split("\n")

    def is_there(count: int) -> bool:
        for end in range(count, len(lines) + 1):
            try:
                return _holds(tomllib.loads("\n".join(lines[:end])), key)
            except (ValueError, RecursionError):  # in the middle of a statement
                continue
        return False

    low, high = 1, len(lines)
    if not is_there(high):
        return ""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_there(middle) else (middle + 1, high)
    return f":{low}"


def to_toml(table: Mapping[str, Any]) -> bytes:
    """Return nested tables as the bytes of a settings file with the same content."""
    return "".join(f"{_value(name)} = {_value(each)}\n" for name, each in table.items()).encode() or b"#\n"


def _value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_value(name)} = {_value(each)}" for name, each in value.items()) + "}"
    return repr(value) if isinstance(value, (int, float)) else str(value.isoformat())


def _parse(path: str, data: bytes) -> dict[str, Any]:
    try:
        document = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigurationError(path, f"is not text in UTF-8, see byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(path, f"is not TOML: {error}") from error
    except ValueError as error:  # from int(), which limits the number of digits
        raise ConfigurationError(path, "is not TOML: a number is too long") from error
    except RecursionError as error:
        raise ConfigurationError(path, "is nested too deeply") from error
    _check(path, document)
    return document


def _check(path: str, document: Mapping[str, Any]) -> None:
    """Refuse excessive nesting, and integers beyond TOML's range: either would cause a traceback later."""
    left: list[tuple[str, Any, int]] = [("", document, 0)]
    while left:
        key, value, depth = left.pop()
        where = f"{path}: {shown(key)[1:-1]}" if key else path
        if depth > MAX_DEPTH:
            raise ConfigurationError(where, "is nested too deeply")
        if isinstance(value, int) and not MIN_INTEGER <= value <= MAX_INTEGER:
            raise ConfigurationError(where, "is a whole number that does not fit into 64 bits")
        if isinstance(value, dict):
            left += [(f"{key}.{name}" if key else name, each, depth + 1) for name, each in value.items()]
        elif isinstance(value, list):
            left += [(key, each, depth + 1) for each in value]


def read_bytes(path: str, *, is_drop_in: bool = False) -> bytes:
    """Return the bytes of a settings file, or of a drop-in.

    Raises ConfigurationError if it cannot be read, is empty or too large, or others may write to it; also if
    a drop-in is not a regular file.
    """
    try:
        with open(path, "rb", opener=open_at_once if is_drop_in else None) as file:
            found = os.fstat(file.fileno())
            if is_drop_in and not stat.S_ISREG(found.st_mode):
                raise ConfigurationError(path, "is not a plain file")
            if stat.S_ISREG(found.st_mode):
                _refuse_unsafe(path, found)
            data = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise ConfigurationError(path, "is a folder; name the file in it") from None
    except PermissionError:
        raise ConfigurationError(
            path, f"cannot be read: Permission denied; uid {os.geteuid()} needs read permission"
        ) from None
    except FileNotFoundError:
        raise ConfigurationError(path, "cannot be read: there is no such file") from None
    except OSError as error:
        raise ConfigurationError(path, f"cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise ConfigurationError(path, f"is larger than {MAX_BYTES // 2**20} MiB: not a settings file")
    if not data.strip() and not stat.S_ISCHR(found.st_mode):  # perhaps written while the disk was full
        raise ConfigurationError(path, "is empty; for the defaults remove it, or put a comment into it")
    return data


def _refuse_unsafe(path: str, found: os.stat_result) -> None:
    """Raise ConfigurationError if anyone but root and this user could change what programs are run."""
    if found.st_uid not in (0, os.geteuid()):
        raise ConfigurationError(
            path, f"belongs to uid {found.st_uid}, who could change it; chown it to root"
        )
    mode = stat.S_IMODE(found.st_mode)
    group_may = mode & stat.S_IWGRP and found.st_gid not in (0, os.getegid())
    if mode & stat.S_IWOTH or group_may:
        raise ConfigurationError(path, f"others may write to it (mode {mode:o}); chmod go-w {path}")


def dotted(key: Sequence[str]) -> str:
    """Return the parts of a key joined by dots, on one line, quoted where TOML requires it."""
    plain = (re.fullmatch(r"[A-Za-z0-9_-]+", part) for part in key)
    return ".".join(part if it else f'"{shown(part)[1:-1]}"' for part, it in zip(key, plain, strict=True))


def flatten(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return the (dotted key, value) pairs in nested tables; `prefix` begins the keys."""
    found: list[tuple[str, Any]] = []
    for name, value in table.items():
        found += flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, value)]
    return found
