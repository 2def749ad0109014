"""All settings of the daemon: those that hooks and `jobfeatures` share, and its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from typing import Any, ClassVar

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.config import Config
from jobfeatures.records.model import NODE_STATES
from jobfeatures.settings.declare import (
    ADDRESS,
    BOOLEAN,
    COUNT,
    DURATION,
    PATH,
    POSITIVE_DURATION,
    choice,
    node_option,
    option,
    record,
    words,
)
from jobfeatures.system.logs import FORMATS, LEVELS
from jobfeatures_exporter.ingest.config import IngestSettings
from jobfeatures_exporter.model.snapshot import Kind
from jobfeatures_exporter.privacy.config import PrivacySettings
from jobfeatures_exporter.sampling import PathsSettings
from jobfeatures_exporter.sampling.bpf import ReaderSettings
from jobfeatures_exporter.sampling.gpu import DRIVERS as GPU_DRIVERS
from jobfeatures_exporter.sampling.gpu import NO_GPUS
from jobfeatures_exporter.sampling.performance import WorkSettings
from jobfeatures_exporter.sampling.power import PowerSettings
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from jobfeatures_exporter.scrape.collectors import COLLECTORS, NODE, ROLES
from jobfeatures_exporter.scrape.profiles import PROFILES
from jobfeatures_exporter.sonar.config import SonarSettings
from jobfeatures_exporter.web.config import WebSettings

AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class PollingSettings:
    """Settings: which batch systems a node polls, and how often."""

    sources: tuple[str, ...] = node_option(
        words(AUTO, *SYSTEMS),
        (AUTO,),
        "batch systems to query; auto: those found here, and spool if its folder is set",
        is_common=True,
    )
    interval_secs: float = node_option(POSITIVE_DURATION, 60.0, "how often a batch system is polled")


@dataclass(frozen=True, kw_only=True)
class MetricsSettings:
    """Settings: the most series that are shown, and which other exporters' names are shown in addition."""

    max_series: int = node_option(
        COUNT, 20_000, "most series, 0: unlimited; beyond, the lightest jobs are summed", is_common=True
    )
    profile: tuple[str, ...] = node_option(
        words(*PROFILES), (), "other exporters' names to show in addition", is_common=True
    )


@dataclass(frozen=True, kw_only=True)
class JobsSettings:
    """Settings: which jobs are shown, and what is read of them."""

    kinds: tuple[str, ...] = node_option(
        words(*(each.value for each in Kind)),
        (Kind.BATCH.value,),
        "what gets series; other kinds than batch are their batch_system",
        is_common=True,
    )
    retain_secs: float = node_option(
        DURATION, 120.0, "how long an ended job is shown, at least until the next scrape"
    )
    steps: bool = option(BOOLEAN, False, "read the steps of jobs too")
    process_io: bool = option(BOOLEAN, True, "read the I/O of jobs' processes")


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """Settings: what the controller role queries, how often, and what it offers to nodes."""

    interval_secs: float = option(
        POSITIVE_DURATION, 60.0, "controller role: how often queue and nodes are polled"
    )
    timeout_secs: float = option(POSITIVE_DURATION, 60.0, "controller role: time limit of one answer")
    history_secs: float = option(
        POSITIVE_DURATION, 3600.0, "how far back accounting is queried at the start, and by jobs"
    )
    listen: str | None = option(
        ADDRESS,
        None,
        "controller role: address where nodes query their jobs, e.g. :9821; beyond loopback only with TLS "
        "(nodes in web.config_for)",
    )
    secret_file: str | None = option(PATH, None, "controller role: file with the secret of nodes' tokens")
    sd_port: int = option(COUNT, 9819, "port of the nodes' exporters, as /sd lists them", live="controller")
    sd_host: str = option(
        choice("name", "address"),
        "name",
        "how /sd names a node: by name or address in the batch system",
        live="controller",
    )
    sd_skip: tuple[str, ...] = option(
        words(*NODE_STATES), (), "states of nodes that are left out of /sd", live="controller"
    )


@dataclass(frozen=True, kw_only=True)
class GpuSettings:
    """Settings: which GPU drivers are read, and where each GPU's jobs are written for dcgm-exporter."""

    drivers: tuple[str, ...] = option(
        words(AUTO, NO_GPUS, *GPU_DRIVERS),
        (AUTO,),
        "GPU drivers to use; auto: those whose kernel driver is loaded",
    )
    job_map_directory: str | None = option(
        PATH, None, "directory for the jobs of each GPU, as dcgm-exporter reads them"
    )


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """Settings: what is logged, and in which form."""

    level: str = option(
        choice(*LEVELS), "info", "least severe messages to log", is_common=True, live="node controller"
    )
    format: str = option(choice(*FORMATS), "logfmt", "form of a log line", live="node controller")


