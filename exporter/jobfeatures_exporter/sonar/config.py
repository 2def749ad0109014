"""The settings of what is sent in Sonar's format."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.formats.sonar.envelopes import CURRENT, SEED
from jobfeatures.settings import (
    BOOLEAN,
    COUNT,
    DURATION,
    PATH,
    POSITIVE_DURATION,
    SIZE,
    URL,
    choice,
    option,
    words,
)
from jobfeatures.settings import TEXT as LINE
from jobfeatures_exporter.privacy.config import PrivacyConfig
from jobfeatures_exporter.sampling.sysinfo import SVG, TEXT

# Name → the file in exporter/jobfeatures_exporter/sinks.
SINKS = {"stdout": "stdout", "tree": "tree", "http": "http", "kafka": "kafka"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SonarConfig(PrivacyConfig):
    """What is sent, how often, and where to."""

    sonar_cluster: str | None = option(
        LINE, None, "name of the cluster that stands in every document, e.g. fox.example.org"
    )
    sonar_profile: str = option(
        choice(CURRENT, SEED), CURRENT, "form of the documents: Sonar 0.18's or 0.13's"
    )
    sonar_sinks: tuple[str, ...] = option(
        words(*SINKS), (), "where the daemon sends documents; none is sent if empty"
    )
    sonar_sample_interval_secs: float = option(
        POSITIVE_DURATION, 300.0, "how often samples are sent, at multiples of this on the clock (UTC)"
    )
    sonar_sysinfo_interval_secs: float = option(
        POSITIVE_DURATION, 86400.0, "how often the node's configuration is sent, likewise, and at the start"
    )
    sonar_jobs_interval_secs: float = option(
        POSITIVE_DURATION, 300.0, "how often the controller role sends jobs, likewise"
    )
    sonar_cluster_interval_secs: float = option(
        POSITIVE_DURATION,
        300.0,
        "how often the controller role sends partitions and the states of nodes, likewise",
    )
    sonar_jobs_stateless: bool = option(
        BOOLEAN, False, "send all that is known of every job each time, not only what is new"
    )
    sonar_topology: tuple[str, ...] = option(
        words(SVG, TEXT),
        (SVG, TEXT),
        "hwloc's pictures of the node that are sent with its configuration, where lstopo is installed",
    )
    sonar_rollup: bool = option(
        BOOLEAN, False, "send childless processes of one batch job, parent and command as one"
    )
    sonar_exclude_system_jobs: bool = option(BOOLEAN, True, "leave out processes of users below 1000")
    sonar_batch_only: bool = option(BOOLEAN, False, "leave out all but batch jobs")
    sonar_min_cpu_time_secs: float = option(
        DURATION, 0.0, "leave out jobs whose processes have used less CPU time together"
    )
    sonar_spool_directory: str | None = option(
        PATH, None, "folder, of root alone, where documents wait until they are sent; in memory if not set"
    )
    sonar_spool_max_bytes: int = option(
        SIZE, 64 * 2**20, "what may wait for each sink; the oldest is dropped beyond"
    )
    sonar_spool_max_files: int = option(COUNT, 10_000, "how many documents may wait for each sink")
    sonar_send_timeout_secs: float = option(POSITIVE_DURATION, 30.0, "how long a sink waits for the far side")
    sonar_sending_window_secs: float = option(
        DURATION,
        60.0,
        "documents go to http and kafka at a random time within this, so that nodes do not send at once",
    )
    sonar_tree_directory: str | None = option(
        PATH, None, "folder of sink tree: YEAR/MONTH/DAY/0+TYPE-NODE.json below it"
    )
    sonar_tree_fsync: bool = option(BOOLEAN, False, "sink tree waits until each document is on the disk")
    sonar_http_url: str | None = option(URL, None, "address of sink http: documents are posted to URL/TYPE")
    sonar_http_user: str | None = option(
        LINE, None, "user for basic authentication there, if not the cluster's name"
    )
    sonar_http_password_file: str | None = option(
        PATH, None, "file with the password for it, read at each request"
    )
    sonar_http_ca_file: str | None = option(
        PATH, None, "certificates (PEM) to trust there instead of the system's"
    )
    sonar_kafka_brokers: str | None = option(
        LINE, None, "brokers of sink kafka: HOST:PORT, several with commas"
    )
    sonar_kafka_ca_file: str | None = option(PATH, None, "certificates (PEM) to trust there; switches TLS on")
    sonar_kafka_user: str | None = option(LINE, None, "user there (SASL PLAIN), if not the cluster's name")
    sonar_kafka_password_file: str | None = option(PATH, None, "file with its password; switches SASL on")
    sonar_topic_prefix: str | None = option(
        LINE, None, "stands, with a dot, before topics of sink kafka and types of sink http"
    )
