"""Intel's cards (drivers i915 and xe): sensors by hwmon, processes and utilisation by fdinfo."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.system.clock import Clock
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.gpu import Paths
from jobfeatures_exporter.sampling.gpu.clients import DrmClients
from jobfeatures_exporter.sampling.gpu.drm import DrmCard, drm_cards
from jobfeatures_exporter.sampling.host.sysfs import Sysfs
from jobfeatures_exporter.snapshot import GpuCard, GpuProcess, GpuSample

MANUFACTURER = "Intel"
MODULES = ("i915", "xe")
MICRO = 1e-6
XE_CLOCK = "device/tile0/gt0/freq0"


def make_driver(paths: Paths, clock: Clock, unreadable: Unreadable, *, detail: bool = False) -> IntelDriver:
    """Return the driver; `detail` has no effect."""
    return IntelDriver(paths, clock, unreadable)


class IntelDriver:
    """All cards of i915 and xe.

    The kernel does not report a card's utilisation: it is the sum over its clients, known only if all
    processes could be scanned. There is no UUID either: cards are identified by their address.
    """

    def __init__(self, paths: Paths, clock: Clock, unreadable: Unreadable) -> None:
        self._paths = paths
        self._clock = clock
        self._sysfs = Sysfs(unreadable)
        self._clients = DrmClients(paths.procfs, unreadable)
        self._has_looked = False

    def close(self) -> None:
        """Do nothing, as nothing is held."""

    def read(self) -> Iterator[GpuSample]:
        """Yield each card."""
        clients = self._clients.read(self._clock.monotonic_secs())
        cards = [card for card in drm_cards(self._paths.sysfs, self._sysfs) if card.driver in MODULES]
        for index, drm in enumerate(sorted(cards, key=lambda each: each.address)):
            yield self._sample(index, drm, clients.get(drm.address, []))
        self._has_looked = True

    def _sample(self, index: int, drm: DrmCard, clients: list[GpuProcess]) -> GpuSample:
        read, device = self._sysfs, f"{drm.path}/device"
        sensors = read.hwmon(device)
        memory = read.first(f"{device}/physical_vram_size_bytes", f"{drm.path}/lmem_total_bytes")
        limit = read.scaled(f"{sensors}/power1_max", MICRO)
        card = GpuCard(
            uuid=f"PCI-{drm.address}",
            index=index,
            minor=drm.minor,
            address=drm.address,
            manufacturer=MANUFACTURER,
            model=f"{drm.vendor}:{drm.device}",
            driver=drm.driver,
            memory_bytes=memory,
            power_limit_watts=limit,
            max_power_limit_watts=read.scaled(f"{sensors}/power1_rated_max", MICRO),
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
            energy_joules=read.scaled(f"{sensors}/energy1_input", MICRO),
            processes=tuple(clients),
        )

    def _utilisation(self, clients: list[GpuProcess]) -> float | None:
        """Return the sum over the clients, 0 without any; None before the second reading."""
        if not (self._clients.is_whole and self._has_looked):
            return None
        return min(100.0, sum(each.ce_util_percent or 0.0 for each in clients))
