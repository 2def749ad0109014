"""The settings for sending documents in Sonar's format."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.formats.sonar import CURRENT, SEED
from jobfeatures.settings.declare import (
    BOOLEAN,
    DURATION,
    PATH,
    POSITIVE_DURATION,
    choice,
    option,
    record,
    words,
)
from jobfeatures_exporter.sampling.host.sysinfo import SVG, TEXT
from jobfeatures_exporter.sinks.config import SinksSettings


@dataclass(frozen=True, kw_only=True)
class SonarSettings:
    """Settings: which of Sonar's documents are sent, how often, and where to."""

    sinks: SinksSettings = record(SinksSettings, "")
    profile: str = option(choice(CURRENT, SEED), CURRENT, "form of the documents: Sonar 0.18's or 0.13's")
    sample_interval_secs: float = option(
        POSITIVE_DURATION, 300.0, "how often samples are sent, at multiples on the clock (UTC)"
    )
    sysinfo_interval_secs: float = option(
        POSITIVE_DURATION, 86400.0, "how often the node's hardware is sent, likewise, and at the start"
    )
    jobs_interval_secs: float = option(
        POSITIVE_DURATION, 300.0, "how often the controller role sends jobs, likewise"
    )
    cluster_interval_secs: float = option(
        POSITIVE_DURATION,
        300.0,
        "how often the controller role sends partitions and the states of nodes, likewise",
    )
    jobs_stateless: bool = option(BOOLEAN, False, "send everything about every job each time")
    token_file: str | None = option(
        PATH, None, "file with the token in every document, readable by its owner only"
    )
    topology: tuple[str, ...] = option(
        words(SVG, TEXT), (SVG, TEXT), "topology by lstopo, sent with the node's hardware"
    )
    rollup: bool = option(BOOLEAN, False, "merge childless processes of one job, parent and command")
    exclude_system_jobs: bool = option(BOOLEAN, True, "leave out processes of users below 1000")
    batch_only: bool = option(BOOLEAN, False, "leave out all but batch jobs")
    min_cpu_time_secs: float = option(DURATION, 0.0, "leave out jobs that have used less CPU time")
