"""Which new settings take effect in a running daemon, and which need a restart: pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from jobfeatures.batch import SYSTEMS
from jobfeatures.settings.resolve import settings_of, tables_of
from jobfeatures_exporter.config import ExporterConfig

SOURCES = ("batch.", "controller.", *(f"{name}." for name in SYSTEMS))


class SettingsChange(NamedTuple):
    """The settings to apply, the keys that are new in them, and the keys that need a restart."""

    config: ExporterConfig
    taken: tuple[str, ...]
    waiting: tuple[str, ...]

    @property
    def concerns_sources(self) -> bool:
        """Return whether batch systems have to be queried differently."""
        return any(key.startswith(SOURCES) for key in self.taken)


def compute_change(running: ExporterConfig, wanted: ExporterConfig) -> SettingsChange:
    """Return the change that `wanted` makes to a daemon that runs with `running`."""
    taken: dict[str, str] = {}
    waiting: list[str] = []
    for key, (name, roles) in live_roles().items():
        if getattr(running, name) == getattr(wanted, name):
            continue
        if running.role in roles:
            taken[key] = name
        else:
            waiting.append(key)
    values: dict[str, Any] = {name: getattr(wanted, name) for name in taken.values()}
    return SettingsChange(replace(running, **values, origins=wanted.origins), tuple(taken), tuple(waiting))


def live_roles() -> dict[str, tuple[str, list[str]]]:
    """Return by key, or name of a group of tables, the field and the roles that apply it."""
    settings = {each.key: (each.field_name, each.live.split()) for each in settings_of(ExporterConfig)}
    groups = {each.name: (each.field_name, each.live.split()) for each in tables_of(ExporterConfig)}
    return settings | groups
