"""The settings of sinks of Sonar's documents."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.declare import PATH, SIZE, URL, option, words
from jobfeatures.settings.declare import TEXT as LINE

SINKS = ("stdout", "tree", "http", "kafka")  # each is a module of this package


@dataclass(frozen=True, kw_only=True)
class SinksSettings:
    """Settings: where Sonar's documents are sent, and where they wait for a receiver."""

    cluster: str | None = option(
        LINE, None, "name of the cluster in every document, e.g. fox.example.org", is_common=True
    )
    chosen: tuple[str, ...] = option(
        words(*SINKS), (), "where documents are sent", key="sonar.sinks", is_common=True
    )
    spool_directory: str | None = option(PATH, None, "root's folder where documents wait; default: in memory")
    spool_max_bytes: int = option(
        SIZE, 64 * 2**20, "bytes that may wait for each sink; beyond, the oldest are dropped"
    )
    tree_directory: str | None = option(PATH, None, "folder of sink tree: YEAR/MONTH/DAY/0+TYPE-NODE.json")
    http_url: str | None = option(URL, None, "address of sink http: documents are posted to URL/TYPE")
    http_user: str | None = option(LINE, None, "user there, if not the cluster's name")
    http_password_file: str | None = option(PATH, None, "file with the password, read at each request")
    http_ca_file: str | None = option(PATH, None, "CA (PEM) to trust there instead of the system's")
    kafka_brokers: str | None = option(LINE, None, "brokers of sink kafka: HOST:PORT, several with commas")
    kafka_ca_file: str | None = option(PATH, None, "CA (PEM) to trust there; switches TLS on")
    kafka_user: str | None = option(LINE, None, "user there (SASL PLAIN), if not the cluster's name")
    kafka_password_file: str | None = option(PATH, None, "file with its password; switches SASL on")
    topic_prefix: str | None = option(
        LINE, None, "prefix, with a dot, of topics of sink kafka and types of sink http"
    )
