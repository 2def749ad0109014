"""The daemon's settings: those of `jobfeatures`, and its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from typing import TYPE_CHECKING, ClassVar

from jobfeatures.batch import SYSTEMS
from jobfeatures.config import Config
from jobfeatures.records.model import NODE_STATES
from jobfeatures.settings.resolve import (
    ADDRESS,
    BOOLEAN,
    COUNT,
    DURATION,
    PATH,
    POSITIVE_DURATION,
    choice,
    node_option,
    option,
    words,
)
from jobfeatures.system.logs import FORMATS, LEVELS
from jobfeatures_exporter.model.snapshot import Kind
from jobfeatures_exporter.sampling.bpf import ReaderConfig
from jobfeatures_exporter.sampling.gpu import DRIVERS as GPU_DRIVERS
from jobfeatures_exporter.sampling.gpu import NO_GPUS
from jobfeatures_exporter.sampling.power import PowerConfig
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from jobfeatures_exporter.scrape.collectors import COLLECTORS, NODE, ROLES
from jobfeatures_exporter.scrape.profiles import PROFILES
from jobfeatures_exporter.sonar.config import SonarConfig
from jobfeatures_exporter.web.config import WebConfig

AUTO = "auto"


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class DaemonConfig(WebConfig, SonarConfig, PowerConfig, ReaderConfig, Config):
    """The daemon's settings except those of its collectors."""

    role: str = option(
        choice(*ROLES),
        NODE,
        "node: measures this machine; controller: once per cluster, polls queue and nodes",
        is_common=True,
    )
    web_listen_address: str = option(
        ADDRESS, "127.0.0.1:9819", "address of /metrics; job and user names are visible there", is_common=True
    )
    batch_sources: tuple[str, ...] = node_option(
        words(AUTO, *SYSTEMS),
        (AUTO,),
        "batch systems to query; auto: those found here, and spool if its folder is set",
        is_common=True,
    )
    batch_interval_secs: float = node_option(POSITIVE_DURATION, 60.0, "how often a batch system is polled")
    scrape_deadline_secs: float = node_option(
        POSITIVE_DURATION, 5.0, "after which a scrape returns what is available"
    )
    features_publish: bool = option(BOOLEAN, True, "keep the feature directories of the jobs on this node")
    metrics_max_series: int = node_option(
        COUNT, 20_000, "most series, 0: unlimited; beyond, the lightest jobs are summed", is_common=True
    )
    metrics_profile: tuple[str, ...] = node_option(
        words(*PROFILES), (), "other exporters' names to show in addition", is_common=True
    )
    jobs_kinds: tuple[str, ...] = node_option(
        words(*(each.value for each in Kind)),
        (Kind.BATCH.value,),
        "what gets series; other kinds than batch are their batch_system",
        is_common=True,
    )
    jobs_retain_secs: float = node_option(
        DURATION, 120.0, "how long an ended job is shown, at least until the next scrape"
    )
    jobs_steps: bool = option(BOOLEAN, False, "read the steps of jobs too")
    jobs_process_io: bool = option(BOOLEAN, True, "read the I/O of jobs' processes")
    processes_top: int = option(
        COUNT, 10, "commands that collector.processes shows of a job, by CPU time and by memory"
    )
    controller_interval_secs: float = option(
        POSITIVE_DURATION, 60.0, "controller role: how often queue and nodes are polled"
    )
    controller_timeout_secs: float = option(
        POSITIVE_DURATION, 60.0, "controller role: time limit of one answer"
    )
    controller_history_secs: float = option(
        POSITIVE_DURATION, 3600.0, "how far back accounting is queried at the start, and by jobs"
    )
    controller_listen: str | None = option(
        ADDRESS,
        None,
        "controller role: address where nodes query their jobs, e.g. :9821; beyond loopback only with TLS "
        "(nodes in web.config_for)",
    )
    controller_secret_file: str | None = option(
        PATH, None, "controller role: file with the secret of nodes' tokens"
    )
    controller_sd_port: int = option(
        COUNT, 9819, "port of the nodes' exporters, as /sd lists them", live="controller"
    )
    controller_sd_host: str = option(
        choice("name", "address"),
        "name",
        "how /sd names a node: by name or address in the batch system",
        live="controller",
    )
    controller_sd_skip: tuple[str, ...] = option(
        words(*NODE_STATES), (), "states of nodes that are left out of /sd", live="controller"
    )
    schedule_top_users: int = option(
        COUNT, 20, "controller role: users with series of their own, in each collector"
    )
    gpu_drivers: tuple[str, ...] = option(
        words(AUTO, NO_GPUS, *GPU_DRIVERS),
        (AUTO,),
        "GPU drivers to use; auto: those whose kernel driver is loaded",
    )
    gpu_job_map_directory: str | None = option(
        PATH, None, "directory for the jobs of each GPU, as dcgm-exporter reads them"
    )
    log_level: str = option(
        choice(*LEVELS), "info", "least severe messages to log", is_common=True, live="node controller"
    )
    log_format: str = option(choice(*FORMATS), "logfmt", "form of a log line", live="node controller")

    FOLDED: ClassVar[Mapping[str, str]] = {
        "collector": f"--[no-]collector.NAME switches a section of the metrics: {', '.join(COLLECTORS)}. "
        f"All are on but {', '.join(name for name, each in COLLECTORS.items() if not each.enabled)}."
    }

    def wants(self, what: str) -> bool:
        """Return whether a profile or the cores collector needs an optional reading (`reads_…`)."""
        own = what == "reads_cores" and self._runs("cores")
        return own or any(getattr(PROFILES[each], what) for each in self.metrics_profile)

    def of_sampler(self) -> SamplerSettings:
        """Return what a sampler reads on this node, without optional readings."""
        return SamplerSettings(
            procfs=self.path_procfs, cgroup=self.path_cgroup, node_name=self.node_name, batch=self
        )

    def enabled_collectors(self) -> frozenset[str]:
        """Return the names of the collectors that run."""
        return frozenset(filter(self._runs, COLLECTORS))

    def _runs(self, collector: str) -> bool:
        return self.role in COLLECTORS[collector].roles and getattr(self, f"collector_{collector}")


if TYPE_CHECKING:
    ExporterConfig = DaemonConfig
else:
    # One boolean per collector, so that a new collector takes one line in its table and nothing else.
    ExporterConfig = make_dataclass(
        "ExporterConfig",
        [
            (
                f"collector_{name}",
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
        bases=(DaemonConfig,),
        frozen=True,
        kw_only=True,
        namespace={"__doc__": "All settings of the daemon."},
    )
