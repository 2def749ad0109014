"""Settings of the metrics listener: TLS, users, host names, links."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.resolve import BOOLEAN, PATH, TEXT, option, words
from jobfeatures_exporter.ingest.config import IngestConfig
from jobfeatures_exporter.web.links import LINK

FEATURES, SONAR, NODES = "features", "sonar", "nodes"  # listeners other than metrics


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class WebConfig(IngestConfig):
    """How the listener of metrics is protected."""

    web_config_file: str | None = option(
        PATH,
        None,
        "TLS, client certificates and users of the metrics listener, as of Prometheus' exporters",
        flag="--web.config.file",
        is_common=True,
    )
    web_config_for: tuple[str, ...] = option(
        words(FEATURES, SONAR, NODES), (), "other listeners that use TLS (not users) from web.config_file"
    )
    web_systemd_socket: bool = option(BOOLEAN, False, "listen on systemd's sockets")
    web_own_socket: str | None = option(
        PATH, None, "UNIX socket that shows users their own jobs, e.g. /run/jobfeatures-own/socket"
    )
    web_grafana_url: str | None = option(
        LINK, None, "link from a job's page to Grafana, with {job}, {system} and {node}"
    )
    web_node_url: str | None = option(
        LINK, None, "controller role: page of a node, with {node}, for links from found jobs"
    )
    web_job_arguments: bool = option(
        BOOLEAN, False, "show arguments of processes on a job's page; they may hold passwords"
    )
    web_hosts: str | None = option(
        TEXT,
        None,
        "host names accepted by the metrics listener, with commas; default: any, on loopback addresses and "
        "localhost",
    )
