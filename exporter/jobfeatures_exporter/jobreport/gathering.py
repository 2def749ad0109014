"""From Prometheus's answers to reports. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from jobfeatures.metrics import JOB_CPUS, JOB_INFO, Metric
from jobfeatures.model import JobKey, JobState
from jobfeatures.series import Series
from jobfeatures_exporter.collectors import allocation, energy, gpus, jobs
from jobfeatures_exporter.exposition import Family, Values
from jobfeatures_exporter.jobreport.figures import GpuUse, JobReport, NodeUse, Place, without_missed_peaks
from jobfeatures_exporter.jobreport.finding import Found
from jobfeatures_exporter.view.job import find_cpu_secs, find_memory_limit
from jobfeatures_exporter.view.numbers import Numbers

INFO_SHOWN = (
    "user",
    "account",
    "partition",
    "name",
    "array_job_id",
    "array_task_id",
    "het_job_id",
    "restarts",
)
MIN_COVERAGE = 0.95
MISSING_SECS = 120.0  # that may be missing at the beginning: sources are asked once a minute


@dataclass(slots=True)
class Answers:
    """What was asked about some jobs, one list of series a question."""

    last: tuple[Series, ...] = ()
    highest: Mapping[Metric, tuple[Series, ...]] = field(default_factory=dict)
    threads: tuple[Series, ...] = ()
    claimed: tuple[Series, ...] = ()  # CPUs that pilots say they use, on average
    suspended_steps: tuple[Series, ...] = ()  # at how many a job was suspended
    steps: tuple[Series, ...] = ()  # at how many a job was seen
    step_secs: float = 1.0
    resets: Mapping[Metric, tuple[Series, ...]] = field(default_factory=dict)
    increases: Mapping[Metric, tuple[Series, ...]] = field(default_factory=dict)
    before: tuple[Series, ...] = ()  # CPU time at the start, where the id had a run before
    cards: tuple[Series, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """When a job ran: `end_secs` None while it does."""

    start_secs: float | None
    end_secs: float | None
    seen_until_secs: float | None
    notes: tuple[str, ...] = ()


# The series of cards by node, uuid and name.
Cards = Mapping[tuple[Place, str], Mapping[str, tuple[Mapping[str, str], float]]]


class _Place:
    def __init__(self) -> None:
        self.values: dict[str, list[tuple[Mapping[str, str], float]]] = {}

    def all(self, metric: Metric) -> list[tuple[Mapping[str, str], float]]:
        return self.values.get(metric.sample_name, [])

    def one(self, metric: Metric) -> float | None:
        return max((value for _, value in self.all(metric)), default=None)

    def by(self, metric: Metric, label: str) -> dict[str, float]:
        """Return the values by a label; of a node that is scraped twice, the higher one."""
        return _by_label(self.all(metric), label)


def _by_label(found: Iterable[tuple[Mapping[str, str], float]], label: str) -> dict[str, float]:
    values: dict[str, float] = {}
    for labels, value in found:
        text = labels.get(label, "")
        values[text] = max(value, values.get(text, value))
    return values


def place_of(labels: Mapping[str, str], cluster_label: str) -> Place:
    """Return the node of a series."""
    instance = labels.get("instance", "")
    return Place(labels.get("node") or instance, instance, labels.get(cluster_label, ""))


def gather_report(found: Found, job_id: str, run: Run, answers: Answers, *, cluster_label: str) -> JobReport:
    """Return the report of one job. `answers` may hold those of others too."""

    def mine(series: Iterable[Series]) -> list[Series]:
        return [each for each in series if each.labels.get("job_id") == job_id]

    places: dict[Place, _Place] = {}
    notes = list(run.notes)
    for each in mine(_corrected(answers, notes)):
        place = places.setdefault(place_of(each.labels, cluster_label), _Place())
        place.values.setdefault(each.name, []).append((each.labels, each.value))
    elapsed = _elapsed(run)
    of = _By(cluster_label, mine)
    cards = _cards(answers.cards, cluster_label)
    nodes = tuple(
        _node(place, JobKey(found.batch_system, job_id), series, answers, of, cards, elapsed)
        for place, series in sorted(places.items(), key=lambda item: (item[0].name, item[0].instance))
    )
    notes += _notes_on(nodes)
    if nodes and all(node.allocated_cpus is None for node in nodes):
        notes.append("no batch system reported its allocation: only its processes are known")
    if run.start_secs is None:
        notes.append("the start of the job is not known: no part of its time is")
    info = _info(places.values()) or found.info.get(job_id, {})
    walls = [value for series in places.values() if (value := series.one(allocation.WALL)) is not None]
    states = {
        labels.get("state", "") for series in places.values() for labels, _ in series.all(allocation.STATE)
    }
    report = JobReport(
        batch_system=found.batch_system,
        job_id=job_id,
        cluster=found.cluster,
        info={name: info[name] for name in INFO_SHOWN if name in info},
        state=choose_state(states, is_running=run.end_secs is None),
        is_running=run.end_secs is None,
        start_secs=run.start_secs,
        end_secs=run.end_secs,
        seen_until_secs=run.seen_until_secs,
        wall_limit_secs=max(walls, default=None),
        nodes=nodes,
        notes=tuple(dict.fromkeys(notes)),
    )
    return without_missed_peaks(report)


def _info(places: Iterable[_Place]) -> dict[str, str]:
    """Return what the job is by the series of its run: an earlier one may have been somebody else's."""
    info: dict[str, str] = {}
    for series in places:
        for labels, _ in series.all(JOB_INFO):
            info.update({name: text for name, text in labels.items() if text})
        if (restarts := series.one(allocation.RESTARTS)) is not None:
            info["restarts"] = f"{restarts:.0f}"
    return info


