"""Reads optional details of NVIDIA's cards: profiling metrics, memory errors, XID events, clock reasons.

Profiling metrics (GPM, Hopper and later) are what a card counted between two samples of NVML; the earlier one
is kept. On a MIG instance, they are reported only if its GPU instance has no other compute instance, because
they cover the whole GPU instance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from jobfeatures.system.clock import Clock
from jobfeatures_exporter.model.snapshot import GpuCount, GpuSample
from jobfeatures_exporter.sampling.gpu import (
    BUSY,
    ECC,
    LIFETIME_ECC,
    LINK,
    PROFILED,
    REMAP_FAILED,
    REMAP_PENDING,
    REMAPPED,
    XID,
    XIDS,
    XIDS_WATCHED,
)
from jobfeatures_exporter.sampling.gpu.nvml import FUNCTION_NOT_FOUND, NOT_SUPPORTED, TIMEOUT, NvmlDevice

PERCENT, MIB = 0.01, 2**20
MOST = {PERCENT: 105.0, MIB: 2.0**24}  # of a profile: more is no reading
# The figures of a profile by number, `NVML_GPM_METRIC_…`, with their units.
FIGURES: Mapping[int, tuple[GpuCount, float]] = {
    2: ((BUSY, "sm"), PERCENT),
    3: ((BUSY, "warps"), PERCENT),
    5: ((BUSY, "tensor"), PERCENT),
    10: ((BUSY, "memory"), PERCENT),
    20: ((LINK, "pcie", "transmit"), MIB),
    21: ((LINK, "pcie", "receive"), MIB),
    60: ((LINK, "nvlink", "receive"), MIB),
    61: ((LINK, "nvlink", "transmit"), MIB),
}
# `nvmlClocksEventReason…`, without idle (1), which does not limit clocks.
CLOCK_REASONS = {
    0x002: "application_clocks",
    0x004: "power_cap",
    0x008: "hardware_slowdown",
    0x010: "sync_boost",
    0x020: "software_thermal",
    0x040: "hardware_thermal",
    0x080: "power_brake",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}
KINDS = ("corrected", "uncorrected")  # in the order of their numbers
NEVER = frozenset({NOT_SUPPORTED, FUNCTION_NOT_FOUND})
SETTLE_SECS = 0.1  # minimum between two samples: the library does not update them sooner
MAX_EVENTS = 1000  # per card and reading
NO_INSTANCE = 0xFFFFFFFF


class _Sample(NamedTuple):
    """A GPM sample, and when it was taken (monotonic)."""

    buffer: Any
    taken_secs: float


class Profile:
    """Reads the profiling metrics (GPM) of one card or GPU instance, as counters since our first sample."""

    def __init__(self, nvml: Any, clock: Clock, instance: int | None = None) -> None:
        self._nvml = nvml
        self._clock = clock
        self._get = ("nvmlGpmSampleGet",) if instance is None else ("nvmlGpmMigSampleGet", instance)
        self._buffers: list[Any] = []  # allocated by the library, at most two
        self._before: _Sample | None = None
        self._counts: dict[GpuCount, float] = {}
        self._latest: dict[GpuCount, float] = {}  # the counts that the latest sample had

    def read(self, ask: NvmlDevice) -> dict[GpuCount, float]:
        """Return the counter of each profiling metric that can be read now; `ask` queries the card."""
        before = self._before
        if before is not None and self._clock.monotonic_secs() - before.taken_secs <= SETTLE_SECS:
            return self._latest
        self._latest = {}
        buffer = self._spare(ask)
        if buffer is None or ask(*self._get, buffer) is None:
            return {}
        taken = _Sample(buffer, self._clock.monotonic_secs())
        self._before = taken
        if before is None:
            return {}
        grown = self._compare(ask, before, taken)
        self._latest = {count: self._counts.get(count, 0.0) + more for count, more in grown.items()}
        self._counts.update(self._latest)
        return self._latest

    def close(self, ask: NvmlDevice) -> None:
        """Free the samples that NVML allocated."""
        while self._buffers:
            ask.call("nvmlGpmSampleFree", self._buffers.pop())
        self._before = None

    def _spare(self, ask: NvmlDevice) -> Any | None:
        """Return a sample buffer that may be overwritten."""
        kept = None if self._before is None else self._before.buffer
        for buffer in self._buffers:
            if buffer is not kept:
                return buffer
        buffer = ask.call("nvmlGpmSampleAlloc")
        if buffer is not None:
            self._buffers.append(buffer)
        return buffer

    def _compare(self, ask: NvmlDevice, before: _Sample, now: _Sample) -> dict[GpuCount, float]:
        elapsed = now.taken_secs - before.taken_secs
        asked = self._nvml.c_nvmlGpmMetricsGet_t(
            version=self._nvml.NVML_GPM_METRICS_GET_VERSION,
            numMetrics=len(FIGURES),
            sample1=before.buffer,
            sample2=now.buffer,
        )
        for place, number in enumerate(FIGURES):
            asked.metrics[place].metricId = number
        if ask.call("nvmlGpmMetricsGet", asked) is None:
            return {}
        grown: dict[GpuCount, float] = {}
        for place, (count, unit) in enumerate(FIGURES.values()):
            metric = asked.metrics[place]
            ask.note("nvmlGpmMetricsGet", metric.nvmlReturn)
            if not metric.nvmlReturn and 0 <= metric.value <= MOST[unit]:
                grown[count] = metric.value * unit * elapsed
            elif not metric.nvmlReturn and metric.value > 0:
                ask.refuse("_".join(count))
        return {PROFILED: elapsed, **grown} if grown else {}


class XidEvents:
    """Counts the XID events of one card, which are errors that the driver reports; never waits for one."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._set: Any | None = None
        self._is_supported = True
        self.is_watched: bool | None = None  # None: not supported
        self.counts: Counter[tuple[int, int]] = Counter()  # by GPU instance, or NO_INSTANCE, and code

    def read(self, ask: NvmlDevice) -> None:
        """Count the XID events that have occurred since the last reading; `ask` queries the card."""
        if not self._is_supported or (self._set is None and not self._register(ask)):
            return
        for _ in range(MAX_EVENTS):
            event = ask.call("nvmlEventSetWait_v2", self._set, 0, no_news=TIMEOUT)
            if event is None:
                if ask.error != TIMEOUT:
                    self.is_watched = False
                    self.close(ask)  # after an error the content of a set is undefined
                return
            if event.eventType & self._nvml.nvmlEventTypeXidCriticalError:
                self.counts[event.gpuInstanceId, event.eventData] += 1

    def close(self, ask: NvmlDevice) -> None:
        """Free NVML's event set."""
        if self._set is not None:
            ask.call("nvmlEventSetFree", self._set)
            self._set = None

    def _register(self, ask: NvmlDevice) -> bool:
        self._set = ask.call("nvmlEventSetCreate")
        if self._set is not None:
            ask("nvmlDeviceRegisterEvents", self._nvml.nvmlEventTypeXidCriticalError, self._set)
        error = ask.error
        self._is_supported = error not in NEVER
        self.is_watched = not error if self._is_supported else None
        if error:
            self.close(ask)
        return not error


