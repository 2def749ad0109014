"""The settings that a batch system's code gets: its own, and those common to all batch systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from jobfeatures.batch.controller import ControllerSettings
from jobfeatures.settings.declare import PLAIN_PATH, POSITIVE_DURATION, choice, node_option, option
from jobfeatures.settings.grouppatterns import GROUP_PATTERNS

Own_co = TypeVar("Own_co", covariant=True)


@dataclass(frozen=True, kw_only=True)
class CommonSettings:
    """The settings common to all batch systems: how to query them, where published files and groups are."""

    root: str = option(
        PLAIN_PATH,
        "/run/jobfeatures",
        "folder that holds the published directories; without blanks",
        key="features.root",
        is_common=True,
    )
    timeout_secs: float = node_option(
        POSITIVE_DURATION, 10.0, "how long a node waits for one answer of a batch system"
    )
    refresh_secs: float = node_option(
        POSITIVE_DURATION, 300.0, "how often known jobs, the node's state and limits of queues are refreshed"
    )
    cgroup_parents: tuple[str, ...] = node_option(
        GROUP_PATTERNS,
        (),
        "control groups of batch systems that are not found: prefixes such as /pbspro, and containers "
        "such as /kubepods.slice/*/*/cri-containerd-*.scope",
    )
    hook_ask: str = node_option(
        choice("auto", "never"),
        "auto",
        "auto: the prolog queries Slurm or Grid Engine for unknown limits",
        key="hook.ask",
    )


@dataclass(frozen=True, kw_only=True)
class SystemSettings(Generic[Own_co]):
    """All settings that one batch system's code gets.

    `own` are those of the batch system, `procfs` and `cgroup` where the node's file systems are mounted.
    """

    own: Own_co
    common: CommonSettings
    controller: ControllerSettings
    procfs: str = "/proc"
    cgroup: str = "/sys/fs/cgroup"
