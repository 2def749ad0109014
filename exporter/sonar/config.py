"""The settings of what is sent in Sonar's format."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.privacy.config import PrivacyConfig
from exporter.sampling.sysinfo import SVG, TEXT
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
    setting,
    words,
)
from jobfeatures.settings import TEXT as LINE

# Name → the file in exporter/sinks.
SINKS = {"stdout": "stdout", "tree": "tree", "http": "http", "kafka": "kafka"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SonarConfig(PrivacyConfig):
    """What is sent, how often, and where to."""

    sonar_cluster: str | None = setting(
        "sonar.cluster", LINE, None, "name of the cluster that stands in every document, e.g. fox.example.org"
    )
    sonar_profile: str = setting(
        "sonar.profile", choice(CURRENT, SEED), CURRENT, "form of the documents: Sonar 0.18's or 0.13's"
    )
    sonar_sinks: tuple[str, ...] = setting(
        "sonar.sinks", words(*SINKS), (), "where the daemon sends documents; none is sent if empty"
    )
    sonar_sample_interval_secs: float = setting(
        "sonar.sample_interval",
        POSITIVE_DURATION,
        300.0,
        "how often samples are sent, at multiples of this on the clock (UTC)",
    )
    sonar_sysinfo_interval_secs: float = setting(
        "sonar.sysinfo_interval",
        POSITIVE_DURATION,
        86400.0,
        "how often the node's configuration is sent, likewise, and at the start",
    )
    sonar_jobs_interval_secs: float = setting(
        "sonar.jobs_interval",
        POSITIVE_DURATION,
        300.0,
        "how often the controller role sends jobs, likewise",
    )
    sonar_cluster_interval_secs: float = setting(
        "sonar.cluster_interval",
        POSITIVE_DURATION,
        300.0,
        "how often the controller role sends partitions and the states of nodes, likewise",
    )
    sonar_jobs_stateless: bool = setting(
        "sonar.jobs_stateless",
        BOOLEAN,
        False,
        "send all that is known of every job each time, not only what is new",
    )
    sonar_topology: tuple[str, ...] = setting(
        "sonar.topology",
        words(SVG, TEXT),
        (SVG, TEXT),
        "hwloc's pictures of the node that are sent with its configuration, where lstopo is installed",
    )
    sonar_rollup: bool = setting(
        "sonar.rollup",
        BOOLEAN,
        False,
        "send childless processes of one batch job, parent and command as one",
    )
    sonar_exclude_system_jobs: bool = setting(
        "sonar.exclude_system_jobs", BOOLEAN, True, "leave out processes of users below 1000"
    )
    sonar_batch_only: bool = setting("sonar.batch_only", BOOLEAN, False, "leave out all but batch jobs")
    sonar_min_cpu_time_secs: float = setting(
        "sonar.min_cpu_time", DURATION, 0.0, "leave out jobs whose processes have used less CPU time together"
    )
    sonar_spool_directory: str | None = setting(
        "sonar.spool_directory",
        PATH,
        None,
        "folder, of root alone, where documents wait until they are sent; in memory if not set",
    )
    sonar_spool_max_bytes: int = setting(
        "sonar.spool_max_bytes", SIZE, 64 * 2**20, "what may wait for each sink; the oldest is dropped beyond"
    )
    sonar_spool_max_files: int = setting(
        "sonar.spool_max_files", COUNT, 10_000, "how many documents may wait for each sink"
    )
    sonar_send_timeout_secs: float = setting(
        "sonar.send_timeout", POSITIVE_DURATION, 30.0, "how long a sink waits for the far side"
    )
    sonar_sending_window_secs: float = setting(
        "sonar.sending_window",
        DURATION,
        60.0,
        "documents go to http and kafka at a random time within this, so that nodes do not send at once",
    )
    sonar_tree_directory: str | None = setting(
        "sonar.tree_directory", PATH, None, "folder of sink tree: YEAR/MONTH/DAY/0+TYPE-NODE.json below it"
    )
    sonar_tree_fsync: bool = setting(
        "sonar.tree_fsync", BOOLEAN, False, "sink tree waits until each document is on the disk"
    )
    sonar_http_url: str | None = setting(
        "sonar.http_url", URL, None, "address of sink http: documents are posted to URL/TYPE"
    )
    sonar_http_user: str | None = setting(
        "sonar.http_user", LINE, None, "user for basic authentication there, if not the cluster's name"
    )
    sonar_http_password_file: str | None = setting(
        "sonar.http_password_file", PATH, None, "file with the password for it, read at each request"
    )
    sonar_http_ca_file: str | None = setting(
        "sonar.http_ca_file", PATH, None, "certificates (PEM) to trust there instead of the system's"
    )
    sonar_kafka_brokers: str | None = setting(
        "sonar.kafka_brokers", LINE, None, "brokers of sink kafka: HOST:PORT, several with commas"
    )
    sonar_kafka_ca_file: str | None = setting(
        "sonar.kafka_ca_file", PATH, None, "certificates (PEM) to trust there; switches TLS on"
    )
    sonar_kafka_user: str | None = setting(
        "sonar.kafka_user", LINE, None, "user there (SASL PLAIN), if not the cluster's name"
    )
    sonar_kafka_password_file: str | None = setting(
        "sonar.kafka_password_file", PATH, None, "file with its password; switches SASL on"
    )
    sonar_topic_prefix: str | None = setting(
        "sonar.topic_prefix",
        LINE,
        None,
        "stands, with a dot, before topics of sink kafka and types of sink http",
    )
