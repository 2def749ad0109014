"""Finds each setting's value in flags, environment, file and defaults, in that order of precedence.

A configuration is a dataclass whose fields are settings or records of settings; the fields of a record are
settings or records again: see `jobfeatures.settings.declare`. A field declared by `origins()` says where each
value comes from.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, fields
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

from jobfeatures.errors import ConfigurationError, nearest, shown
from jobfeatures.settings.declare import NamedTable, Setting, Tables, ValueKind, declared_by

if TYPE_CHECKING:
    from jobfeatures.settings.file import Document

log = logging.getLogger(__name__)

DEFAULT_FILE = "/etc/jobfeatures-exporter/config.toml"
DEFAULT_DROP_INS = "/etc/jobfeatures-exporter/conf.d"
FILE_FLAG = "--config.file"
FILE_VARIABLE = "JOBFEATURES_CONFIG_FILE"

ConfigT = TypeVar("ConfigT")


def settings_of(config: type[Any]) -> tuple[Setting, ...]:
    """Return the settings that a configuration class and its parts declare, in order."""
    return tuple(each for each in declared(config) if isinstance(each, Setting))


def tables_of(config: type[Any]) -> tuple[Tables, ...]:
    """Return the groups of tables that a configuration class and its parts declare, in order."""
    return tuple(each for each in declared(config) if isinstance(each, Tables))


def declared(config: type[Any], prefix: str = "", above: tuple[str, ...] = ()) -> Iterator[Setting | Tables]:
    """Yield the settings and groups of tables that a configuration class declares.

    `prefix` begins their keys; `above` are the names of the fields that lead to the class.
    """
    for each in fields(config):
        path = (*above, each.name)
        if "record" in each.metadata:
            yield from declared(*_record_of(each, prefix), path)
        elif (found := declared_by(each, prefix, path)) is not None:
            yield found


def _record_of(declared: Field[Any], prefix: str) -> tuple[type[Any], str]:
    """Return the class of the record that a field is, and the prefix of its keys."""
    kind, table = declared.metadata["record"]
    table = declared.name if table is None else table
    return kind, f"{prefix}{table}." if table else prefix


def value_of(config: Any, setting: Setting | Tables) -> Any:
    """Return the value that a configuration has for one of its settings or groups of tables."""
    return reduce(getattr, setting.path, config)


def values_of(config: Any) -> dict[str, Any]:
    """Return a configuration's values by key, and its tables by name."""
    return {each.key: value_of(config, each) for each in declared(type(config))}


def compose(
    config: type[ConfigT],
    values: Mapping[str, Any],
    origins: Mapping[str, str] | None = None,
    prefix: str = "",
) -> ConfigT:
    """Return a configuration of this class with these values (settings by key, tables by name).

    What is not in `values` has its default. `origins` says where each value comes from; `prefix` begins the
    keys.
    """
    made: dict[str, Any] = {}
    for each in fields(config):  # type: ignore[arg-type]  # any dataclass
        if "record" in each.metadata:
            kind, below = _record_of(each, prefix)
            made[each.name] = compose(kind, values, origins, below)
        elif "origins" in each.metadata:
            made[each.name] = origins or {}
        elif (found := declared_by(each, prefix)) is not None and found.key in values:
            made[each.name] = values[found.key]
    return config(**made)


def load_config(
    config: type[ConfigT],
    *,
    flags: Mapping[str, str | None] | None = None,
    environ: Mapping[str, str] | None = None,
    file: str | None = None,
    strict: bool = True,
) -> ConfigT:
    """Return the configuration: flags take precedence over the environment, then the file, then defaults.

    `file` None means the variable ``JOBFEATURES_CONFIG_FILE``, else the default file if it exists. With
    `strict`, a key in the file that the class does not declare is an error. A hook declares only some of the
    daemon's settings, and ignores the others. Raises ConfigurationError naming flag, variable or key.
    """
    flags, environ = flags or {}, os.environ if environ is None else environ
    path = file or environ.get(FILE_VARIABLE)
    chosen: dict[str, Any] = {}
    values: dict[str, Any] = {}
    document: Document | None = None
    if path is not None or any(map(os.path.exists, (DEFAULT_FILE, DEFAULT_DROP_INS))):
        from jobfeatures.settings.file import flatten, read_settings  # most hooks do not need it

        document = read_settings(path or DEFAULT_FILE, is_needed=path is not None)
        for group in tables_of(config):
            found = document.table.pop(group.key, {})
            chosen[group.key] = _parse_tables(group, found, document, strict)
        values = dict(flatten(document.table))
    known = settings_of(config)
    if strict and document is not None:
        unknown = sorted(set(values) - {each.key for each in known})
        if unknown:
            reason = "there is no such setting" + nearest(unknown[0], [each.key for each in known])
            raise ConfigurationError(document.place(*unknown[0].split(".")), reason)
    origins: dict[str, str] = {}
    for each in known:
        flag_value = flags.get(each.key)
        if flag_value is not None:
            origin, value = each.flag, flag_value
        elif each.variable in environ:
            origin, value = each.variable, environ[each.variable]
        elif document is not None and each.key in values:
            parts = each.key.split(".")
            origins[each.key] = document.origin(*parts)
            chosen[each.key] = _parse_of_file(each.kind, document, parts, values[each.key])
            continue
        else:
            continue
        chosen[each.key] = _parse(each.kind, origin, value)
        origins[each.key] = origin
    return compose(config, chosen, origins)


def _parse_tables(declared: Tables, found: Any, document: Document, strict: bool) -> tuple[NamedTable, ...]:
    """Return the tables of one group; if `strict`, names that are not declared are an error."""
    if not isinstance(found, dict):
        raise ConfigurationError(document.place(declared.key), "must be a table of tables")
    made: list[NamedTable] = []
    for label, content in found.items():
        key = (declared.key, label)
        if not isinstance(content, dict):
            raise ConfigurationError(document.place(*key), f"must be a table, not {shown(str(content))}")
        _parse_of_file(declared.label, document, key, label)
        unknown = [name for name in content if name not in declared.values]
        if unknown and strict:
            allowed = ", ".join(declared.values)
            raise ConfigurationError(
                document.place(*key, unknown[0]), f"there is no such setting; here are only {allowed}"
            )
        values = {
            name: _parse_of_file(kind, document, (*key, name), content[name])
            for name, kind in declared.values.items()
            if name in content
        }
        made.append(NamedTable(label, values, document.origin(*key)))
    return tuple(made)


def _parse_of_file(kind: ValueKind, document: Document, key: Sequence[str], value: Any) -> Any:
    try:
        return kind.parse(value)
    except ValueError:
        return _parse(kind, document.place(*key), value)  # find the line's number only for an error


def _parse(kind: ValueKind, origin: str, value: Any) -> Any:
    try:
        return kind.parse(value)
    except ValueError as error:
        reason, *hint = error.args
        raise ConfigurationError(origin, f"{reason}, not {shown(str(value))}{''.join(hint)}") from None
