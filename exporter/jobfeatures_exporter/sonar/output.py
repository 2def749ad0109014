"""The sender and the configured sinks."""

from __future__ import annotations

from collections.abc import Callable

from jobfeatures.errors import ConfigurationError
from jobfeatures.formats.sonar.envelopes import SAMPLE, SYSINFO
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.config import DaemonConfig
from jobfeatures_exporter.privacy.key import make_privacy
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sinks import make_sink
from jobfeatures_exporter.sinks.keeper import SinkKeeper
from jobfeatures_exporter.snapshot import Snapshot
from jobfeatures_exporter.sonar.config import SonarConfig
from jobfeatures_exporter.sonar.node import NodeDocuments, make_origin
from jobfeatures_exporter.sonar.sender import Sender

NETWORK_SINKS = frozenset({"http", "kafka"})  # which many nodes share
SENDING_WINDOW = 0.2  # documents go there at a random time within this part of the shortest interval


def make_sender(config: SonarConfig, clock: Clock) -> Sender | None:
    """Return a sender with its sinks but no documents; None without sinks. Raises ConfigurationError."""
    if not config.sonar_sinks:
        return None
    origin = make_origin(config)
    if config.sonar_spool_max_bytes == 0:
        raise ConfigurationError("sonar.spool_max_bytes", "must be 1 or more")
    folder = config.sonar_spool_directory
    sinks = {name: make_sink(name, config) for name in config.sonar_sinks}
    intervals = (
        config.sonar_sample_interval_secs,
        config.sonar_jobs_interval_secs,
        config.sonar_cluster_interval_secs,
    )
    keepers = [
        SinkKeeper(
            name,
            sink,
            clock,
            max_bytes=config.sonar_spool_max_bytes,
            directory=None if folder is None else f"{folder}/{name}",
            window_secs=SENDING_WINDOW * min(intervals) if name in NETWORK_SINKS else 0.0,
        )
        for name, sink in sinks.items()
    ]
    return Sender(origin, keepers, clock, make_privacy(config).document)


def make_node_sender(
    config: DaemonConfig, clock: Clock, look: Callable[[], Snapshot | None], unreadable: Unreadable
) -> Sender | None:
    """Return the sender of this node's documents; None without sinks. Raises ConfigurationError."""
    sender = make_sender(config, clock)
    if sender is not None:
        documents = NodeDocuments(config, make_origin(config), clock, look, unreadable)
        sender.add(SAMPLE, config.sonar_sample_interval_secs, documents.sample)
        sender.add(SYSINFO, config.sonar_sysinfo_interval_secs, documents.sysinfo, at_start=True)
    return sender
