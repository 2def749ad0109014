"""All settings that the hooks and the daemon share."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.batch import BatchSettings
from jobfeatures.publish.config import SiteSettings
from jobfeatures.settings.declare import POSITIVE_DURATION, TEXT, node_option, option, record


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """Settings: this node's name in the batch system."""

    name: str | None = option(
        TEXT, None, "this machine's name in the batch system, if not its short host name", is_common=True
    )


@dataclass(frozen=True, kw_only=True)
class HookSettings:
    """Settings: how long hooks may take."""

    timeout_secs: float = node_option(
        POSITIVE_DURATION, 2.0, "time limit of publish and remove in prolog and epilog"
    )


@dataclass(frozen=True, kw_only=True)
class ScheduleSettings:
    """Settings: the share of the CPUs that each user is entitled to, and the period over which it counts."""

    share: str | None = option(
        TEXT, None, "controller role and expect: share of each user in CPUs; default: all CPUs ÷ users"
    )
    share_of: str | None = option(TEXT, None, "controller role and expect: exceptions, e.g. ann=16,bob=2.5")
    history_secs: float = option(
        POSITIVE_DURATION,
        604_800.0,
        "controller role and expect: the period covered starts at a multiple of this, one to two periods ago",
    )


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings that the command `jobfeatures` knows."""

    batch: BatchSettings = record(BatchSettings, "")
    node: NodeSettings = record(NodeSettings)
    site: SiteSettings = record(SiteSettings, "")
    hook: HookSettings = record(HookSettings)
    schedule: ScheduleSettings = record(ScheduleSettings)
