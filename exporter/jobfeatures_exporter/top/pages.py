"""Gets the figures that `top` shows: from a running daemon, without privileges, or by own sampling."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import psutil

from jobfeatures.errors import SourceError, shown
from jobfeatures.records.metrics import JOB_INFO, NODE_CPUS, NODE_READ_AT
from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures.records.series import parse_lines
from jobfeatures.settings.access import Access
from jobfeatures.system.clock import SystemClock
from jobfeatures.system.httpget import Server
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.families.exposition import Number
from jobfeatures_exporter.model.snapshot import FigureSource, Snapshot
from jobfeatures_exporter.scrape.collectors.node import BOOT
from jobfeatures_exporter.view.job import find_jobs
from jobfeatures_exporter.view.node import METRICS, NAMES
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.web.hosts import is_loopback

if TYPE_CHECKING:
    from jobfeatures_exporter.sampling.sampler import Sampler

SIGNS = (NODE_READ_AT, NODE_CPUS)  # a node's page has one of these from the start
WANTED = NAMES | {BOOT.sample_name}
SAME_BOOT_SECS = 2  # the kernel derives the boot time from an adjustable clock
ELSEWHERE = "its processes are listed where top runs on the node itself"
READY_SECS = 10.0  # how long to wait for the batch systems' first answers


def is_here(url: str, boot_time_secs: float | None) -> bool:
    """Return whether the daemon at `url` runs on this machine: its address is local, its boot time ours."""
    host = "localhost" if url.startswith("unix:") else urlsplit(url).hostname or ""
    if boot_time_secs is None or (host != socket.gethostname() and not is_loopback(host)):
        return False
    booted: float = psutil.boot_time()
    return abs(booted - boot_time_secs) <= SAME_BOOT_SECS


class DaemonPages:
    """Gets the metrics of a running daemon, and lists the processes if the daemon runs on this machine."""

    def __init__(self, access: Access, config: ExporterConfig) -> None:
        self._access = access
        self._config = config
        self._sampler: Sampler | None = None
        self._boot_time_secs: Number | None = None
        self._jobs: Mapping[JobKey, Job] = {}
        self.name = access.url

    @property
    def without_processes(self) -> str:
        """Return the text to show for a job of which no processes are found."""
        found = "none found by its control group; "
        if self.name.startswith("unix:"):
            return found + "top --local queries the batch systems, too"
        return f"{found}its page lists them: {self.name.removesuffix('metrics')}"

    def read(self) -> Numbers:
        """Fetch the daemon's metrics. Raises SourceError if it fails, else as `parse_page` does."""
        numbers = parse_page(self._text(), source=self._access.url)
        self._boot_time_secs = numbers.one(BOOT)
        self._jobs = find_confirmed(numbers)
        return numbers

    def _text(self) -> str:
        if not self._access.url.startswith("unix:"):
            return self._access.get()
        answer = Server(self._access.url).get("/metrics", timeout_secs=self._access.timeout_secs)
        if answer.status != 200:
            raise SourceError(f"{self._access.url}: answered with HTTP status {answer.status}")
        return answer.body.decode("utf-8", "replace")

    def processes(self) -> Snapshot | str:
        """Return a snapshot with processes and their jobs, or a text that says why there is none."""
        if not is_here(self.name, self._boot_time_secs):
            return ELSEWHERE
        if self._sampler is None:
            from jobfeatures_exporter.node.samplingloop import find_places
            from jobfeatures_exporter.sampling.sampler import Sampler  # only needed to list processes

            clock = SystemClock()
            places = find_places(self._config, clock)
            settings = self._config.of_sampler()
            self._sampler = Sampler(settings, clock, jobs=lambda: self._jobs, places=places)
        return self._sampler.sample()

    def close(self) -> None:
        """Close the sampler that lists processes, if there is one."""
        if self._sampler is not None:
            self._sampler.close()


class OwnPages:
    """Gets figures from a daemon within this process, which does not listen, publish or write anything."""

    name = "no daemon: sampled here"
    without_processes = "none found here"

    def __init__(self, config: ExporterConfig) -> None:
        """Start the daemon; `config` has to include the settings in `WITHOUT_TRACES`."""
        from jobfeatures_exporter.node.daemon import Daemon

        self._daemon = Daemon(config)
        self._collectors = config.enabled_collectors()
        self._daemon.start()
        self._daemon.wait_until_ready(READY_SECS)

    def read(self) -> Numbers:
        """Sample the node and return the figures, without rendering and parsing a page."""
        from jobfeatures_exporter.scrape.collectors import collect

        return Numbers(collect(self._daemon.context(), self._collectors))

    def processes(self) -> Snapshot | str:
        """Return the latest snapshot, which lists all processes, or a text if there is none yet."""
        return self._daemon.known().snapshot or "the node has not been read yet"

    def close(self) -> None:
        """Stop the daemon."""
        self._daemon.stop()


Pages = DaemonPages | OwnPages


WITHOUT_TRACES = {
    "role": "node",
    "features.publish": "false",
    "sonar.sinks": "",
    "jobs.kinds": "batch",
    "metrics.profile": "",
    "metrics.max_series": "0",
    "jobs.process_io": "false",
}


def find_confirmed(numbers: Numbers) -> dict[JobKey, Job]:
    """Return the jobs whose figures come from their own control groups, according to a daemon's metrics."""
    names = JOB_INFO.label_names[2:]
    found: dict[JobKey, Job] = {}
    for key, info in find_jobs(numbers).items():
        labels = dict(zip(names, info, strict=True))
        if labels["accounting"] == FigureSource.CGROUP.value:
            found[key] = Job(key=key, state=JobState.RUNNING, sluid=labels["sluid"] or None)
    return found


def parse_page(text: str, *, source: str = "") -> Numbers:
    """Return the figures of a page of metrics; `source` names the page in errors.

    Raises SourceError if it is not the page of a node, and ParseError if a line is malformed.
    """
    numbers = Numbers.from_series(parse_lines(text, WANTED, source=source), (*METRICS, BOOT))
    if any(numbers.all(each) for each in SIGNS):
        return numbers
    if "batch_exporter_" in text:
        raise SourceError(f"{source}: has no figures of a node (a controller?): name the daemon of one node")
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    raise SourceError(f"{source}: not a metrics page of jobfeatures-exporter, but begins with {shown(first)}")


def metrics_address(url: str) -> str:
    """Return the URL of a daemon's metrics page, given a URL with or without the path /metrics."""
    if url.startswith("unix:"):
        return url
    parts = urlsplit(url)
    if parts.path.rstrip("/").endswith("/metrics") or parts.query:
        return url
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + "/metrics"))


def address_of(listen_address: str) -> str:
    """Return the URL at which a daemon's own machine reaches its metrics, given its listen address."""
    host, _, port = listen_address.rpartition(":")
    if host in {"", "0.0.0.0", "[::]"}:  # noqa: S104  # compared, not bound
        host = "127.0.0.1"
    return f"http://{host}:{port}/metrics"


def is_connection_refused(error: SourceError) -> bool:
    """Return whether the error is a refused connection, which means that nothing listens at the address."""
    reason = getattr(error.__cause__, "reason", error.__cause__)
    return isinstance(reason, ConnectionRefusedError)
