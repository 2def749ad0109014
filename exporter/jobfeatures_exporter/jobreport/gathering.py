"""Makes reports on jobs from a Prometheus server's answers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from jobfeatures.records.combining import grouped
from jobfeatures.records.metrics import JOB_CPUS, JOB_INFO, JOB_SAYS_CPUS, Metric
from jobfeatures.records.model import JobKey, JobState
from jobfeatures.records.series import Series
from jobfeatures_exporter.jobreport import queries
from jobfeatures_exporter.jobreport.selecting import SelectedJobs
from jobfeatures_exporter.scrape.collectors import allocation, energy, gpus, jobs
from jobfeatures_exporter.view.job import find_cpu_secs, find_memory_limit, find_stalled_secs
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.view.use import GpuUse, JobUse, NodeUse, Place, without_missed_peaks

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
MISSING_SECS = 120.0  # tolerated without samples at the start: sources are polled once a minute


@dataclass(slots=True)
class SeriesOfJobs:
    """The answers to the queries about some jobs, one list of series per query.

    For each metric: the `last`, `highest` and `average` values; how often a counter was reset in `resets`,
    and all values of the counters that were reset in `samples`. Of points in time `step_secs` apart, `steps`
    counts those at which a job was seen, and `suspended_steps` those at which it was suspended. If the job
    ran before under the same id (`had_runs_before`), `before` is the CPU time at the start of its present
    run. `cards` describes the GPUs of the nodes.
    """

    last: tuple[Series, ...] = ()
    highest: Mapping[Metric, tuple[Series, ...]] = field(default_factory=dict)
    average: Mapping[Metric, tuple[Series, ...]] = field(default_factory=dict)
    suspended_steps: tuple[Series, ...] = ()  # number of steps at which a job was suspended
    steps: tuple[Series, ...] = ()  # number of steps at which a job was seen
    step_secs: float = 1.0
    resets: Mapping[Metric, tuple[Series, ...]] = field(default_factory=dict)
    samples: Mapping[Metric, tuple[Series, ...]] = field(default_factory=dict)  # of those that were reset
    had_runs_before: bool = False
    before: tuple[Series, ...] = ()  # CPU time at the start, if the id had an earlier run
    cards: tuple[Series, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """When a job ran, in Unix time: `end_secs` is None while it runs, other times are None if unknown.

    `seen_until_secs` is until when it was seen running; `notes` are remarks for the report.
    """

    start_secs: float | None
    end_secs: float | None
    seen_until_secs: float | None
    notes: tuple[str, ...] = ()


def place_of(labels: Mapping[str, str]) -> Place:
    """Return the node that a series is from, by the series' labels."""
    instance = labels.get("instance", "")
    return Place(labels.get("node") or instance, instance)


def gather_report(found: SelectedJobs, job_id: str, run: ReportedRun, answers: SeriesOfJobs) -> JobUse:
    """Return the report on the job `job_id`, one of the selected jobs `found`, for the run `run`.

    Series of other jobs in `answers` are ignored.
    """
    report = JobUse(
        batch_system=found.batch_system,
        job_id=job_id,
        cluster=found.cluster,
        is_running=run.end_secs is None,
        start_secs=run.start_secs,
        end_secs=run.end_secs,
        seen_until_secs=run.seen_until_secs,
    )
    notes = list(run.notes)
    job = _Job(JobKey(found.batch_system, job_id), answers)
    # If a node is scraped twice, the higher values count.
    places = {
        place: Numbers.from_series(sorted(series, key=lambda each: each.value), queries.LAST)
        for place, series in sorted(
            job.by_place(_corrected(answers, notes)).items(),
            key=lambda item: (item[0].name, item[0].instance),
        )
    }
    nodes = tuple(job.node(place, numbers, report.elapsed_secs) for place, numbers in places.items())
    notes += _notes_on(nodes)
    if nodes and all(node.allocated_cpus is None for node in nodes):
        notes.append("no batch system reported its allocation: only its processes are known")
    if run.start_secs is None:
        notes.append("the start of the job is not known, so shares of its time are not either")
    info = _info(places.values()) or found.info.get(job_id, {})
    if het_job := info.get("het_job_id"):
        notes.append(f"this is one component of heterogeneous job {het_job}: others have ids of their own")
    walls = [value for numbers in places.values() for value in numbers.all(allocation.WALL).values()]
    states = {values[-1] for numbers in places.values() for values in numbers.all(allocation.STATE)}
    report = replace(
        report,
        info={name: info[name] for name in INFO_SHOWN if name in info},
        state=choose_state(states, is_running=report.is_running),
        wall_limit_secs=max(walls, default=None),
        nodes=nodes,
        notes=tuple(dict.fromkeys(notes)),
    )
    return without_missed_peaks(report.with_warnings())