def choose_state(states: Iterable[str], *, is_running: bool) -> str:
    """Return the state that counts of those that a run was seen in: of one that has ended, how it did."""
    known = {each.value: each for each in JobState}
    seen = [known[each] for each in states if each in known and each != JobState.UNKNOWN.value]
    if is_running:
        here = [each for each in (JobState.COMPLETING, JobState.SUSPENDED, JobState.RUNNING) if each in seen]
        return JobState.RUNNING.value if JobState.RUNNING in here else (here[0].value if here else "")
    ends = sorted(each.value for each in seen if each.is_finished)
    bad = [each for each in ends if each != JobState.COMPLETED.value]
    return bad[0] if bad else (ends[0] if ends else "")


class _By:
    def __init__(self, cluster_label: str, mine: Callable[[Iterable[Series]], list[Series]]) -> None:
        self._cluster_label = cluster_label
        self._mine = mine

    def all(self, series: Iterable[Series]) -> dict[Place, list[Series]]:
        grouped: dict[Place, list[Series]] = {}
        for each in self._mine(series):
            grouped.setdefault(place_of(each.labels, self._cluster_label), []).append(each)
        return grouped


def _elapsed(run: Run) -> float | None:
    until = run.end_secs if run.end_secs is not None else run.seen_until_secs
    return None if run.start_secs is None or until is None else max(0.0, until - run.start_secs)


def _corrected(answers: Answers, notes: list[str]) -> list[Series]:
    """Return the last values; of counters that began anew, what their increases make together; report those.

    The CPU time of a run under an id that had another before may go on from that: it is taken off.
    """
    increases = {
        (metric.sample_name, _same(each)): each.value
        for metric, found in answers.increases.items()
        for each in found
    }
    anew = {
        (metric.sample_name, _same(each))
        for metric, found in answers.resets.items()
        for each in found
        if each.value > 0
    }
    before = {(each.name, _same(each)): each.value for each in answers.before}
    corrected = []
    for each in answers.last:
        key = each.name, _same(each)
        value = each.value
        if key in anew and key in increases:
            value = increases[key]
            notes.append(
                f"{each.name} began anew while the job ran: what is shown are its increases, a little low"
            )
        elif 0 < before.get(key, 0.0) <= value:
            value -= before[key]
        corrected.append(Series(each.name, each.labels, value))
    return corrected


def _same(series: Series) -> frozenset[tuple[str, str]]:
    return frozenset(series.labels.items())


def _numbers(series: _Place) -> Numbers:
    """Return what the view of a job is made of; of a node that is scraped twice, the higher values."""
    families = []
    for metric in (jobs.CPU, jobs.LIMIT, allocation.MEMORY):
        found: dict[Values, float] = {}
        for labels, value in series.all(metric):
            values = tuple(labels.get(name, "") for name in metric.label_names)
            found[values] = max(value, found.get(values, value))
        families.append(Family(metric, list(found.items())))
    return Numbers(families)