class CardDetail:
    """Reads all optional details of one card and its MIG instances."""

    def __init__(self, nvml: Any, clock: Clock) -> None:
        self._nvml = nvml
        self._clock = clock
        self._profiles: dict[int | None, Profile] = {}  # by GPU instance, None: the card
        self._xids = XidEvents(nvml)
        self._reasons: int | None = None  # supported by the card
        self._has_profile: bool | None = None
        self._ask: NvmlDevice | None = None

    def add_to_card(self, sample: GpuSample, ask: NvmlDevice) -> GpuSample:
        """Return a card's sample with its optional details added; `ask` queries the card."""
        self._ask = ask
        self._xids.read(ask)
        flags = {} if self._xids.is_watched is None else {XIDS_WATCHED: self._xids.is_watched}
        counts = {**self._profile(ask, None), **self._xid_counts(None), **self._ecc(ask)}
        rows = ask("nvmlDeviceGetRemappedRows")  # corrected, uncorrected, is pending, has failed
        if rows is not None:
            counts.update({(REMAPPED, kind): count for kind, count in zip(KINDS, rows[:2], strict=True)})
            flags |= {REMAP_PENDING: bool(rows[2]), REMAP_FAILED: bool(rows[3])}
        return replace(sample, counts=counts, flags=flags, clock_reasons=self._clock_reasons(ask))

    def add_to_parts(self, parts: Sequence[GpuSample], ask: NvmlDevice) -> Iterator[GpuSample]:
        """Yield the samples of a card's MIG instances (`parts`), with the details of each added."""
        compute_instances = Counter(part.card.instance_id for part in parts)
        for part in parts:
            instance = part.card.instance_id
            if instance is None or compute_instances[instance] > 1:
                yield part
            else:
                counts = {**self._profile(ask, instance), **self._xid_counts(instance)}
                yield replace(part, counts=counts)

    def close(self) -> None:
        """Free what NVML has allocated: samples and event sets."""
        if self._ask is not None:
            self._xids.close(self._ask)
            for profile in self._profiles.values():
                profile.close(self._ask)

    def _profile(self, ask: NvmlDevice, instance: int | None) -> dict[GpuCount, float]:
        if self._has_profile is None:
            support = ask("nvmlGpmQueryDeviceSupport")
            if support is not None or ask.error in NEVER:
                self._has_profile = support is not None and bool(support.isSupportedDevice)
        if not self._has_profile:
            return {}
        if instance not in self._profiles:
            self._profiles[instance] = Profile(self._nvml, self._clock, instance)
        return self._profiles[instance].read(ask)

    def _xid_counts(self, instance: int | None) -> dict[GpuCount, float]:
        if not self._xids.is_watched:
            return {}
        found: dict[GpuCount, float] = {XIDS: 0}
        for (where, code), count in self._xids.counts.items():
            if instance is None or where == instance:
                for each in (XIDS, (XID, str(code))):
                    found[each] = found.get(each, 0) + count
        return found

    def _ecc(self, ask: NvmlDevice) -> dict[GpuCount, float]:
        found: dict[GpuCount, float] = {}
        counters = ((ECC, self._nvml.NVML_VOLATILE_ECC), (LIFETIME_ECC, self._nvml.NVML_AGGREGATE_ECC))
        for what, counter in counters:
            for number, kind in enumerate(KINDS):
                count = ask("nvmlDeviceGetTotalEccErrors", number, counter)
                if count is not None:
                    found[what, kind] = count
        return found

    def _clock_reasons(self, ask: NvmlDevice) -> dict[str, bool]:
        if self._reasons is None:
            self._reasons = ask.first(
                "nvmlDeviceGetSupportedClocksEventReasons", "nvmlDeviceGetSupportedClocksThrottleReasons"
            )
        now = ask.first("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
        if now is None:
            return {}
        known = now | (self._reasons or 0)
        return {name: bool(now & bit) for bit, name in CLOCK_REASONS.items() if known & bit}
