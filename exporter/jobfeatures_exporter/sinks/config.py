"""The settings of sinks."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.resolve import PATH, SIZE, URL, option, words
from jobfeatures.settings.resolve import TEXT as LINE

SINKS = ("stdout", "tree", "http", "kafka")  # each is a module of this package


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class SinksConfig:
    """Where documents are sent, and where they wait."""

    sonar_cluster: str | None = option(
        LINE, None, "name of the cluster in every document, e.g. fox.example.org", is_common=True
    )
    sonar_sinks: tuple[str, ...] = option(words(*SINKS), (), "where documents are sent", is_common=True)
    sonar_spool_directory: str | None = option(
        PATH, None, "root's folder where documents wait; default: in memory"
    )
    sonar_spool_max_bytes: int = option(
        SIZE, 64 * 2**20, "bytes that may wait for each sink; beyond, the oldest are dropped"
    )
    sonar_tree_directory: str | None = option(
        PATH, None, "folder of sink tree: YEAR/MONTH/DAY/0+TYPE-NODE.json"
    )
    sonar_http_url: str | None = option(URL, None, "address of sink http: documents are posted to URL/TYPE")
    sonar_http_user: str | None = option(LINE, None, "user there, if not the cluster's name")
    sonar_http_password_file: str | None = option(PATH, None, "file with the password, read at each request")
    sonar_http_ca_file: str | None = option(PATH, None, "CA (PEM) to trust there instead of the system's")
    sonar_kafka_brokers: str | None = option(
        LINE, None, "brokers of sink kafka: HOST:PORT, several with commas"
    )
    sonar_kafka_ca_file: str | None = option(PATH, None, "CA (PEM) to trust there; switches TLS on")
    sonar_kafka_user: str | None = option(LINE, None, "user there (SASL PLAIN), if not the cluster's name")
    sonar_kafka_password_file: str | None = option(PATH, None, "file with its password; switches SASL on")
    sonar_topic_prefix: str | None = option(
        LINE, None, "prefix, with a dot, of topics of sink kafka and types of sink http"
    )
