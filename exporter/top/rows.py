"""From pages of metrics to rows: what each job of the node uses now. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exporter.collectors import allocation, gpus, jobs, node, remaining, waste
from exporter.exposition import Metric
from jobfeatures.series import Series, parse_lines
from jobfeatures.status.waste import Basis

METRICS = (
    *(allocation.INFO, allocation.START, allocation.END, allocation.ALLOCATED),
    *(allocation.ALLOCATED_GPUS, allocation.MEMORY),
    *(jobs.CPU, jobs.MEMORY, jobs.LIMIT, gpus.JOB_UTILIZATION, gpus.JOB_ALLOCATED),
    *(remaining.REMAINING, waste.DRAINING, waste.KILL),
    *(node.TAKEN, node.CORES, node.CPU, node.MEMORY),
)
NAMES = frozenset(each.sample_name for each in METRICS)
IDLE_MODES = frozenset({"idle", "iowait"})  # of the node's CPU time


@dataclass(frozen=True, slots=True)
class Look:
    """One page."""

    series: Mapping[str, tuple[Series, ...]] = field(default_factory=dict)  # by name

    def all(self, metric: Metric) -> tuple[Series, ...]:
        """Return the series of a metric."""
        return self.series.get(metric.sample_name, ())

    def one(self, metric: Metric) -> float | None:
        """Return the value of a metric without labels."""
        found = self.all(metric)
        return found[0].value if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One job; None is what is not known."""

    batch_system: str
    job_id: str
    user: str = ""
    name: str = ""
    cpus_used: float | None = None
    cpus_allocated: float | None = None
    memory: float | None = None  # anon + shmem
    memory_limit: float | None = None
    gpus_used: float | None = None
    gpus_allocated: float | None = None
    left_secs: float | None = None
    draining_core_secs: float | None = None
    kill_core_secs: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNow:
    """The node as a whole."""

    cores: float | None = None
    busy_cpus: float | None = None
    memory_bytes: float | None = None
    available_bytes: float | None = None


def parse_look(text: str, *, source: str = "") -> Look:
    """Return what a page says. Raises ParseError."""
    found: dict[str, list[Series]] = {}
    for each in parse_lines(text, NAMES, source=source):
        found.setdefault(each.name, []).append(each)
    return Look({name: tuple(series) for name, series in found.items()})


def make_rows(now: Look, before: Look | None) -> list[Row]:
    """Return a row for each job that has not ended.

    CPUs are those in use between the two looks; without two, on average since the job's start.
    """
    secs = _between(now, before)
    used_before = _cpu_secs(before) if before is not None else {}
    used = _cpu_secs(now)
    taken, starts, ended = (
        now.one(node.TAKEN),
        _by_job(now.all(allocation.START)),
        _by_job(now.all(allocation.END)),
    )
    limits = {**_by_job(now.all(allocation.MEMORY)), **_by_job(now.all(jobs.LIMIT))}
    of_gpus, allocated_gpus = (
        _sums(now.all(gpus.JOB_UTILIZATION)),
        _by_job(now.all(allocation.ALLOCATED_GPUS)),
    )
    cards = _sums(now.all(gpus.JOB_ALLOCATED))
    memory = _sums(each for each in now.all(jobs.MEMORY) if each.labels.get("component") in {"anon", "shmem"})
    left = _by_job(
        each for each in now.all(remaining.REMAINING) if each.labels.get("basis") == remaining.MINIMUM
    )
    draining, kill = _by_basis(now.all(waste.DRAINING)), _by_basis(now.all(waste.KILL))
    allocated = _by_job(now.all(allocation.ALLOCATED))
    rows = []
    for each in now.all(allocation.INFO):
        key = _key(each)
        if key in ended:
            continue
        has_cards = cards.get(key, allocated_gpus.get(key))
        rows.append(
            Row(
                batch_system=key[0],
                job_id=key[1],
                user=each.labels.get("user") or each.labels.get("uid", ""),
                name=each.labels.get("name", ""),
                cpus_used=_cpus(used.get(key), used_before.get(key), secs, starts.get(key), taken),
                cpus_allocated=allocated.get(key),
                memory=memory.get(key),
                memory_limit=limits.get(key),
                gpus_used=of_gpus.get(key),
                gpus_allocated=has_cards,
                left_secs=left.get(key),
                draining_core_secs=draining.get(key),
                kill_core_secs=kill.get(key),
            )
        )
    return rows


def make_node(now: Look, before: Look | None) -> NodeNow:
    """Return the node's figures."""
    memory = {each.labels.get("kind"): each.value for each in now.all(node.MEMORY)}
    busy = None
    secs = _between(now, before)
    if before is not None and secs is not None and now.all(node.CPU) and before.all(node.CPU):
        busy = max(0.0, (_busy(now) - _busy(before)) / secs)
    return NodeNow(
        cores=now.one(node.CORES),
        busy_cpus=busy,
        memory_bytes=memory.get("total"),
        available_bytes=memory.get("available"),
    )


Key = tuple[str, str]


def _key(series: Series) -> Key:
    return series.labels.get("batch_system", ""), series.labels.get("job_id", "")


def _by_job(series: Iterable[Series]) -> dict[Key, float]:
    return {_key(each): each.value for each in series}


def _sums(series: Iterable[Series]) -> dict[Key, float]:
    sums: dict[Key, float] = {}
    for each in series:
        sums[_key(each)] = sums.get(_key(each), 0.0) + each.value
    return sums


def _by_basis(series: Iterable[Series]) -> dict[Key, float]:
    """Return what the job reports, else what is estimated."""
    found = list(series)
    estimated = _by_job(each for each in found if each.labels.get("basis") == Basis.ESTIMATED)
    return {**estimated, **_by_job(each for each in found if each.labels.get("basis") == Basis.REPORTED)}


def _cpu_secs(look: Look) -> dict[Key, float]:
    """Return the CPU seconds of the jobs of which both modes are known."""
    modes: dict[Key, int] = {}
    for each in look.all(jobs.CPU):
        modes[_key(each)] = modes.get(_key(each), 0) + 1
    return {key: secs for key, secs in _sums(look.all(jobs.CPU)).items() if modes[key] == 2}


def _between(now: Look, before: Look | None) -> float | None:
    """Return the seconds between two looks at the node, None where there are no two."""
    first = before.one(node.TAKEN) if before is not None else None
    last = now.one(node.TAKEN)
    return last - first if first is not None and last is not None and last > first else None


def _cpus(
    used: float | None, before: float | None, secs: float | None, start: float | None, taken: float | None
) -> float | None:
    if used is None:
        return None
    if before is not None and secs is not None and used >= before:
        return (used - before) / secs
    if start is not None and taken is not None and taken > start:
        return used / (taken - start)
    return None


def _busy(look: Look) -> float:
    return sum(each.value for each in look.all(node.CPU) if each.labels.get("mode") not in IDLE_MODES)
