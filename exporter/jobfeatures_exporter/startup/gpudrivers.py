"""Checks, for `doctor`, whether the GPU drivers that the daemon would use answer, and for which GPUs."""

from __future__ import annotations

import importlib
import queue
import threading
from collections.abc import Iterator, Sequence

from jobfeatures.errors import JobfeaturesError
from jobfeatures.records.quantities import counted
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.model.snapshot import GpuSample
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.gpu import Paths
from jobfeatures_exporter.sampling.gpu.bounds import bounded
from jobfeatures_exporter.sampling.gpu.monitor import DEADLINE_SECS, chosen_drivers
from jobfeatures_exporter.startup.findings import DoctorFinding, good, note, see, wrong

_REMEDIES = {
    "not installed": "install the library, or remove the driver from gpu.drivers",
    "Not Loaded": "modprobe nvidia and see dmesg; without NVIDIA GPUs, remove the driver from gpu.drivers",
    "Library Not Found": "install the library of the driver's own version (libnvidia-ml.so.1)",
    "mismatch": "reboot, or reload the driver: driver and library have different versions",
}


def examine_gpus(config: ExporterConfig) -> Iterator[DoctorFinding]:
    """Read each GPU driver once, as the daemon does; yield a finding for each, none without drivers."""
    paths = Paths(procfs=config.path.procfs, sysfs=config.path.sysfs)
    for name in chosen_drivers(config.gpu.drivers, paths):
        unreadable = Unreadable()
        what, answers = f"GPUs of {name}", queue.SimpleQueue[Sequence[GpuSample] | str]()
        threading.Thread(target=_read, args=(name, paths, unreadable, answers), daemon=True).start()
        try:
            found = answers.get(timeout=DEADLINE_SECS)
        except queue.Empty:
            yield wrong(what, f"no answer within {DEADLINE_SECS:g} s", "see dmesg; reset the GPU, or reboot")
            continue
        if isinstance(found, str):
            remedy = next((remedy for words, remedy in _REMEDIES.items() if words in found), "see dmesg")
            yield wrong(what, found, remedy)
            continue
        yield from _cards(what, found)
        for kind, count in sorted(unreadable.counts.items()):
            yield note(f"reading {kind}", f"failed {counted(count, 'time')}", see("unreadable readings"))


def _read(
    name: str, paths: Paths, unreadable: Unreadable, answers: queue.SimpleQueue[Sequence[GpuSample] | str]
) -> None:
    try:
        module = importlib.import_module(f"jobfeatures_exporter.sampling.gpu.{name}")
        driver = module.make_driver(paths, SystemClock(), unreadable)
        try:
            answers.put([bounded(each, unreadable.count) for each in driver.read()])
        finally:
            driver.close()
    except (JobfeaturesError, OSError) as error:
        answers.put(str(error))
    except Exception as error:  # noqa: BLE001  # a vendor's library may raise anything
        answers.put(f"{type(error).__name__}: {error}")


def _cards(what: str, found: Sequence[GpuSample]) -> Iterator[DoctorFinding]:
    cards = [each for each in found if each.card.parent_uuid is None]
    words = counted(len(cards), "GPU")
    if instances := len(found) - len(cards):
        words += f", {counted(instances, 'MIG instance')}"
    if cards:
        yield good(what, words)
    else:
        yield note(what, "the driver works, but reports no card", "lspci; dmesg")
    for each in found:
        if each.failing:
            yield wrong(
                what,
                f"{each.card.uuid} does not answer: error {each.failing}",
                "docs/runbook.md#batchgpufailing",
            )
