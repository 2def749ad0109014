"""A node's jobs as reported by the controller role, which nodes ask instead of the batch system.

The controller role is the daemon on one machine of the cluster: its one query of the batch system serves all
nodes. `protocol` defines what the two exchange; `source` has the node's client, and its `BatchSource`.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.declare import PATH, POSITIVE_DURATION, URL, node_option


@dataclass(frozen=True, kw_only=True)
class ControllerSettings:
    """The settings by which a node finds and asks the controller role."""

    url: str | None = node_option(
        URL,
        None,
        "node role: address of the controller role (its controller.listen), e.g. https://ctl:9821",
        is_common=True,
    )
    token_file: str = node_option(
        PATH,
        "/etc/jobfeatures-exporter/node.token",
        "node role: file with this node's token, as node-token prints it",
    )
    ca_file: str | None = node_option(
        PATH, None, "node role: CA (PEM) of its certificate, if not one of the system's"
    )
    fallback_secs: float = node_option(
        POSITIVE_DURATION,
        3600.0,
        "node role: how often the node queries the batch system itself while the controller role is silent",
    )
