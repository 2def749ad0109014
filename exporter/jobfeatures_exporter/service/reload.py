"""Decides which new settings take effect in a running daemon, and which need a restart. Pure."""

from __future__ import annotations

from typing import NamedTuple

from jobfeatures.batch import SYSTEMS
from jobfeatures.settings.resolve import compose, declared, values_of
from jobfeatures_exporter.config import ExporterConfig

SOURCES = ("batch.", "controller.", *(f"{name}." for name in SYSTEMS))


class SettingsChange(NamedTuple):
    """The outcome of comparing settings at a reload: `config` holds the settings to apply.

    `taken` are the keys of changed settings that apply now, `waiting` those that only apply after a restart.
    """

    config: ExporterConfig
    taken: tuple[str, ...]
    waiting: tuple[str, ...]

    @property
    def concerns_sources(self) -> bool:
        """Return whether batch systems have to be queried differently."""
        return any(key.startswith(SOURCES) for key in self.taken)


def compute_change(running: ExporterConfig, wanted: ExporterConfig) -> SettingsChange:
    """Return how a daemon that runs with the settings `running` changes to the settings `wanted`."""
    before, after = values_of(running), values_of(wanted)
    roles = live_roles()
    changed = [key for key in roles if before[key] != after[key]]
    taken = tuple(key for key in changed if running.role in roles[key])
    waiting = tuple(key for key in changed if running.role not in roles[key])
    config = compose(
        ExporterConfig, {**before, **{key: after[key] for key in taken}}, wanted.shared.site.origins
    )
    return SettingsChange(config, taken, waiting)


def live_roles() -> dict[str, list[str]]:
    """Return, for the key of each setting or group of settings, the roles in which a reload applies a change.

    A setting with no roles needs a restart.
    """
    return {each.key: each.live.split() for each in declared(ExporterConfig)}
