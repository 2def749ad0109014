"""Declares settings: as fields of records, with the kinds of their values.

A record is a frozen dataclass whose fields are settings, declared by `option()`; only the class defines each
setting's name, default and meaning. A configuration has such records as fields, declared by `record()`. The
dotted key follows from the fields' names, and from the key the flag (``web.own_socket`` →
``--web.own-socket``), the variable (``JOBFEATURES_WEB_OWN_SOCKET``) and the place in the TOML file
(``[web] own_socket``).

Settings that apply only to some jobs or machines are in tables of the file, declared by `tables()`:
``[partition.long] grace_secs = 7200``. They have neither flag nor variable.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from jobfeatures.errors import nearest


class ValueKind(NamedTuple):
    """A kind of value: `parse` takes text or a TOML value; its ValueError has a reason and maybe a hint."""

    name: str
    parse: Callable[[Any], Any]


def variable_of(key: str) -> str:
    """Return the environment variable that sets the setting with this key."""
    return "JOBFEATURES_" + key.replace(".", "_").upper()


class Setting(NamedTuple):
    """One declared setting, as parsers and the documentation need it.

    `path` are the names of the fields that lead to it in a configuration. `named_flag` is its flag if that
    does not follow from the key. If `is_common`, --help shows it, else only --help-all. `live` are the
    daemon's roles, separated by blanks, that accept a new value while they run.
    """

    key: str
    kind: ValueKind
    default: Any
    meaning: str
    path: tuple[str, ...]  # of fields
    named_flag: str = ""
    is_common: bool = False  # --help shows it; the others appear in --help-all only
    live: str = ""  # the daemon's roles, separated by blanks, that accept a new value while they run

    @property
    def flag(self) -> str:
        """Return the command line flag that sets the setting, with its dashes."""
        return self.named_flag or "--" + self.key.replace("_", "-")

    @property
    def variable(self) -> str:
        """Return the environment variable that sets the setting."""
        return variable_of(self.key)


@dataclass(frozen=True, slots=True)
class Tables:
    """A group of tables in the settings file with values for some jobs or machines: ``[partition.long]``.

    `label` is the kind of the tables' names; `values` are the keys that a table may contain, with their
    kinds. `path` and `live` are as in `Setting`.
    """

    key: str
    label: ValueKind
    values: Mapping[str, ValueKind]
    meaning: str
    path: tuple[str, ...] = ()  # of fields
    live: str = ""  # as of a `Setting`


class NamedTable(NamedTuple):
    """One table of `Tables`: `label` is "long" for ``[partition.long]``, `origin` the file and table."""

    label: str
    values: Mapping[str, Any]
    origin: str


def tables(
    key: str, label: ValueKind, values: Mapping[str, ValueKind], meaning: str, *, live: str = ""
) -> Any:
    """Declare a dataclass field as the tables ``[key.LABEL]`` of the settings file, in the file's order.

    For `label`, `values` and `live` see `Tables`.
    """
    return field(default=(), metadata={"tables": Tables(key, label, values, meaning, live=live)})


def option(
    kind: ValueKind,
    default: Any,
    meaning: str,
    *,
    key: str = "",
    flag: str = "",
    is_common: bool = False,
    live: str = "",
) -> Any:
    """Declare a dataclass field as a setting of this kind; `meaning` is its text in --help.

    `key` and `flag` are needed if they do not follow from the field's name. `is_common`, `live`: see
    `Setting`.
    """
    return field(default=default, metadata={"setting": (key, kind, meaning, flag, is_common, live)})


node_option = partial(option, live="node")  # a daemon of the node role accepts a new value while it runs


def record(kind: type[Any], table: str | None = None) -> Any:
    """Declare a dataclass field as a record of settings of the class `kind`.

    The settings' keys begin with `table` ("": without a beginning), by default with the field's name.
    """
    return field(default_factory=kind, metadata={"record": (kind, table)})


def origins() -> Any:
    """Declare a dataclass field for the origin of each value, by key: a flag, variable, or ``FILE: KEY``."""
    return field(default_factory=dict, compare=False, repr=False, metadata={"origins": True})


def declared_by(declared: Field[Any], prefix: str, path: tuple[str, ...] = ()) -> Setting | Tables | None:
    """Return the setting or tables that a dataclass field declares; None if it declares neither.

    `prefix` begins the setting's key; `path` are the fields that lead to it, this one included.
    """
    if "tables" in declared.metadata:
        group: Tables = declared.metadata["tables"]
        return replace(group, path=path)
    if "setting" not in declared.metadata:
        return None
    key, kind, meaning, flag, is_common, live = declared.metadata["setting"]
    if not key:  # a whole's own web_listen_address → web.listen_address; a duration's unit is in its value
        key = prefix + declared.name if prefix else declared.name.replace("_", ".", 1)
        key = key.removesuffix("_secs") if kind in (DURATION, POSITIVE_DURATION) else key
    return Setting(key, kind, declared.default, meaning, path, flag, is_common, live)


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
        raise ValueError("must contain only letters, digits and / . _ + @ % -, as shells of jobs read it")
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
    # Return the text: HS06 ratings are published with the digits that the site wrote.
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


def _whole_secs(value: Any) -> int:
    secs = _duration(value)
    if secs != int(secs):
        raise ValueError("must be whole seconds")
    return int(secs)


_SIZE_UNITS = {
    "": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip


def _size(value: Any) -> int:
    match = re.fullmatch(r"([0-9]{1,18}) ?([A-Za-z]{0,3})", str(value))
    if isinstance(value, bool) or match is None or match[2] not in _SIZE_UNITS:
        raise ValueError("must be bytes such as 20000000000, 20GB (powers of 1000) or 20GiB (of 1024)")
    return int(match[1]) * _SIZE_UNITS[match[2]]


def _factor(value: Any) -> str:
    factor = _decimal(value)
    if not factor.strip("0."):
        raise ValueError("must be more than 0")
    return factor


def _pattern(value: Any) -> str:
    pattern = _text(value)
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"must be a regular expression ({error})") from None
    return pattern


def _address(value: Any) -> str:
    text = _text(value)
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):([0-9]{1,5})", text)
    if match is None or int(match[2]) > 65535:
        raise ValueError("must be HOST:PORT, [IPV6]:PORT or :PORT")
    return text


def _url(value: Any) -> str:
    text = _text(value).rstrip("/")
    match = re.fullmatch(
        r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::([0-9]{1,5}))?(/[A-Za-z0-9._~/-]*)?", text
    )
    if match is None or len(text) > 256 or not 0 < int(match[2] or "80") <= 65535:
        raise ValueError("must be an address such as http://node1:9820")
    return text


TEXT = ValueKind("text", _text)
PATH = ValueKind("path", _path)
PLAIN_PATH = ValueKind("path", _plain_path)
BOOLEAN = ValueKind("boolean", _boolean)
COUNT = ValueKind("count", _count)
DECIMAL = ValueKind("decimal", _decimal)
DURATION = ValueKind("duration", _duration)
POSITIVE_DURATION = ValueKind("duration", _positive_duration)
SECONDS = ValueKind("duration", _whole_secs)
SIZE = ValueKind("size", _size)
FACTOR = ValueKind("decimal", _factor)
PATTERN = ValueKind("regular expression", _pattern)
ADDRESS = ValueKind("address", _address)
URL = ValueKind("address", _url)


def choice(*allowed: str) -> ValueKind:
    """Return a kind whose value is one of these words."""

    def parse(value: Any) -> str:
        if value not in allowed:
            near = nearest(value, allowed) if isinstance(value, str) else ""
            raise ValueError(f"must be one of {', '.join(allowed)}", near)
        return str(value)

    return ValueKind("|".join(allowed), parse)


def words(*allowed: str, of: str = "") -> ValueKind:
    """Return a kind whose value is a list of these words: a TOML list, or text separated by commas.

    `of` names them in --help instead of a long list.
    """

    def parse(value: Any) -> tuple[str, ...]:
        found = value.split(",") if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
            raise ValueError("must be a list of words")
        found = [word.strip() for word in found if word.strip()]
        unknown = [word for word in found if word not in allowed]
        if unknown:
            raise ValueError(f"must be some of {', '.join(allowed)}", nearest(unknown[0], allowed))
        return tuple(dict.fromkeys(found))

    return ValueKind(f"list of {of or '|'.join(allowed)}", parse)