def _info(places: Iterable[Numbers]) -> dict[str, str]:
    """Return the labels of the info series of this run: an earlier run may have been another user's."""
    info: dict[str, str] = {}
    for numbers in places:
        for values in numbers.all(JOB_INFO):
            info.update({name: text for name, text in zip(JOB_INFO.label_names, values, strict=True) if text})
        for restarts in numbers.all(allocation.RESTARTS).values():
            info["restarts"] = f"{restarts:.0f}"
    return info


def choose_state(states: Iterable[str], *, is_running: bool) -> str:
    """Return the state to report for a run, among the `states` that were seen; empty if none of them fits.

    For a run that has ended (`is_running` is false) only final states fit, failures first.
    """
    known = {each.value: each for each in JobState}
    seen = [known[each] for each in states if each in known and each != JobState.UNKNOWN.value]
    if is_running:
        here = [each for each in (JobState.COMPLETING, JobState.SUSPENDED, JobState.RUNNING) if each in seen]
        return JobState.RUNNING.value if JobState.RUNNING in here else (here[0].value if here else "")
    ends = sorted(each.value for each in seen if each.is_finished)
    bad = [each for each in ends if each != JobState.COMPLETED.value]
    return bad[0] if bad else (ends[0] if ends else "")


class _Job:
    """One job's part of the answers, by node."""

    def __init__(self, key: JobKey, answers: SeriesOfJobs) -> None:
        self._key = key
        self._step_secs = answers.step_secs
        self._highest = {metric: self.by_place(found) for metric, found in answers.highest.items()}
        self._average = {metric: self.by_place(found) for metric, found in answers.average.items()}
        self._steps, self._suspended = self.by_place(answers.steps), self.by_place(answers.suspended_steps)
        self._cards: dict[tuple[Place, str], dict[str, Series]] = {}
        for each in answers.cards:
            place = place_of(each.labels), each.labels.get("uuid", "")
            self._cards.setdefault(place, {})[each.name] = each

    def by_place(self, series: Iterable[Series]) -> dict[Place, list[Series]]:
        """Return the series of this job by node."""
        own = (each for each in series if each.labels.get("job_id") == self._key.job_id)
        return grouped((place_of(each.labels), each) for each in own)

    def node(self, place: Place, numbers: Numbers, elapsed_secs: float | None) -> NodeUse:
        """Return what the job was allocated and used on a node."""
        key = self._key
        joules = numbers.of_job(energy.JOB_ENERGY, key)
        used, charged = (self._highest.get(each, {}).get(place, []) for each in (jobs.USED, jobs.CHARGED))
        average = {metric: found[place][0].value for metric, found in self._average.items() if place in found}
        suspended_steps = sum(each.value for each in self._suspended.get(place, [])[:1])
        return NodeUse(
            place=place,
            elapsed_secs=elapsed_secs,
            allocated_cpus=numbers.one(JOB_CPUS, *key),
            cpu_secs=find_cpu_secs(numbers, key),
            allocated_memory=find_memory_limit(numbers, key)[0],
            memory_peak=max((each.value for each in used), default=None),
            charged_peak=max(
                [*(each.value for each in charged), *numbers.all(jobs.PEAK).values()], default=None
            ),
            oom_kills=numbers.one(jobs.OOM_KILLS, *key),
            limit_hits=numbers.one(jobs.LIMIT_HITS, *key),
            allocated_gpus=numbers.one(allocation.ALLOCATED_GPUS, *key),
            gpus=self._gpus(place, numbers),
            cpu_joules=joules.get(("cpu",)),
            gpu_joules=joules.get(("gpu",)),
            stalled_secs=find_stalled_secs(numbers, key, "some"),
            all_stalled_secs=find_stalled_secs(numbers, key, "full"),
            throttled_secs=numbers.one(jobs.THROTTLED, *key),
            suspended_secs=self._step_secs * suspended_steps,
            claimed_cpus=average.get(JOB_SAYS_CPUS),
            storage_read_bytes=numbers.one(jobs.STORAGE_READ, *key),
            storage_written_bytes=numbers.one(jobs.STORAGE_WRITTEN, *key),
            threads=average.get(jobs.THREADS),
            coverage=_coverage(self._steps.get(place, []), self._step_secs, elapsed_secs),
        )

    def _gpus(self, place: Place, numbers: Numbers) -> tuple[GpuUse, ...]:
        busy = {uuid: value for (uuid,), value in numbers.of_job(gpus.JOB_BUSY, self._key).items()}
        allocated = {uuid for (uuid,) in numbers.of_job(gpus.JOB_ALLOCATED, self._key)}
        held = self._highest.get(gpus.JOB_MEMORY, {}).get(place, [])
        memory = {each.labels.get("uuid", ""): each.value for each in held}
        made = []
        for uuid in sorted(allocated | busy.keys() | memory.keys()):
            card = self._cards.get((place, uuid), {})
            info = card[gpus.INFO.sample_name].labels if gpus.INFO.sample_name in card else {}
            made.append(
                GpuUse(
                    uuid=uuid,
                    minor=info.get("minor", ""),
                    model=info.get("model", ""),
                    is_allocated=uuid in allocated,
                    busy_secs=busy.get(uuid, 0.0 if gpus.BUSY.sample_name in card else None),
                    memory_peak=memory.get(uuid),
                    memory=card[gpus.MEMORY.sample_name].value if gpus.MEMORY.sample_name in card else None,
                )
            )
        return tuple(made)


