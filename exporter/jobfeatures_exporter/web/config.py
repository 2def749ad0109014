"""The settings of who may look."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings import BOOLEAN, PATH, TEXT, option, words
from jobfeatures_exporter.ingest.config import IngestConfig

FEATURES, SONAR, NODES = "features", "sonar", "nodes"  # listeners beside that of metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class WebConfig(IngestConfig):
    """How the listener of metrics is protected."""

    web_config_file: str | None = option(
        PATH,
        None,
        "TLS, client certificates and users of the metrics listener: a file as Prometheus' exporters have it",
        flag="--web.config.file",
        is_common=True,
    )
    web_config_for: tuple[str, ...] = option(
        words(FEATURES, SONAR, NODES), (), "listeners that take TLS, not users, from web.config_file as well"
    )
    web_systemd_socket: bool = option(BOOLEAN, False, "listen on the sockets that systemd hands over")
    web_hosts: str | None = option(
        TEXT,
        None,
        "names by which the metrics listener is asked, with commas; others are refused. If not set: any, but"
        " on loopback only addresses and localhost",
    )
