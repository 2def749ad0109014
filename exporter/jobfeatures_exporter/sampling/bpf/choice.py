"""Chooses how the daemon measures processes: by sums in the kernel (eBPF) if they load, else by /proc."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from jobfeatures.errors import ConfigurationError
from jobfeatures_exporter.model.snapshot import ASKED_FOR, ProcessReader
from jobfeatures_exporter.sampling import PathsSettings
from jobfeatures_exporter.sampling.bpf import BPF, PROCFS, ReaderSettings
from jobfeatures_exporter.sampling.bpf.reader import KernelSums, describe, digest_of
from jobfeatures_exporter.sampling.bpf.rights import CAP_NET_ADMIN, CAP_PERFMON, give_up_rights

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Choice:
    """How processes are measured: by the sums of `kernel` (eBPF), or by /proc if that is None.

    `reason` says why the kernel does not sum; "" if it does. `descriptors` are the open BPF links and maps by
    name, and `no_network` says why packets are not counted: "" if they are, None if that was not requested.
    """

    kernel: KernelSums | None = None
    reason: str = ""
    no_network: str | None = None  # why packets are not counted, "" if they are, None if not requested
    # BPF links and maps, which live while a process holds them open; names include the object's version.
    descriptors: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return how processes are read and why, as one line for the log."""
        return f"processes are read by {self.process_reader.name}" + (
            f": {self.reason}" if self.reason else ""
        )

    @property
    def process_reader(self) -> ProcessReader:
        """Return how processes are measured, bpf or procfs, and why not by bpf, as metrics report it."""
        return ProcessReader(PROCFS if self.kernel is None else BPF, self.reason)


PROCFS_ALONE = Choice()


def begin_choice(
    config: ReaderSettings, paths: PathsSettings, kept: Mapping[str, int], *, counts_work: bool
) -> Callable[[], Choice]:
    """Begin to load the eBPF programs in a thread, to save time at the start.

    Return a function that waits for this thread and then returns the result of `choose_reader`, which also
    explains the arguments.
    """
    found: list[Choice] = []
    thread = threading.Thread(target=lambda: found.append(try_reader(config, paths, kept)), name="loading")
    thread.start()

    def choose() -> Choice:
        thread.join()  # its capabilities end with it
        return choose_reader(config, paths, kept, found, counts_work=counts_work)

    return choose


def choose_reader(
    config: ReaderSettings,
    paths: PathsSettings,
    kept: Mapping[str, int] = MappingProxyType({}),
    found: Collection[Choice] = (),
    *,
    counts_work: bool = False,
) -> Choice:
    """Choose how processes are measured, and drop the capabilities that only loading eBPF programs needed.

    It has to be called before other threads exist, as these would keep the capabilities. `kept` are
    descriptors by name (see `Choice.descriptors`) inherited from an earlier process, whose counts continue.
    `found` has the result of `try_reader`, if that was called already. `counts_work` keeps the capability to
    open performance counters. Raises ConfigurationError if settings demand `BPF` and it is not available.
    """
    choice = next(iter(found), None) or try_reader(config, paths, kept)
    if config.network:
        kernel = choice.kernel
        choice = replace(choice, no_network=str(choice) if kernel is None else kernel.no_network)
        if choice.no_network:
            log.warning("jobs.network: bytes and packets of jobs are not counted: %s", choice.no_network)
    also = (CAP_NET_ADMIN,) if config.network else ()
    try:
        try_out = choice.kernel.try_out if choice.kernel is not None else lambda: None
        give_up_rights(try_out, also, (CAP_PERFMON,) if counts_work else ())
    except OSError as error:
        log.warning("cannot give up the capabilities that were needed to load eBPF programs: %s", error)
    if choice.kernel is None and config.processes == BPF:
        raise ConfigurationError("sampling.processes", f"is bpf, but eBPF cannot be used: {choice.reason}")
    return choice


def try_reader(
    config: ReaderSettings, paths: PathsSettings, kept: Mapping[str, int] = MappingProxyType({})
) -> Choice:
    """Try to load the eBPF programs; if settings exclude them or it fails, return /proc and the reason.

    `kept` are descriptors by name, inherited from an earlier process whose counts continue.
    """
    procfs = paths.procfs
    if config.processes == PROCFS:
        return Choice(reason=ASKED_FOR)
    try:
        if procfs != "/proc":
            raise OSError(f"path.procfs is {procfs}, not this machine's own /proc")  # noqa: TRY301  # like other failures
        version = digest_of()
        own = {each.removeprefix(f"{version}-"): kept[each] for each in kept if each.startswith(version)}
        kernel = KernelSums(paths.cgroup, kept=own, network=config.network)
    except OSError as error:
        return Choice(reason=describe(error))
    return Choice(
        kernel, descriptors={f"{version}-{name}": each for name, each in kernel.descriptors.items()}
    )
