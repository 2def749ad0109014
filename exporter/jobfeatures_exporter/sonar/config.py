"""The settings for sending in Sonar's format."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.config import NodeSettings
from jobfeatures.formats.sonar import CURRENT, SEED
from jobfeatures.settings.resolve import BOOLEAN, DURATION, PATH, POSITIVE_DURATION, choice, option, words
from jobfeatures_exporter.privacy.config import PrivacyConfig
from jobfeatures_exporter.sampling import PathsConfig
from jobfeatures_exporter.sampling.host.sysinfo import SVG, TEXT
from jobfeatures_exporter.sinks.config import SinksConfig


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class SonarConfig(SinksConfig, PrivacyConfig, PathsConfig, NodeSettings):
    """What is sent, how often, of which node, where to, and how names are shown."""

    sonar_profile: str = option(
        choice(CURRENT, SEED), CURRENT, "form of the documents: Sonar 0.18's or 0.13's"
    )
    sonar_sample_interval_secs: float = option(
        POSITIVE_DURATION, 300.0, "how often samples are sent, at multiples on the clock (UTC)"
    )
    sonar_sysinfo_interval_secs: float = option(
        POSITIVE_DURATION, 86400.0, "how often the node's hardware is sent, likewise, and at the start"
    )
    sonar_jobs_interval_secs: float = option(
        POSITIVE_DURATION, 300.0, "how often the controller role sends jobs, likewise"
    )
    sonar_cluster_interval_secs: float = option(
        POSITIVE_DURATION,
        300.0,
        "how often the controller role sends partitions and the states of nodes, likewise",
    )
    sonar_jobs_stateless: bool = option(BOOLEAN, False, "send everything about every job each time")
    sonar_token_file: str | None = option(
        PATH, None, "file with the token in every document, readable by its owner only"
    )
    sonar_topology: tuple[str, ...] = option(
        words(SVG, TEXT), (SVG, TEXT), "topology by lstopo, sent with the node's hardware"
    )
    sonar_rollup: bool = option(BOOLEAN, False, "merge childless processes of one job, parent and command")
    sonar_exclude_system_jobs: bool = option(BOOLEAN, True, "leave out processes of users below 1000")
    sonar_batch_only: bool = option(BOOLEAN, False, "leave out all but batch jobs")
    sonar_min_cpu_time_secs: float = option(DURATION, 0.0, "leave out jobs that have used less CPU time")
