"""The daemon's settings: those of `jobfeatures`, and its own."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import TYPE_CHECKING

from exporter.collectors import COLLECTORS
from exporter.snapshot import Kind
from jobfeatures.batch import SYSTEMS
from jobfeatures.config import Config
from jobfeatures.logs import FORMATS, LEVELS
from jobfeatures.settings import ADDRESS, BOOLEAN, COUNT, PATH, POSITIVE_DURATION, choice, setting, words

AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonConfig(Config):
    """The daemon's settings but for its collectors."""

    web_listen_address: str = setting(
        "web.listen_address",
        ADDRESS,
        "127.0.0.1:9819",
        "where /metrics is served; job and user names show there, so beyond loopback only by decision",
    )
    path_procfs: str = setting("path.procfs", PATH, "/proc", "where procfs is mounted")
    path_sysfs: str = setting("path.sysfs", PATH, "/sys", "where sysfs is mounted")
    path_cgroup: str = setting("path.cgroup", PATH, "/sys/fs/cgroup", "where control groups are mounted")
    batch_sources: tuple[str, ...] = setting(
        "batch.sources",
        words(AUTO, *SYSTEMS),
        (AUTO,),
        "batch systems to ask; auto: slurm where scontrol is installed, spool where its folder is set",
    )
    batch_interval_secs: float = setting(
        "batch.interval", POSITIVE_DURATION, 60.0, "how often a batch system is asked, at most and at least"
    )
    sample_interval_secs: float = setting(
        "sample.interval", POSITIVE_DURATION, 10.0, "how often the node is read between scrapes"
    )
    scrape_deadline_secs: float = setting(
        "scrape.deadline", POSITIVE_DURATION, 5.0, "when a scrape answers with what there is"
    )
    features_publish: bool = setting(
        "features.publish", BOOLEAN, True, "keep the feature directories of the jobs on this node"
    )
    features_max_connections: int = setting(
        "features.max_connections", COUNT, 256, "connections of the features' listener at once"
    )
    features_rate: int = setting(
        "features.rate", COUNT, 20_000, "requests a second that the features' listener answers"
    )
    features_job_rate: int = setting(
        "features.job_rate", COUNT, 100, "requests a second that it answers to one job; a write counts as 10"
    )
    jobs_kinds: tuple[str, ...] = setting(
        "jobs.kinds",
        words(*(each.value for each in Kind)),
        (Kind.BATCH.value,),
        "whose series are shown; all but batch jobs stand under their kind as batch_system, "
        "process groups under none",
    )
    log_level: str = setting("log.level", choice(*LEVELS), "info", "least severe messages to log")
    log_format: str = setting("log.format", choice(*FORMATS), "logfmt", "form of a log line")

    def enabled_collectors(self) -> frozenset[str]:
        """Return the names of the collectors that run."""
        return frozenset(name for name in COLLECTORS if getattr(self, f"collector_{name}"))


if TYPE_CHECKING:
    ExporterConfig = DaemonConfig
else:
    # One boolean a collector, so that a new collector is a line in its table and nowhere else.
    ExporterConfig = make_dataclass(
        "ExporterConfig",
        [
            (
                f"collector_{name}",
                bool,
                setting(f"collector.{name}", BOOLEAN, each.enabled, f"collector: {each.meaning}"),
            )
            for name, each in COLLECTORS.items()
        ],
        bases=(DaemonConfig,),
        frozen=True,
        kw_only=True,
        namespace={"__doc__": "All settings of the daemon."},
    )