def _corrected(answers: SeriesOfJobs, notes: list[str]) -> list[Series]:
    """Return the last values; of counters that were reset the sum of their increases, and a note.

    CPU time may continue from an earlier run of the same id: that run's part is subtracted.
    """
    samples = grouped(
        ((metric.sample_name, _same(each)), each.value)
        for metric, found in answers.samples.items()
        for each in found
    )
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
        if key in anew and key in samples:
            known = before.get(key, samples[key][0] if answers.had_runs_before else 0.0)
            value = grown(known, samples[key])
            notes.append(
                f"{each.name} began anew while the job ran: what is shown are its increases, a little low"
            )
        elif 0 < before.get(key, 0.0) <= value:
            value -= before[key]
        corrected.append(Series(each.name, each.labels, value))
    return corrected


def grown(known: float, samples: Iterable[float]) -> float:
    """Return by how much a counter grew, given its value `known` before the `samples`.

    A sample lower than the one before it means that the counter was reset to 0 in between.
    """
    total = 0.0
    for each in samples:
        total += each - known if each >= known else each
        known = each
    return total


def _same(series: Series) -> frozenset[tuple[str, str]]:
    return frozenset(series.labels.items())


def _coverage(found: Iterable[Series], step_secs: float, elapsed: float | None) -> float | None:
    """Return the share (0 to 1) of a job's elapsed time for which there are samples."""
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
