"""Contradictions among settings, reported before anything starts and before a reload takes effect."""

from __future__ import annotations

from jobfeatures.errors import ConfigurationError
from jobfeatures_exporter.config import DaemonConfig
from jobfeatures_exporter.ingest.config import check_ingest
from jobfeatures_exporter.privacy.key import make_privacy
from jobfeatures_exporter.scrape.collectors import CONTROLLER
from jobfeatures_exporter.web.admission import is_loopback
from jobfeatures_exporter.web.config import NODES
from jobfeatures_exporter.web.listener import check_web


def check(config: DaemonConfig) -> None:
    """Raise ConfigurationError if settings contradict each other."""
    check_ingest(config)
    check_web(config)
    make_privacy(config)
    if config.role != CONTROLLER:
        check_listener(config)
    elif config.controller_listen is not None:
        check_nodes_listener(config)


def check_nodes_listener(config: DaemonConfig) -> None:
    """Raise ConfigurationError if the settings of the listener for nodes contradict each other."""
    if config.controller_secret_file is None:
        raise ConfigurationError("controller.secret_file", "is needed with controller.listen")
    listen: str = config.controller_listen or ""
    if NODES not in config.web_config_for and not is_loopback(listen.rpartition(":")[0]):
        raise ConfigurationError(
            "controller.listen", 'beyond loopback needs TLS: web.config_file, and web.config_for = ["nodes"]'
        )


def check_listener(config: DaemonConfig) -> None:
    """Raise ConfigurationError if the settings of the features' listener contradict each other."""
    if config.features_listen_address is None:
        if config.features_form != "local":
            raise ConfigurationError("features.form", "needs features.listen_address")
        return
    if config.features_listen_address.endswith(":0") and config.features_url is None:
        raise ConfigurationError("features.listen_address", "needs a port that jobs can use")