def _node(
    place: Place, key: JobKey, series: _Place, answers: Answers, of: _By, cards: Cards, elapsed: float | None
) -> NodeUse:
    highest = {metric: of.all(found).get(place, []) for metric, found in answers.highest.items()}
    numbers = _numbers(series)
    gpu_memory = {each.labels.get("uuid", ""): each.value for each in highest.get(gpus.JOB_MEMORY, [])}
    return NodeUse(
        place=place,
        elapsed_secs=elapsed,
        allocated_cpus=series.one(JOB_CPUS),
        cpu_secs=find_cpu_secs(numbers, key),
        allocated_memory=find_memory_limit(numbers, key)[0],
        memory_peak=max((each.value for each in highest.get(jobs.USED, [])), default=None),
        charged_peak=max(
            [each.value for each in highest.get(jobs.CHARGED, [])]
            + [value for _, value in series.all(jobs.PEAK)],
            default=None,
        ),
        oom_kills=series.one(jobs.OOM_KILLS),
        limit_hits=series.one(jobs.LIMIT_HITS),
        allocated_gpus=series.one(allocation.ALLOCATED_GPUS),
        gpus=_gpus(place, series, gpu_memory, cards),
        cpu_joules=_joules(series, "cpu"),
        gpu_joules=_joules(series, "gpu"),
        stalled_secs=_stalled(series, "some"),
        all_stalled_secs=_stalled(series, "full"),
        throttled_secs=series.one(jobs.THROTTLED),
        suspended_secs=answers.step_secs * _first(of.all(answers.suspended_steps).get(place, []), 0.0),
        claimed_cpus=_first(of.all(answers.claimed).get(place, []), None),
        storage_read_bytes=series.one(jobs.STORAGE_READ),
        storage_written_bytes=series.one(jobs.STORAGE_WRITTEN),
        threads=_first(of.all(answers.threads).get(place, []), None),
        coverage=_coverage(of.all(answers.steps).get(place, []), answers.step_secs, elapsed),
    )


Default = TypeVar("Default")


def _first(found: list[Series], default: Default) -> float | Default:
    return found[0].value if found else default


def _stalled(series: _Place, share: str) -> dict[str, float]:
    return {
        labels["resource"]: value
        for labels, value in series.all(jobs.PRESSURE)
        if labels.get("share") == share and "resource" in labels
    }


def _joules(series: _Place, source: str) -> float | None:
    return series.by(energy.JOB_ENERGY, "source").get(source)


def _gpus(place: Place, series: _Place, memory: Mapping[str, float], cards: Cards) -> tuple[GpuUse, ...]:
    busy = {labels.get("uuid", ""): value for labels, value in series.all(gpus.JOB_BUSY)}
    allocated = {labels.get("uuid", "") for labels, _ in series.all(gpus.JOB_ALLOCATED)}
    made = []
    for uuid in sorted(allocated | busy.keys() | memory.keys()):
        card = cards.get((place, uuid), {})
        is_metered = gpus.BUSY.sample_name in card
        info, _ = card.get(gpus.INFO.sample_name, ({}, 0.0))
        made.append(
            GpuUse(
                uuid=uuid,
                minor=info.get("minor", ""),
                model=info.get("model", ""),
                is_allocated=uuid in allocated,
                busy_secs=busy.get(uuid, 0.0 if is_metered else None),
                memory_peak=memory.get(uuid),
                memory=card[gpus.MEMORY.sample_name][1] if gpus.MEMORY.sample_name in card else None,
            )
        )
    return tuple(made)


def _cards(
    series: Iterable[Series], cluster_label: str
) -> dict[tuple[Place, str], dict[str, tuple[Mapping[str, str], float]]]:
    cards: dict[tuple[Place, str], dict[str, tuple[Mapping[str, str], float]]] = {}
    for each in series:
        key = place_of(each.labels, cluster_label), each.labels.get("uuid", "")
        cards.setdefault(key, {})[each.name] = (each.labels, each.value)
    return cards


def _coverage(found: Iterable[Series], step_secs: float, elapsed: float | None) -> float | None:
    """Return the part of its time in which a job was seen."""
    return min(1.0, sum(each.value for each in found) * step_secs / elapsed) if elapsed else None


def _notes_on(nodes: Iterable[NodeUse]) -> list[str]:
    notes = []
    for node in nodes:
        name = node.place.name
        if node.coverage is not None and node.elapsed_secs is not None:
            missing_secs = (1 - node.coverage) * node.elapsed_secs
            if missing_secs > max(MISSING_SECS, (1 - MIN_COVERAGE) * node.elapsed_secs):
                notes.append(
                    f"{name}: there are samples of {node.coverage:.0%} of the job's time only; "
                    "highest values may be higher, and what came after the last sample is missing"
                )
        if node.cpu_secs is None:
            notes.append(f"{name}: its CPU time is not known; sums are without it")
        if node.memory_peak is None:
            notes.append(f"{name}: its memory is not known; sums are without it")
    return notes