# One boolean per collector, so that a new collector takes one line in its table and nothing else.
CollectorSettings = make_dataclass(
    "CollectorSettings",
    [
        (
            name,
            bool,
            option(
                BOOLEAN,
                each.enabled,
                f"collector: {each.meaning}",
                live=" ".join(ROLES) if each.is_live else "",
            ),
        )
        for name, each in COLLECTORS.items()
    ],
    frozen=True,
    kw_only=True,
    namespace={"__doc__": "Which collectors run, of those of the role."},
)


@dataclass(frozen=True, kw_only=True)
class ExporterConfig:
    """All settings of the daemon."""

    shared: Config = record(Config, "")
    path: PathsSettings = record(PathsSettings)
    work: WorkSettings = record(WorkSettings)
    reader: ReaderSettings = record(ReaderSettings, "sampling")
    sample_interval_secs: float = option(
        POSITIVE_DURATION, 10.0, "how often the node is sampled between scrapes"
    )
    power: PowerSettings = record(PowerSettings)
    privacy: PrivacySettings = record(PrivacySettings)
    sonar: SonarSettings = record(SonarSettings)
    ingest: IngestSettings = record(IngestSettings, "sonar")
    web: WebSettings = record(WebSettings)
    role: str = option(
        choice(*ROLES),
        NODE,
        "node: measures this machine; controller: once per cluster, polls queue and nodes",
        is_common=True,
    )
    web_listen_address: str = option(
        ADDRESS, "127.0.0.1:9819", "address of /metrics; job and user names are visible there", is_common=True
    )
    polling: PollingSettings = record(PollingSettings, "batch")
    scrape_deadline_secs: float = node_option(
        POSITIVE_DURATION, 5.0, "after which a scrape returns what is available"
    )
    features_publish: bool = option(BOOLEAN, True, "keep the feature directories of the jobs on this node")
    metrics: MetricsSettings = record(MetricsSettings)
    jobs: JobsSettings = record(JobsSettings)
    processes_top: int = option(
        COUNT, 10, "commands that collector.processes shows of a job, by CPU time and by memory"
    )
    cluster: ClusterSettings = record(ClusterSettings, "controller")
    schedule_top_users: int = option(
        COUNT, 20, "controller role: users with series of their own, in each collector"
    )
    gpu: GpuSettings = record(GpuSettings)
    log: LogSettings = record(LogSettings)
    collector: Any = record(CollectorSettings)  # a boolean of each

    FOLDED: ClassVar[Mapping[str, str]] = {
        "collector": f"--[no-]collector.NAME switches a section of the metrics: {', '.join(COLLECTORS)}. "
        f"All are on but {', '.join(name for name, each in COLLECTORS.items() if not each.enabled)}."
    }

    def wants(self, what: str) -> bool:
        """Return whether a profile or collector that is enabled needs the optional reading `what`.

        `what` is the name of an attribute of `NamesOfOthers`, such as "reads_cores" (CPU time by core).
        """
        own = what == "reads_cores" and self._runs("cores")
        return own or any(getattr(PROFILES[each], what) for each in self.metrics.profile)

    def of_sampler(self) -> SamplerSettings:
        """Return the settings for sampling this node.

        The optional readings (job steps, the I/O of processes, commands) are off; callers can switch them on.
        """
        return SamplerSettings(
            procfs=self.path.procfs,
            cgroup=self.path.cgroup,
            node_name=self.shared.node.name,
            batch=self.shared.batch,
        )

    def of_system(self, name: str) -> SystemSettings[Any]:
        """Return the settings of the batch system `name`, with the paths of /proc and control groups."""
        return self.shared.batch.of(name, procfs=self.path.procfs, cgroup=self.path.cgroup)

    def enabled_collectors(self) -> frozenset[str]:
        """Return the names of the collectors that are enabled and belong to the configured role."""
        return frozenset(filter(self._runs, COLLECTORS))

    def _runs(self, collector: str) -> bool:
        return self.role in COLLECTORS[collector].roles and getattr(self.collector, collector)
