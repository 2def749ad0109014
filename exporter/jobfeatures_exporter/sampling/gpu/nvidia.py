"""Reads NVIDIA's cards through NVML, the library that comes with their driver, by nvidia-ml-py.

Any call may fail on its own, as old drivers lack functions and old cards lack sensors. Then only the field it
was for is None. See NVIDIA's "NVML API Reference Guide", whose function names are used here.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from jobfeatures.errors import ParseError
from jobfeatures.records.quantities import parse_count
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.model.snapshot import GpuCard, GpuProcess, GpuSample
from jobfeatures_exporter.sampling.descriptors import Unreadable, read_text
from jobfeatures_exporter.sampling.gpu import DriverError, Paths
from jobfeatures_exporter.sampling.gpu.nvidiadetail import CardDetail
from jobfeatures_exporter.sampling.gpu.nvml import NOT_FOUND, VERSION_MISMATCH, NvmlDevice

MANUFACTURER = "NVIDIA"
ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
COMPUTE_MODES = {0: "Default", 1: "ExclusiveThread", 2: "Prohibited", 3: "ExclusiveProcess"}
MAX_PERFORMANCE_STATE = 15  # 32 means unknown
_EXCLUDED = re.compile(r"^GPU Excluded:[ \t]*Yes", re.MULTILINE)  # by the administrator: NVML leaves it out

_PROCESS_LISTS = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
    ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"),
)
_MPS_SERVER = "nvidia-cuda-mps"  # the name of its server, as the kernel cuts it; it works for its clients


def parse_card_file(text: str) -> tuple[str, int | None]:
    """Return (UUID, minor number) of a card from /proc/driver/nvidia/gpus/ADDRESS/information.

    The minor number is None if it is missing. Raises ParseError if malformed. Sample, shortened; the UUID
    consists of question marks until the card is first used::

        Model:           NVIDIA A100-SXM4-40GB
        GPU UUID:        GPU-6bc1b3ea-2d5c-bd93-8e7b-6f1b1c0a9d1c
        Bus Location:    0000:3b:00.0
        Device Minor:    0
    """
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            values.setdefault(name.strip(), value.strip())
    uuid = values.get("GPU UUID", "")
    if not uuid or "?" in uuid:
        raise ParseError("no UUID", source="information", field="GPU UUID", text=uuid)
    minor = values.get("Device Minor")
    return uuid, None if minor is None else parse_count(minor, field="Device Minor")


def make_driver(paths: Paths, clock: Clock, unreadable: Unreadable, *, detail: bool = False) -> NvidiaDriver:
    """Load NVML and return the driver; with `detail` it also reads what `CardDetail` adds.

    Raises DriverError if NVML cannot be loaded or started.
    """
    return NvidiaDriver(paths, clock, unreadable, detail=detail)


def _refusal(error: Any) -> DriverError:
    # The binding never loads the library anew: after an upgrade of the driver only other programs work.
    hint = "; if nvidia-smi works, restart this daemon" if error.value == VERSION_MISMATCH else ""
    return DriverError(f"NVML: {error}{hint}")


class NvidiaDriver:
    """Reads all cards that NVML lists, and their MIG instances."""

    def __init__(self, paths: Paths, clock: Clock, unreadable: Unreadable, *, detail: bool) -> None:
        self._paths = paths
        self._clock = clock
        self._unreadable = unreadable
        try:
            self._nvml = importlib.import_module("pynvml")
        except ImportError as error:
            raise DriverError("nvidia-ml-py is not installed") from error
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise _refusal(error) from error
        self._version = self._driver_version()
        self._by_index: dict[int, GpuCard] = {}  # for cards that no longer respond
        self._unknown: list[tuple[int, int]] = []  # cards that have never responded: number and error
        self._cards: dict[str, GpuCard] = {}
        self._seen_usecs: dict[tuple[str, str], int] = {}  # by card and function
        self._wants_detail = detail
        self._details: dict[str, CardDetail] = {}  # by card

    def close(self) -> None:
        """Shut down NVML."""
        for detail in self._details.values():
            detail.close()
        with suppress(self._nvml.NVMLError):  # it may be shut down already
            self._nvml.nvmlShutdown()

    def read(self) -> Iterator[GpuSample]:
        """Yield the state of each card and its MIG instances. Raises DriverError if NVML does not answer."""
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            raise _refusal(error) from error
        seen: set[str] = set()  # UUIDs and addresses
        self._unknown = []
        for index in range(count):
            for sample in self._read_index(index):
                seen |= {sample.card.uuid, sample.card.address.lower()[-len("0000:00:00.0") :]}
                yield sample
        yield from self._lost(seen)

    def _read_index(self, index: int) -> Iterator[GpuSample]:
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
        except self._nvml.NVMLError as error:
            return self._silent(index, error.value)
        return self._read_card(index, handle)

    def _driver_version(self) -> str:
        try:
            version = self._nvml.nvmlSystemGetDriverVersion()
        except (self._nvml.NVMLError, ValueError):
            return ""
        return version if isinstance(version, str) else ""

    def _silent(self, index: int, code: int) -> Iterator[GpuSample]:
        """Yield a card without values, if it was known and no longer responds."""
        self._unreadable.count(f"gpu_nvmlDeviceGetHandleByIndex_{code}")
        card = self._by_index.get(index)
        if card is None:
            self._unknown.append((index, code or 1))
        else:
            yield GpuSample(card=card, taken_at_secs=self._clock.now_secs(), failing=code or 1)

    def _lost(self, seen: Collection[str]) -> Iterator[GpuSample]:
        """Yield, without values, each card that only the kernel's driver knows, or a number in NVML."""
        top = f"{self._paths.procfs}/driver/nvidia/gpus"
        codes = [code for _, code in self._unknown]
        names = [
            name
            for name in self._unreadable.tried("gpu_procfs", os.listdir, top) or ()
            if name.lower() not in seen
        ]
        lost = []
        for name in sorted(names):
            text = self._unreadable.tried(
                "gpu_procfs", read_text, f"{top}/{name}/information", max_bytes=65536
            )
            if text is None or _EXCLUDED.search(text):
                continue
            uuid, minor = self._unreadable.tried("gpu_procfs", parse_card_file, text) or (f"PCI-{name}", None)
            if uuid not in seen:
                card = GpuCard(uuid=uuid, minor=minor, address=name, manufacturer=MANUFACTURER)
                lost.append(self._cards.get(uuid, card))
        if len(lost) > len(codes):  # the others are lost, too, or other containers have them
            lost = [card for card in lost if os.path.exists(f"{self._paths.devfs}/nvidia{card.minor}")]
        for index, _ in self._unknown[len(lost) :]:
            lost.append(GpuCard(uuid=f"GPU-unknown-{index}", index=index, manufacturer=MANUFACTURER))
        for card, code in zip(lost, [*codes, *([1] * len(lost))], strict=False):
            yield GpuSample(card=card, taken_at_secs=self._clock.now_secs(), failing=code)

    def _read_card(self, index: int, handle: Any) -> Iterator[GpuSample]:
        ask = NvmlDevice(self._nvml, handle, self._unreadable)
        uuid = ask.text("nvmlDeviceGetUUID")
        if not uuid:
            yield from self._silent(index, ask.error)
            return
        card = self._cards.get(uuid)
        if card is None or card.index != index:
            card = self._describe(index, uuid, ask)
            if not ask.failing:
                self._cards[uuid] = card
        others = {at: each for at, each in self._by_index.items() if each.uuid != uuid}
        self._by_index = {**others, index: card}
        instances = list(self._instances(ask))
        taken_at_secs = self._clock.now_secs()
        sample = self._sample(card, ask, with_processes=not instances)
        detail = self._detail_of(uuid)
        if detail is not None:
            sample = detail.add_to_card(sample, ask)
        yield replace(sample, taken_at_secs=taken_at_secs, failing=ask.failing)
        parts = [part for instance in instances for part in self._read_instance(card, instance)]
        yield from parts if detail is None else detail.add_to_parts(parts, ask)

    def _detail_of(self, uuid: str) -> CardDetail | None:
        if self._wants_detail and uuid not in self._details:
            self._details[uuid] = CardDetail(self._nvml, self._clock)
        return self._details.get(uuid)

    def _describe(self, index: int, uuid: str, ask: NvmlDevice) -> GpuCard:
        nvml = self._nvml
        limits = ask("nvmlDeviceGetPowerManagementLimitConstraints")  # [minimum, maximum], mW
        pci = ask("nvmlDeviceGetPciInfo")
        address = getattr(pci, "busId", "")
        if isinstance(address, bytes):
            address = address.decode("ascii", "replace")
        minor = ask("nvmlDeviceGetMinorNumber")
        if minor is None:
            minor = self._minor_of(uuid)
        architecture = ask("nvmlDeviceGetArchitecture")
        return GpuCard(
            uuid=uuid,
            index=index,
            minor=minor,
            address=address,
            manufacturer=MANUFACTURER,
            model=ask.text("nvmlDeviceGetName"),
            architecture="" if architecture is None else ARCHITECTURES.get(architecture, ""),
            driver=self._version,
            firmware=ask.text("nvmlDeviceGetVbiosVersion"),
            memory_bytes=self._memory(ask)[1],
            power_limit_watts=ask.number("nvmlDeviceGetPowerManagementLimit", scale=1e-3),
            max_power_limit_watts=None if limits is None else limits[1] / 1e3,
            min_power_limit_watts=None if limits is None else limits[0] / 1e3,
            max_ce_clock_mhz=ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
            max_memory_clock_mhz=ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM),
        )

    def _sample(self, card: GpuCard, ask: NvmlDevice, *, with_processes: bool) -> GpuSample:
        nvml = self._nvml
        used, _ = self._memory(ask)
        rates = ask("nvmlDeviceGetUtilizationRates")
        busy = self._mean_utilisation(card.uuid, ask)
        if busy is None and rates is not None:
            busy = float(rates.gpu)
        state = ask("nvmlDeviceGetPerformanceState")
        mode = ask("nvmlDeviceGetComputeMode")
        processes = self._processes(card, ask, has_utilisation=True) if with_processes else ()
        return GpuSample(
            card=card,
            taken_at_secs=0.0,
            fan_percent=ask.number("nvmlDeviceGetFanSpeed"),
            compute_mode="" if mode is None else COMPUTE_MODES.get(mode, ""),
            performance_state=state if state is not None and state <= MAX_PERFORMANCE_STATE else None,
            memory_used_bytes=used,
            memory_busy_percent=None if rates is None else float(rates.memory),
            ce_util_percent=busy,
            temperature_celsius=ask.number("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            power_watts=ask.number("nvmlDeviceGetPowerUsage", scale=1e-3),
            power_limit_watts=ask.number("nvmlDeviceGetEnforcedPowerLimit", scale=1e-3),
            ce_clock_mhz=ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            memory_clock_mhz=ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
            energy_joules=ask.number("nvmlDeviceGetTotalEnergyConsumption", scale=1e-3),
            processes=processes,
        )

    def _read_instance(self, parent: GpuCard, handle: Any) -> Iterator[GpuSample]:
        """Yield one MIG instance, which has its own memory and processes; only the card has power."""
        ask = NvmlDevice(self._nvml, handle, self._unreadable)
        uuid = ask.text("nvmlDeviceGetUUID")
        if not uuid:
            return
        used, total = self._memory(ask)
        card = self._cards.get(uuid)
        if card is None:
            card = GpuCard(
                uuid=uuid,
                parent_uuid=parent.uuid,
                instance_id=ask("nvmlDeviceGetGpuInstanceId"),
                address=parent.address,
                manufacturer=MANUFACTURER,
                model=ask.text("nvmlDeviceGetName") or parent.model,
                architecture=parent.architecture,
                driver=parent.driver,
                firmware=parent.firmware,
                memory_bytes=total,
            )
            if not ask.failing:
                self._cards[uuid] = card
        rates = ask("nvmlDeviceGetUtilizationRates")
        yield GpuSample(
            card=card,
            taken_at_secs=self._clock.now_secs(),
            memory_used_bytes=used,
            memory_busy_percent=None if rates is None else float(rates.memory),
            ce_util_percent=None if rates is None else float(rates.gpu),
            processes=self._processes(card, ask, has_utilisation=False),
            failing=ask.failing,
        )

    def _instances(self, ask: NvmlDevice) -> Iterator[Any]:
        mode = ask("nvmlDeviceGetMigMode")  # [current, pending]
        if not mode or not mode[0]:
            return
        for number in range(ask("nvmlDeviceGetMaxMigDeviceCount") or 0):
            instance = ask("nvmlDeviceGetMigDeviceHandleByIndex", number)
            if instance is not None:
                yield instance

    def _memory(self, ask: NvmlDevice) -> tuple[int, int] | tuple[None, None]:
        """Return used and total bytes; the newer API does not count memory reserved by the driver as used."""
        newer = getattr(self._nvml, "nvmlMemory_v2", None)
        found = ask("nvmlDeviceGetMemoryInfo", newer) if newer is not None else None
        found = found if found is not None else ask("nvmlDeviceGetMemoryInfo")
        return (None, None) if found is None else (int(found.used), int(found.total))

    def _mean_utilisation(self, uuid: str, ask: NvmlDevice) -> float | None:
        """Return the mean in percent since the last reading; the latest figure covers a second at most."""
        place = (uuid, "samples")
        since = self._seen_until(place)
        answer = ask("nvmlDeviceGetSamples", self._nvml.NVML_GPU_UTILIZATION_SAMPLES, since)
        if answer is None:
            return None
        value_type, samples = answer
        if value_type != self._nvml.NVML_VALUE_TYPE_UNSIGNED_INT:
            return None
        values = [
            (sample.timeStamp, sample.sampleValue.uiVal) for sample in samples if sample.timeStamp > since
        ]
        if not values:
            return None
        self._seen_usecs[place] = max(stamp for stamp, _ in values)
        percents = [value for _, value in values if value <= 100]
        return sum(percents) / len(percents) if since and percents else None

    def _processes(self, card: GpuCard, ask: NvmlDevice, *, has_utilisation: bool) -> tuple[GpuProcess, ...]:
        memory: dict[int, int | None] = {}
        clients: set[int] = set()  # of MPS, in the last list
        for functions in _PROCESS_LISTS:
            processes = ask.first(*functions) or ()
            clients = {process.pid for process in processes}
            for process in processes:
                used, known = process.usedGpuMemory, memory.get(process.pid)
                # A process that both computes and draws is in both lists, each time with all its memory.
                memory[process.pid] = known if used is None else max(used, known or 0)
        utilisation = self._process_utilisation(card.uuid, ask) if has_utilisation and memory else None
        if clients and utilisation and not any(map(utilisation.get, clients)):
            servers = [pid for pid in utilisation.keys() & memory if self._is_mps_server(pid)]
            each = sum(map(utilisation.pop, servers)) / len(clients)
            utilisation.update(dict.fromkeys(clients, each))
        return tuple(
            GpuProcess(pid, used, None if utilisation is None else utilisation.get(pid, 0.0))
            for pid, used in memory.items()
        )

    def _process_utilisation(self, uuid: str, ask: NvmlDevice) -> dict[int, float] | None:
        """Return utilisation in percent by process since the last reading; others were idle."""
        place = (uuid, "processes")
        since = self._seen_until(place)
        samples = ask("nvmlDeviceGetProcessUtilization", since)
        if samples is None:
            return {} if ask.error == NOT_FOUND else None
        newest: dict[int, tuple[int, float]] = {}
        now_usecs = self._clock.now_secs() * 1e6
        for sample in samples:
            stamp, percent = int(sample.timeStamp), float(sample.smUtil)
            is_sane = sample.pid and percent <= 100 and stamp <= now_usecs
            if is_sane and stamp >= newest.get(sample.pid, (0, 0.0))[0]:
                newest[sample.pid] = stamp, percent
        self._seen_usecs[place] = max([since, *(stamp for stamp, _ in newest.values())])
        return {pid: percent for pid, (_, percent) in newest.items()}

    def _seen_until(self, place: tuple[str, str]) -> int:
        """Return the time of the newest sample seen (µs since the epoch), 0 without one.

        It is 0, too, if that time lies ahead, as after a clock was set back: NVML would have nothing newer.
        """
        seen_usecs = self._seen_usecs.get(place, 0)
        return seen_usecs if seen_usecs <= self._clock.now_secs() * 1e6 else 0

    def _is_mps_server(self, pid: int) -> bool:
        name = self._unreadable.tried("gpu_procfs", read_text, f"{self._paths.procfs}/{pid}/comm")
        return name is not None and name.startswith(_MPS_SERVER)

    def _minor_of(self, uuid: str) -> int | None:
        """Return the N of a card's /dev/nvidiaN, by what the kernel driver reports about its cards."""
        top = f"{self._paths.procfs}/driver/nvidia/gpus"
        tried = self._unreadable.tried
        for name in tried("gpu_procfs", os.listdir, top) or ():
            text = tried("gpu_procfs", read_text, f"{top}/{name}/information", max_bytes=65536)
            card = None if text is None else tried("gpu_procfs", parse_card_file, text)
            if card is not None and card[0] == uuid:
                return card[1]
        return None
