"""The processes of this machine's jobs, read when somebody wants to see them."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from jobfeatures.clock import SystemClock
from jobfeatures.errors import JobfeaturesError
from jobfeatures_exporter.config import DaemonConfig
from jobfeatures_exporter.sampling.procfs import read_stat
from jobfeatures_exporter.sampling.sampler import make_sampler
from jobfeatures_exporter.snapshot import Snapshot

SAME_BOOT_SECS = 2  # the kernel derives the time of boot from a clock that is set now and then
ELSEWHERE = "its processes are listed where top runs on the node itself"


class LocalProcesses:
    """Reads all processes, and by their control groups whose they are; nothing else of a daemon."""

    def __init__(self, config: DaemonConfig) -> None:
        self._procfs = config.path_procfs
        self._sampler = make_sampler(config, SystemClock())

    def look(self) -> Snapshot:
        """Take one look."""
        return self._sampler.sample()

    def is_of(self, url: str, boot_time_secs: float | None) -> bool:
        """Return whether a daemon is of this machine, by its address and when its node was booted."""
        host = "localhost" if url.startswith("unix:") else urlsplit(url).hostname or ""
        if host not in {"localhost", "::1", socket.gethostname()} and not host.startswith("127."):
            return False
        try:
            booted = read_stat(self._procfs).boot_time_secs
        except (OSError, JobfeaturesError):
            return False
        return (
            None not in {booted, boot_time_secs}
            and abs((booted or 0) - (boot_time_secs or 0)) <= SAME_BOOT_SECS
        )

    def close(self) -> None:
        """Close all descriptors."""
        self._sampler.close()
