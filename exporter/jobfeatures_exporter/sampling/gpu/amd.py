"""Reads AMD's cards: by ROCm SMI if it is installed, and what that lacks from the kernel driver's files.

See "AMDGPU driver" in the kernel's GPU documentation (GPU sysfs, hwmon).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobfeatures.records.combining import max_known
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.model.snapshot import GpuCard, GpuProcess, GpuSample
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.gpu import Paths
from jobfeatures_exporter.sampling.gpu.clients import DrmClients
from jobfeatures_exporter.sampling.gpu.drm import (
    DrmCard,
    drm_cards,
    find_silent,
    parse_current_clock,
    parse_highest_clock,
    place_of,
)
from jobfeatures_exporter.sampling.gpu.kfd import Kfd, KfdNode, nodes_of
from jobfeatures_exporter.sampling.gpu.rocm import RocmSmi, open_rocm
from jobfeatures_exporter.sampling.host.sysfs import Sysfs

MANUFACTURER = "AMD"
VENDOR = "1002"
MODULE = "amdgpu"
MICRO = 1e-6


def make_driver(paths: Paths, clock: Clock, unreadable: Unreadable, *, detail: bool = False) -> AmdDriver:
    """Return the driver of AMD's cards, which works without ROCm SMI too; `detail` has no effect."""
    return AmdDriver(paths, clock, unreadable, open_rocm())


