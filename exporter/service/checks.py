"""What settings contradict in one another: said before anything starts, and before a reload takes effect."""

from __future__ import annotations

from exporter.collectors import CONTROLLER
from exporter.config import DaemonConfig
from exporter.ingest.config import check_ingest
from exporter.privacy.key import make_privacy
from exporter.web.listener import check_web
from jobfeatures.errors import ConfigurationError


def check(config: DaemonConfig) -> None:
    """Raise ConfigurationError if settings contradict each other."""
    check_ingest(config)
    check_web(config)
    make_privacy(config)
    if config.role != CONTROLLER:
        check_listener(config)


def check_listener(config: DaemonConfig) -> None:
    """Raise ConfigurationError if the settings of the features' listener contradict each other."""
    if config.features_listen_address is None:
        if config.features_form != "local":
            raise ConfigurationError("features.form", "needs features.listen_address")
        return
    if (config.features_tls_certificate is None) != (config.features_tls_key is None):
        raise ConfigurationError(
            "features.tls_certificate", "certificate and key are needed both, or neither of them"
        )
    if config.features_tls_certificate is not None and config.features_tls_key is not None:
        from jobfeatures.publish.tls import TlsFiles

        TlsFiles(config.features_tls_certificate, config.features_tls_key)  # raises, if they are of no use
    if config.features_listen_address.endswith(":0") and config.features_url is None:
        raise ConfigurationError("features.listen_address", "needs a port that jobs can be told")
    for key in ("max_connections", "rate", "job_rate"):
        if getattr(config, f"features_{key}") == 0:
            raise ConfigurationError(f"features.{key}", "must be 1 or more")
