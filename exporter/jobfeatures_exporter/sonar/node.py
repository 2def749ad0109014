"""Makes Sonar's documents about this node: takes samples, reads process details, builds envelopes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import replace

from jobfeatures.errors import ConfigurationError, JobfeaturesError, shown, shown_name
from jobfeatures.formats.sonar import SEED
from jobfeatures.formats.sonar.envelopes import Document, Origin
from jobfeatures.formats.sonar.values import fault_of_hostname
from jobfeatures.records.model import JobKey
from jobfeatures.system.clock import Clock
from jobfeatures.system.lookups import user_names
from jobfeatures.system.privatefile import read_private
from jobfeatures_exporter.model.snapshot import Snapshot
from jobfeatures_exporter.sampling import PathsSettings
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.host.software import read_software
from jobfeatures_exporter.sampling.host.sysinfo import TEXT, read_sysinfo
from jobfeatures_exporter.sampling.processes.details import read_details
from jobfeatures_exporter.sonar.config import SonarSettings
from jobfeatures_exporter.sonar.process import SampleInput
from jobfeatures_exporter.sonar.sample import attributes_of, sample_envelope
from jobfeatures_exporter.sonar.sysinfo import sysinfo_envelope

CARDS_WAIT_SECS = 10.0  # at startup, drivers may be slower than the exporter
_LOOK_SECS = 0.5
MAX_TOKEN_BYTES = 16 * 1024


def make_origin(config: SonarSettings, node_name: str | None) -> Origin:
    """Return what every document says of its sender: the cluster, the node and the access token.

    Without `node_name`, the node's name is the kernel's host name, as Sonar sends it. Raises
    ConfigurationError if a name is missing or invalid.
    """
    cluster = config.sinks.cluster
    if not cluster:
        raise ConfigurationError(
            "sonar.cluster", "must be set: each document in Sonar's format names its cluster"
        )
    node = node_name or os.uname().nodename
    for key, name in (("sonar.cluster", cluster), ("node.name", node)):
        if fault := fault_of_hostname(name, strict=True):  # every document would fail the checks
            raise ConfigurationError(key, f"{shown(name)} {fault}")
    return Origin(
        cluster=cluster,
        node=node,
        profile=config.profile,
        token=_read_token(config.token_file),
    )


def _read_token(path: str | None) -> str:
    if path is None:
        return ""
    try:
        token = read_private(path, MAX_TOKEN_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError, JobfeaturesError) as error:
        raise ConfigurationError("sonar.token_file", str(error)) from None
    if not token or not token.isprintable():
        raise ConfigurationError("sonar.token_file", f"{shown_name(path)} must contain one line, the token")
    return token


class NodeDocuments:
    """Makes the documents of the kinds `sample` and `sysinfo` about this node.

    `take` returns a new snapshot of the node; None if it could not be read.
    """

    def __init__(
        self,
        config: SonarSettings,
        paths: PathsSettings,
        origin: Origin,
        clock: Clock,
        take: Callable[[], Snapshot | None],
        unreadable: Unreadable,
    ) -> None:
        self._config, self._paths = config, paths
        self._origin = origin
        self._sample_origin = replace(origin, attributes={**origin.attributes, **attributes_of(config)})
        self._clock = clock
        self._take = take
        # The older form has no place for hwloc's text.
        self._topology = [each for each in config.topology if origin.profile != SEED or each != TEXT]
        self._users = user_names()
        self._previous: tuple[Snapshot, float] | None = None
        self._unreadable = unreadable

    def prime(self) -> Collection[JobKey]:
        """Take a first snapshot, so that the next sample can report current process utilisation.

        Return those of its jobs that only count once their batch system has confirmed that they run here.
        """
        snapshot = self._take()
        if snapshot is None:
            return ()
        self._previous = (snapshot, self._monotonic_of(snapshot))
        return snapshot.unconfirmed

    def sample(self) -> list[Document]:
        """Return one document: the node and its processes now, with their use since the previous sample."""
        snapshot = self._take()
        given = None if snapshot is None else self._read(snapshot)
        return [sample_envelope(self._sample_origin, given, self._config, now_secs=self._clock.now_secs())]

    def sysinfo(self) -> list[Document]:
        """Return one document on the node's hardware and software.

        Waits until the GPU drivers have answered, but only for a limited time.
        """
        snapshot = self._take()
        deadline_secs = self._clock.monotonic_secs() + CARDS_WAIT_SECS
        while (
            snapshot is not None
            and not all(snapshot.gpu_drivers.values())
            and self._clock.monotonic_secs() < deadline_secs
        ):
            time.sleep(_LOOK_SECS)
            snapshot = self._take()
        sample = read_sysinfo(
            procfs=self._paths.procfs,
            sysfs=self._paths.sysfs,
            now_secs=self._clock.now_secs(),
            unreadable=self._unreadable,
            topology=self._topology,
            cards=tuple(gpu.card for gpu in snapshot.gpus) if snapshot is not None else (),
            # The newer form has no place for it.
            software=read_software(os.environ, self._unreadable) if self._origin.profile == SEED else (),
        )
        return [sysinfo_envelope(self._origin, sample)]

    def _read(self, snapshot: Snapshot) -> SampleInput:
        # Details are read a moment later: a process that has ended meanwhile is left out.
        details = read_details(self._paths.procfs, snapshot.processes.values(), self._unreadable)
        uids = {each.uid for each in details.values() if each.uid is not None}
        users = {uid: name for uid in uids if (name := self._users.get(uid)) is not None}
        monotonic_secs = self._monotonic_of(snapshot)
        previous, elapsed_secs = None, None
        if self._previous is not None and self._previous[0] is not snapshot:
            previous, elapsed_secs = self._previous[0], monotonic_secs - self._previous[1]
        self._previous = (snapshot, monotonic_secs)
        return SampleInput(
            snapshot=snapshot,
            now_secs=self._clock.now_secs(),
            previous=previous,
            elapsed_secs=elapsed_secs,
            details=details,
            users=users,
        )

    def _monotonic_of(self, snapshot: Snapshot) -> float:
        age_secs = max(0.0, self._clock.now_secs() - snapshot.taken_at_secs)
        return self._clock.monotonic_secs() - age_secs