class AmdDriver:
    """Reads all cards of the kernel driver amdgpu."""

    def __init__(self, paths: Paths, clock: Clock, unreadable: Unreadable, rocm: RocmSmi | None) -> None:
        self._paths = paths
        self._clock = clock
        self._unreadable = unreadable
        self._sysfs = Sysfs(unreadable)
        self._kfd = Kfd(paths.sysfs, self._sysfs)
        self._clients = DrmClients(paths.procfs, unreadable)
        self._rocm = rocm
        self._cards: dict[str, GpuCard] = {}
        self._described: dict[str, tuple[int, DrmCard, list[KfdNode]]] = {}  # of what
        self._places: set[str] = set()  # of cards that are or were there

    def close(self) -> None:
        """Shut down ROCm SMI."""
        if self._rocm is not None:
            self._rocm.close()

    def read(self) -> Iterator[GpuSample]:
        """Yield the state of each card and each partition, as `Driver.read` describes."""
        cards = [card for card in drm_cards(self._paths.sysfs, self._sysfs) if card.vendor == VENDOR]
        present = {drm.address for drm in cards}
        nodes = nodes_of(present, self._kfd.nodes())
        computing = self._kfd.processes(nodes)
        clients = self._clients.read(self._clock.monotonic_secs())
        silent = find_silent(self._paths.sysfs, self._sysfs, MODULE, present)
        self._places.update(present, silent)
        for drm in sorted(cards, key=lambda each: each.address):
            parts, index = nodes.get(drm.address, []), place_of(drm.address, self._places)
            card = self._cards.get(drm.address)
            if card is None or self._described.get(drm.address) != (index, drm, parts):
                card = self._cards[drm.address] = self._describe(index, drm, parts)
                self._described[drm.address] = index, drm, parts
            processes = _merged([*clients.get(drm.address, []), *computing.get(drm.address, [])])
            yield self._sample(drm, card, processes)
        for address in silent:
            lost = GpuCard(uuid=f"PCI-{address}", address=address, manufacturer=MANUFACTURER)
            lost = self._cards.get(address, lost)
            yield GpuSample(card=lost, taken_at_secs=self._clock.now_secs(), failing=1)

    def _figure(self, function: str, address: str, path: str) -> float | None:
        """Return a value of a card from ROCm SMI, else from the kernel's file."""
        found = None if self._rocm is None else self._rocm.number(function, address)
        return self._sysfs.number(path) if found is None else found

    def _describe(self, index: int, drm: DrmCard, parts: Sequence[KfdNode]) -> GpuCard:
        read, device = self._sysfs, f"{drm.path}/device"
        sensors = read.hwmon(device)
        name = self._rocm.text("smi_get_device_name", drm.address) if self._rocm is not None else ""
        memory = self._figure("smi_get_device_memory_total", drm.address, f"{device}/mem_info_vram_total")
        unique = (read.text(f"{device}/unique_id") or "").removeprefix("0x")
        return GpuCard(
            uuid=f"GPU-{unique}" if unique.strip("0") else f"PCI-{drm.address}",
            index=index,
            minor=drm.minor,
            render_minors=tuple(
                sorted({*drm.render_minors, *(part.render_minor for part in parts if part.render_minor)})
            ),
            partitions=max(1, len(parts)),
            address=drm.address,
            manufacturer=MANUFACTURER,
            model=name or read.text(f"{device}/product_name") or f"{drm.vendor}:{drm.device}",
            architecture=parts[0].architecture if parts else "",
            driver=read.text(f"{self._paths.sysfs}/module/amdgpu/version") or "",
            firmware=read.text(f"{device}/vbios_version") or "",
            memory_bytes=None if memory is None else int(memory),
            power_limit_watts=read.scaled(f"{sensors}/power1_cap", MICRO),
            max_power_limit_watts=read.scaled(f"{sensors}/power1_cap_max", MICRO),
            min_power_limit_watts=read.scaled(f"{sensors}/power1_cap_min", MICRO),
            max_ce_clock_mhz=parse_highest_clock(read.text(f"{device}/pp_dpm_sclk") or ""),
            max_memory_clock_mhz=parse_highest_clock(read.text(f"{device}/pp_dpm_mclk") or ""),
        )

    def _sample(self, drm: DrmCard, card: GpuCard, processes: tuple[GpuProcess, ...]) -> GpuSample:
        read, device = self._sysfs, f"{drm.path}/device"
        sensors = read.hwmon(device)
        busy = self._figure("smi_get_device_utilization", drm.address, f"{device}/gpu_busy_percent")
        used = self._figure("smi_get_device_memory_used", drm.address, f"{device}/mem_info_vram_used")
        watts = None if self._rocm is None else self._rocm.number("smi_get_device_average_power", drm.address)
        if not watts:  # older cards report an average, newer ones the present power
            power = read.first(f"{sensors}/power1_average", f"{sensors}/power1_input")
            watts = None if power is None else power * MICRO
        temperature = read.first(f"{sensors}/temp1_input", f"{sensors}/temp2_input")  # edge, else junction
        return GpuSample(
            card=card,
            taken_at_secs=self._clock.now_secs(),
            fan_percent=self._fan(sensors),
            compute_mode=read.text(f"{device}/current_compute_partition") or "",
            memory_used_bytes=None if used is None else int(used),
            ce_util_percent=None if busy is None else float(busy),
            temperature_celsius=None if temperature is None else temperature / 1000,
            power_watts=watts,
            power_limit_watts=read.scaled(f"{sensors}/power1_cap", MICRO),
            ce_clock_mhz=parse_current_clock(read.text(f"{device}/pp_dpm_sclk") or ""),
            memory_clock_mhz=parse_current_clock(read.text(f"{device}/pp_dpm_mclk") or ""),
            energy_joules=read.scaled(f"{sensors}/energy1_input", MICRO),
            processes=processes,
        )

    def _fan(self, sensors: str) -> float | None:
        turns, most = self._sysfs.number(f"{sensors}/fan1_input"), self._sysfs.number(f"{sensors}/fan1_max")
        if turns is not None and most:
            return 100.0 * turns / most
        pulse = self._sysfs.number(f"{sensors}/pwm1")  # of 255
        return None if pulse is None else 100.0 * pulse / 255


def _merged(uses: list[GpuProcess]) -> tuple[GpuProcess, ...]:
    """Return the processes on a card, those of KFD and DRM merged by pid.

    Both may count the same memory, so the larger figure is used. KFD reports compute load as the share of
    compute units that are occupied, DRM reports graphics and video load as engine time.
    """
    found: dict[int, GpuProcess] = {}
    for pid, memory, percent in uses:
        known = found.get(pid, GpuProcess(pid))
        found[pid] = GpuProcess(
            pid, max_known(known.memory_bytes, memory), max_known(known.ce_util_percent, percent)
        )
    return tuple(each for _, each in sorted(found.items()))
