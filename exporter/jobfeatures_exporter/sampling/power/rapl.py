"""Reads the energy counters of CPU packages (RAPL) from the kernel's powercap framework.

Source: Documentation/power/powercap/powercap.rst. Intel and AMD have the same interface. Since Linux 5.10
only root can read ``energy_uj``.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from jobfeatures.errors import ParseError
from jobfeatures.records.quantities import parse_count
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.sampling.descriptors import (
    VANISHED,
    DescriptorBudget,
    KeptFile,
    Unreadable,
    read_file,
)
from jobfeatures_exporter.sampling.power.energy import LONG_WATTS, MAX_WATTS, compute_increase_uj

# intel-rapl:0 is a package, intel-rapl:0:2 a part of it; intel-rapl-mmio has some of them a second time.
_ZONE = re.compile(r"(?P<kind>intel-rapl(?:-mmio)?):(?P<package>[0-9]{1,4})(?::[0-9]{1,4})?\Z")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
_PACKAGE = re.compile(r"package-([0-9]{1,4}(?:-die-[0-9]{1,4})?)\Z")
_DIE = re.compile(r"(.+)-die-[0-9]{1,4}\Z")
OVER_LIMIT = 4.0  # a package's limits hold over seconds,
LEAST_WATTS = 500.0  # and some firmware tells tiny ones,
UNLIMITED_WATTS = 1000.0  # or none, as AMD's
STILL_SECS = 60.0  # a counter that has not moved for so long counts nothing, as in virtual machines
MIRROR_UJ = 500_000  # two readings of one counter at once, each up to a millisecond old


class Zone(NamedTuple):
    """One energy counter below /sys, with its `domain`: ``package-0``, ``dram-0`` or ``psys``.

    The counter wraps at `max_range_uj` microjoules (None: unknown). A reading that implies more than
    `max_watts` is refused.
    """

    domain: str
    path: str
    max_range_uj: int | None
    max_watts: float = MAX_WATTS


def compute_domain(name: str, parent: str | None) -> str | None:
    """Return the domain (see `Zone`) of a powercap zone; None for a part that its package includes.

    `name` is the zone's own, `parent` that of the zone which contains it: the memory of ``package-1`` is
    ``dram-1``. Packages include their cores and uncore.
    """
    if parent is None:
        return name if name == "psys" or _PACKAGE.match(name) else None
    package = _PACKAGE.match(parent)
    return f"dram-{package[1]}" if name == "dram" and package else None


def find_zones(sysfs: str, unreadable: Unreadable) -> list[Zone]:
    """Return the energy counters below `sysfs`; failures are counted in `unreadable`."""
    top = f"{sysfs}/class/powercap"
    names = sorted(filter(_ZONE.match, unreadable.tried("node_energy", os.listdir, top) or ()))
    found = ((name, unreadable.tried("node_energy", _read_name, f"{top}/{name}")) for name in names)
    words = {name: word for name, word in found if word is not None}
    zones: dict[str, Zone] = {}
    # Sorted by name, ":" comes after "-": MSR zones replace those of the same domain by MMIO.
    for name, word in words.items():
        parent, colon, _ = name.rpartition(":")
        is_part = colon and parent in names
        domain = compute_domain(word, words.get(parent) if is_part else None)
        if domain is not None:
            most_uj = unreadable.tried("node_energy", _read_energy, f"{top}/{name}/max_energy_range_uj")
            watts = MAX_WATTS if domain == "psys" else _max_watts(f"{top}/{name}")
            zones[domain] = Zone(domain, f"{top}/{name}/energy_uj", most_uj, watts)
    return list(zones.values())


def _read_name(directory: str) -> str:
    text = read_file(f"{directory}/name", max_bytes=256).decode("ascii", "replace").strip()
    if not _NAME.match(text):
        raise ParseError(
            "not the name of a powercap zone, such as package-0", source=f"{directory}/name", text=text
        )
    return text


def _read_energy(path: str) -> int:
    return parse_energy(read_file(path, max_bytes=256))


def _max_watts(directory: str) -> float:
    """Return what a package, or its memory, can draw by its limits (powercap's constraints), if any."""
    files = (f"constraint_{number}_{name}_uw" for number in range(3) for name in ("power_limit", "max_power"))
    limits = (Unreadable().tried("", _read_energy, f"{directory}/{name}") for name in files)
    limit = max((each or 0 for each in limits), default=0) / 1e6
    return min(max(LEAST_WATTS, OVER_LIMIT * limit), MAX_WATTS) if limit else UNLIMITED_WATTS


def parse_energy(data: bytes) -> int:
    """Return the microjoules in ``energy_uj`` or ``max_energy_range_uj``. Raises ParseError if malformed."""
    return parse_count(data.decode("ascii", "replace").strip(), field="energy_uj")


class NodeEnergy:
    """Counts the joules of each RAPL domain since our start.

    While a domain's counter cannot be read, its last value is kept.
    """

    def __init__(self, sysfs: str, clock: Clock, budget: DescriptorBudget, unreadable: Unreadable) -> None:
        self._sysfs = sysfs
        self._clock = clock
        self._budget = budget
        self._unreadable = unreadable
        self._files: dict[Zone, KeptFile] = {}
        self._last: dict[str, tuple[int, float]] = {}  # reading, and when
        self._still: dict[str, float] = {}  # when a counter that has never moved was read first
        self._total_uj: dict[str, int] = {}
        self._mirrors: set[str] = set()  # dies that are not the first of their package,
        self._distinct: set[str] = set()  # and those with a counter of their own

    def read(self) -> Mapping[str, float]:
        """Return the joules by RAPL domain (see `Zone`).

        A domain is left out until it has been read once, and after `STILL_SECS` if its counter never moves.
        """
        began_secs = self._clock.monotonic_secs()
        if not self._files:
            self._files = {
                zone: KeptFile(zone.path, self._budget) for zone in find_zones(self._sysfs, self._unreadable)
            }
        for zone, file in list(self._files.items()):
            try:
                now_uj = parse_energy(file.read())
            except (OSError, ParseError) as error:
                self._unreadable.add("node_energy", error)
                if isinstance(error, OSError) and error.errno in VANISHED:
                    self.close()  # the next sample finds the present zones
                    break
            else:
                self._count(zone, now_uj)
        self._compare_dies(began_secs)
        still = {each for each, secs in self._still.items() if self._last[each][1] - secs > STILL_SECS}
        for _ in still:
            self._unreadable.count("node_energy_still")
        hidden = (self._mirrors - self._distinct) | still
        return {domain: uj / 1e6 for domain, uj in self._total_uj.items() if domain not in hidden}

    @property
    def longest_gap_secs(self) -> float:
        """Return the seconds between two readings from which on joules may be unknown; infinity: never."""
        ranges = [zone.max_range_uj for zone in self._files if zone.max_range_uj is not None]
        return min(ranges, default=math.inf) / (LONG_WATTS * 1e6)

    def close(self) -> None:
        """Close the descriptors."""
        for file in self._files.values():
            file.close()
        self._files = {}

    def _count(self, zone: Zone, now_uj: int) -> None:
        now_secs = self._clock.monotonic_secs()
        if zone.domain not in self._last:
            self._still[zone.domain] = now_secs
        elif now_uj != self._last[zone.domain][0]:
            self._still.pop(zone.domain, None)
        before_uj, before_secs = self._last.get(zone.domain, (now_uj, now_secs))
        self._last[zone.domain] = now_uj, now_secs
        grown_uj = compute_increase_uj(
            before_uj,
            now_uj,
            max_range_uj=zone.max_range_uj,
            elapsed_secs=now_secs - before_secs,
            max_watts=zone.max_watts,
        )
        if not grown_uj and now_uj != before_uj:
            self._unreadable.count("node_energy_refused")
        self._total_uj[zone.domain] = self._total_uj.get(zone.domain, 0) + grown_uj

    def _compare_dies(self, began_secs: float) -> None:
        """Find the dies that show the counter of their package's first die, as AMD's do; Intel's differ.

        `began_secs` is when this comparison began: on a busy node we may wait between any two readings.
        """
        firsts: dict[str, str] = {}
        most_uj = MIRROR_UJ + MAX_WATTS * 1e6 * (self._clock.monotonic_secs() - began_secs)
        for zone in self._files:
            die, (uj, read_secs) = _DIE.match(zone.domain), self._last.get(zone.domain, (0, -math.inf))
            if die is None or read_secs < began_secs:
                continue
            first = firsts.setdefault(die[1], zone.domain)
            apart_uj = abs(uj - self._last[first][0])
            if zone.max_range_uj is not None:  # one may have wrapped
                apart_uj = min(apart_uj, abs(zone.max_range_uj - apart_uj))
            if apart_uj > most_uj:
                self._distinct.add(zone.domain)
            if zone.domain != first:
                self._mirrors.add(zone.domain)
