"""What of new settings takes effect in a running daemon, and what waits for a restart: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from jobfeatures.batch import SYSTEMS
from jobfeatures.settings import settings_of, tables_of
from jobfeatures_exporter.collectors import CONTROLLER, NODE
from jobfeatures_exporter.config import ExporterConfig

_SYSTEMS = tuple(f"{name}." for name in SYSTEMS)
# Keys, and beginnings of keys, that a running daemon takes over. The others decide what it is made of.
LIVE: Mapping[str, tuple[str, ...]] = {
    NODE: (
        "log.",
        "collector.",
        "metrics.",
        "scrape.deadline",
        "jobs.kinds",
        "jobs.retain",
        "batch.",
        "controller.url",
        "controller.token_file",
        "controller.ca_file",
        "controller.fallback",
        *_SYSTEMS,
        "hook.",
        "machine.",
        "job.",
        "features.profile",
        "features.hs23",
        "cpu_model",
        "partition",
    ),
    CONTROLLER: ("log.", "collector.", "controller.sd_"),
}
# Of those, what the reading of the node is made of.
RESTART: Mapping[str, tuple[str, ...]] = {
    NODE: ("collector.processes", *(key for each in SYSTEMS.values() for key in each.restart)),
    CONTROLLER: ("collector.schedule",),
}
SOURCES = ("batch.", "controller.", *_SYSTEMS)


@dataclass(frozen=True, slots=True)
class Change:
    """Settings to run with from now on, the keys of what is new in them, and of what needs a restart."""

    config: ExporterConfig
    taken: tuple[str, ...]
    waiting: tuple[str, ...]

    @property
    def concerns_sources(self) -> bool:
        """Return whether batch systems are asked differently now."""
        return any(key.startswith(SOURCES) for key in self.taken)


def compute_change(running: ExporterConfig, wanted: ExporterConfig) -> Change:
    """Return what becomes of `wanted` in a daemon that runs with `running`."""
    taken: dict[str, str] = {}
    waiting: list[str] = []
    for key, name in _fields().items():
        if getattr(running, name) == getattr(wanted, name):
            continue
        if is_live(key, running.role):
            taken[key] = name
        else:
            waiting.append(key)
    values: dict[str, Any] = {name: getattr(wanted, name) for name in taken.values()}
    return Change(replace(running, **values, origins=wanted.origins), tuple(taken), tuple(waiting))


def is_live(key: str, role: str) -> bool:
    """Return whether a running daemon takes a new value of this key over."""
    return key not in RESTART[role] and any(
        key == each or (each.endswith((".", "_")) and key.startswith(each)) for each in LIVE[role]
    )


def _fields() -> dict[str, str]:
    """Return the name of the field of each key, and of each group of tables."""
    settings = {each.key: each.field_name for each in settings_of(ExporterConfig)}
    return {**settings, **{each.name: each.field_name for each in tables_of(ExporterConfig)}}
