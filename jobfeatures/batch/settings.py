"""The base of each batch system's settings."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.grouppatterns import GROUP_PATTERNS
from jobfeatures.settings.resolve import PLAIN_PATH, POSITIVE_DURATION, choice, node_option, option


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class AskingSettings:
    """How a node queries its batch system, and where it finds hooks' records and control groups."""

    features_root: str = option(
        PLAIN_PATH,
        "/run/jobfeatures",
        "folder that holds the published directories; without blanks",
        is_common=True,
    )
    batch_timeout_secs: float = node_option(
        POSITIVE_DURATION, 10.0, "how long a node waits for one answer of a batch system"
    )
    batch_refresh_secs: float = node_option(
        POSITIVE_DURATION, 300.0, "how often known jobs, the node's state and limits of queues are refreshed"
    )
    batch_cgroup_parents: tuple[str, ...] = node_option(
        GROUP_PATTERNS,
        (),
        "control groups of batch systems that are not found: prefixes such as /pbspro, and containers "
        "such as /kubepods.slice/*/*/cri-containerd-*.scope",
    )
    hook_ask: str = node_option(
        choice("auto", "never"), "auto", "auto: the prolog queries Slurm or Grid Engine for unknown limits"
    )
