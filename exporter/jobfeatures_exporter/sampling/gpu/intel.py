"""Reads Intel's cards (drivers i915 and xe): sensors from hwmon, processes and utilisation from fdinfo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jobfeatures.records.combining import sum_known
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.model.snapshot import GpuCard, GpuProcess, GpuSample
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.gpu import Paths
from jobfeatures_exporter.sampling.gpu.clients import DrmClients
from jobfeatures_exporter.sampling.gpu.drm import DrmCard, drm_cards, find_silent, place_of
from jobfeatures_exporter.sampling.host.sysfs import Sysfs

MANUFACTURER = "Intel"
MODULES = ("i915", "xe")
MICRO = 1e-6
XE_CLOCK = "device/tile0/gt0/freq0"
# Of hwmon: 1 is the card, 2 its package, which some cards have alone. A limit of 0 is switched off.
ENERGY = ("energy1_input", "energy2_input")
LIMITS = ("power1_max", "power1_cap", "power2_max", "power2_cap")
RATED = ("power1_rated_max", "power2_rated_max")


def make_driver(paths: Paths, clock: Clock, unreadable: Unreadable, *, detail: bool = False) -> IntelDriver:
    """Return the driver of Intel's cards; `detail` has no effect."""
    return IntelDriver(paths, clock, unreadable)


class IntelDriver:
    """Reads all cards of the kernel drivers i915 and xe.

    The kernel does not report how busy a card is. The sum over its processes is reported instead, or None
    unless all processes could be scanned. Cards have no UUID, and are identified by their PCI address.
    """

    def __init__(self, paths: Paths, clock: Clock, unreadable: Unreadable) -> None:
        self._paths = paths
        self._clock = clock
        self._unreadable = unreadable
        self._sysfs = Sysfs(unreadable)
        self._clients = DrmClients(paths.procfs, unreadable)
        self._places: set[str] = set()  # of cards that are or were there
        self._counters: dict[str, str] = {}  # the file of each card's energy
        self._has_read = False

    def close(self) -> None:
        """Do nothing, as this driver holds nothing open."""

    def read(self) -> Iterator[GpuSample]:
        """Yield the state of each card, as `Driver.read` describes."""
        clients = self._clients.read(self._clock.monotonic_secs())
        cards = [card for card in drm_cards(self._paths.sysfs, self._sysfs) if card.driver in MODULES]
        present = {drm.address for drm in cards}
        silent = {
            address: module
            for module in MODULES
            for address in find_silent(self._paths.sysfs, self._sysfs, module, present)
        }
        self._places.update(present, silent)
        for drm in sorted(cards, key=lambda each: each.address):
            index = place_of(drm.address, self._places)
            yield self._sample(index, drm, clients.get(drm.address, []))
        self._has_read = True
        for address, module in silent.items():
            lost = GpuCard(uuid=f"PCI-{address}", address=address, manufacturer=MANUFACTURER, driver=module)
            yield GpuSample(card=lost, taken_at_secs=self._clock.now_secs(), failing=1)

    def _sample(self, index: int, drm: DrmCard, clients: list[GpuProcess]) -> GpuSample:
        read, device = self._sysfs, f"{drm.path}/device"
        sensors = read.hwmon(device)
        limit = self._watts(sensors, LIMITS)
        card = GpuCard(
            uuid=f"PCI-{drm.address}",
            index=index,
            minor=drm.minor,
            render_minors=drm.render_minors,
            address=drm.address,
            manufacturer=MANUFACTURER,
            model=f"{drm.vendor}:{drm.device}",
            driver=drm.driver,
            memory_bytes=self._memory(drm),
            power_limit_watts=limit,
            max_power_limit_watts=self._watts(sensors, RATED),
            max_ce_clock_mhz=read.first(f"{drm.path}/{XE_CLOCK}/max_freq", f"{drm.path}/gt_max_freq_mhz"),
        )
        reported = [each.memory_bytes for each in clients if each.memory_bytes is not None]
        used = sum(reported) if reported and self._clients.is_whole else None
        temperature = read.first(f"{sensors}/temp1_input", f"{sensors}/temp2_input")
        return GpuSample(
            card=card,
            taken_at_secs=self._clock.now_secs(),
            memory_used_bytes=used,
            ce_util_percent=self._utilisation(clients),
            temperature_celsius=None if temperature is None else temperature / 1000,
            power_limit_watts=limit,
            ce_clock_mhz=read.first(f"{drm.path}/{XE_CLOCK}/act_freq", f"{drm.path}/gt_act_freq_mhz"),
            energy_joules=self._energy(drm.address, sensors),
            processes=tuple(clients),
        )

    def _memory(self, drm: DrmCard) -> int | None:
        """Return the bytes of the card's own memory, over its tiles with the driver xe."""
        read, device = self._sysfs, f"{drm.path}/device"
        tiles = (name for name in read.names(device) if name.startswith("tile"))
        sizes = [read.number(f"{device}/{name}/physical_vram_size_bytes") for name in tiles]
        known = None if None in sizes else sum_known(sizes)
        if known is not None:
            return known
        return read.first(f"{device}/physical_vram_size_bytes", f"{drm.path}/lmem_total_bytes")

    def _watts(self, sensors: str, names: Iterable[str]) -> float | None:
        """Return the first of these figures that is above 0."""
        found = filter(None, (self._sysfs.scaled(f"{sensors}/{name}", MICRO) for name in names))
        return next(found, None)

    def _energy(self, address: str, sensors: str) -> float | None:
        """Return the joules of the counter that the card had first: any other starts from another value."""
        for name in (self._counters[address],) if address in self._counters else ENERGY:
            joules = self._sysfs.scaled(f"{sensors}/{name}", MICRO)
            if joules is not None:
                self._counters[address] = name
                return joules
        return None

    def _utilisation(self, clients: list[GpuProcess]) -> float | None:
        """Return the sum over the clients, 0 without any; None before the second reading."""
        if not (self._clients.is_whole and self._has_read):
            return None
        return min(100.0, sum(each.ce_util_percent or 0.0 for each in clients))
