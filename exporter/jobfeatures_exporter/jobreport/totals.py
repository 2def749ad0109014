"""Sums what each user's or account's jobs requested, used and wasted in a period. Pure except for `ask`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jobfeatures.records.cells import align, fit
from jobfeatures.records.combining import grouped
from jobfeatures.records.metrics import JOB_CPUS, JOB_END, JOB_INFO, JOB_START, names_job
from jobfeatures.records.series import Series
from jobfeatures_exporter.jobreport import queries
from jobfeatures_exporter.jobreport.asking import LOOKBACK_SECS, Ask, ReportQuestion, is_sound
from jobfeatures_exporter.jobreport.gathering import ReportedRun, SeriesOfJobs, gather_report, place_of
from jobfeatures_exporter.jobreport.selecting import SelectedJobs
from jobfeatures_exporter.scrape.collectors import allocation, gpus, jobs
from jobfeatures_exporter.view.units import format_share
from jobfeatures_exporter.view.use import DOUBTFUL_CPU_TIME, JobUse, Place

LAST = (
    *(JOB_INFO, JOB_START, JOB_END, JOB_CPUS, allocation.ALLOCATED_GPUS, allocation.MEMORY),
    *(jobs.CPU, jobs.LIMIT, gpus.JOB_ALLOCATED, gpus.JOB_BUSY),
)
HOUR_SECS = 3600.0
SUSPENDED_AT_SECS = 60.0  # how far apart the points in time are at which jobs may be suspended
GIBIBYTE = 2.0**30
NOBODY = "?"  # unknown user or account


@dataclass(slots=True)
class Total:
    """Sums over the jobs of one user or account, in core hours, GiB hours and GPU hours.

    Hours in which a job was suspended do not count, except for memory, which it kept.
    Fields with "used" in their names say what the jobs used, the others what was allocated. Only nodes
    where both are known are in the sums of CPUs, memory or GPUs; `jobs_without_cpu`, `jobs_without_memory`
    and `jobs_without_gpu` count jobs with other nodes. A CPU time is implausible if the allocated CPUs cannot
    have spent it.
    """

    name: str
    jobs: int = 0
    core_hours: float = 0.0  # allocated
    used_core_hours: float = 0.0
    gibibyte_hours: float = 0.0
    used_gibibyte_hours: float = 0.0  # by each job's peak use
    gpu_hours: float = 0.0
    used_gpu_hours: float = 0.0
    jobs_without_cpu: int = 0
    jobs_without_memory: int = 0
    jobs_without_gpu: int = 0
    jobs_with_implausible_cpu_time: int = 0

    @property
    def wasted_core_hours(self) -> float:
        """Return the core hours that were allocated but not used."""
        return max(0.0, self.core_hours - self.used_core_hours)

    def add(self, job: JobUse) -> None:
        """Add a job to the sums."""
        self.jobs += 1
        self.jobs_with_implausible_cpu_time += job.has_impossible_cpu_time
        hours = None if job.elapsed_secs is None else job.elapsed_secs / HOUR_SECS
        active_hours = (job.active_secs or 0.0) / HOUR_SECS
        cpus = [(node.allocated_cpus, node.cpu_secs) for node in job.nodes]
        memory = [(node.allocated_memory, node.memory_peak) for node in job.nodes]
        cards = [(node.gpu_count, node.gpu_secs) for node in job.nodes if node.gpu_count]
        count, secs, is_all = _sum_known(cpus)
        self.jobs_without_cpu += hours is None or not is_all
        self.core_hours += count * active_hours
        self.used_core_hours += secs / HOUR_SECS if hours is not None else 0.0
        size, peak, is_all = _sum_known(memory)
        self.jobs_without_memory += hours is None or not is_all
        self.gibibyte_hours += size / GIBIBYTE * (hours or 0.0)
        self.used_gibibyte_hours += peak / GIBIBYTE * (hours or 0.0)
        count, secs, is_all = _sum_known(cards)
        self.jobs_without_gpu += bool(cards) and (hours is None or not is_all)
        self.gpu_hours += count * active_hours
        self.used_gpu_hours += secs / HOUR_SECS if hours is not None else 0.0


def _sum_known(nodes: Sequence[tuple[float | None, float | None]]) -> tuple[float, float, bool]:
    """Return the sums of (allocated, used) over the nodes where both are known, and whether all are."""
    known = [(given, used) for given, used in nodes if given is not None and used is not None]
    return sum(given for given, _ in known), sum(used for _, used in known), len(known) == len(nodes)


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a period, by "user" or "account" (`by`), the most wasteful first.

    `notes` are remarks that apply to all of them.
    """

    by: str
    totals: tuple[Total, ...]
    notes: tuple[str, ...] = ()


def ask_totals(ask: Ask, question: ReportQuestion, by: str) -> Totals:
    """Return the totals of the jobs that ended in the question's period, by "user" or "account".

    `ask` sends one PromQL query.
    """
    notes: dict[str, None] = {}
    matchers = question.matchers() or 'job_id!=""'

    def query(text: str) -> Sequence[Series]:
        answer = ask(text, question.at_secs)
        notes.update(dict.fromkeys(f"the server says: {each}" for each in answer.warnings))
        return tuple(each for each in answer.series if is_sound(each))

    last = _by_job(query(queries.last(LAST, matchers, question.since_secs)), question.cluster_label)
    peaks = _by_job(
        query(queries.over_time("max_over_time", jobs.USED, matchers, question.since_secs)),
        question.cluster_label,
    )
    began_anew = _by_job(
        [
            Series(metric.sample_name, each.labels, each.value)
            for metric in (jobs.CPU, gpus.JOB_BUSY)
            for each in query(queries.over_time("resets", metric, matchers, question.since_secs))
            if each.value > 0
        ],
        question.cluster_label,
    )
    firsts = _by_job(
        query(queries.over_time("min_over_time", JOB_START, matchers, question.since_secs))
        if began_anew
        else (),
        question.cluster_label,
    )
    has_gpus = any(each.name == gpus.JOB_ALLOCATED.sample_name for found in last.values() for each in found)
    cards = query(queries.last((gpus.BUSY,), 'uuid!=""', question.since_secs)) if has_gpus else ()
    suspended = _by_job(
        query(queries.steps_suspended(matchers, question.since_secs, SUSPENDED_AT_SECS)),
        question.cluster_label,
    )
    living = _by_job(query(queries.current(matchers)), question.cluster_label)
    totals: dict[str, Total] = {}
    unseen = 0
    for key, its in last.items():
        series = its
        ends = _values(series, JOB_END.sample_name)
        starts = _values(series, JOB_START.sample_name)
        ended_secs, start_secs = max(ends, default=0.0), max(starts, default=None)
        if ended_secs <= question.at_secs - question.since_secs or (start_secs or 0.0) > ended_secs:
            unseen += key not in living and (start_secs or 0.0) >= ended_secs
            continue  # still running, or ended earlier
        if start_secs is not None:
            series = _of_run(series, start_secs)
            if min((each.value for each in firsts.get(key, ())), default=start_secs) >= start_secs:
                lost = {(each.name, place_of(each.labels)) for each in began_anew.get(key, ())}
                series = [each for each in series if (each.name, place_of(each.labels)) not in lost]
        system, cluster, job_id = key
        report = gather_report(
            SelectedJobs(system, cluster, (job_id,)),
            job_id,
            ReportedRun(start_secs, ended_secs, ended_secs),
            SeriesOfJobs(
                last=tuple(series),
                highest={jobs.USED: tuple(peaks.get(key, ()))},
                suspended_steps=tuple(suspended.get(key, ())),
                step_secs=SUSPENDED_AT_SECS,
                cards=tuple(cards),
            ),
        )
        name = report.info.get(by) or NOBODY
        totals.setdefault(name, Total(name)).add(report)
    found = sorted(totals.values(), key=lambda each: (-each.wasted_core_hours, each.name))
    for count, what in (
        (sum(each.jobs_without_cpu for each in found), "CPU time"),
        (sum(each.jobs_without_memory for each in found), "memory"),
        (sum(each.jobs_without_gpu for each in found), "GPU time"),
    ):
        if count:
            notes[f"sums are without nodes of {count} jobs whose {what} or allocation is not known"] = None
    if count := sum(each.jobs_with_implausible_cpu_time for each in found):
        notes[f"sums include {count} jobs with {DOUBTFUL_CPU_TIME}"] = None
    if unseen:
        notes[f"sums are without {unseen} jobs without samples now whose end was not seen"] = None
    return Totals(by, tuple(found), tuple(notes))


def _of_run(series: Iterable[Series], start_secs: float) -> list[Series]:
    """Leave out nodes of earlier runs: where the job ended before `start_secs`, or began well before."""
    places: dict[Place, list[Series]] = grouped((place_of(each.labels), each) for each in series)
    return [
        each
        for found in places.values()
        if min(_values(found, JOB_END.sample_name), default=start_secs) >= start_secs
        and max(_values(found, JOB_START.sample_name), default=start_secs) >= start_secs - LOOKBACK_SECS
        for each in found
    ]


def _by_job(found: Iterable[Series], cluster_label: str) -> dict[tuple[str, str, str], list[Series]]:
    jobs_found: dict[tuple[str, str, str], list[Series]] = {}
    for each in found:
        system, job_id = each.labels.get("batch_system", ""), each.labels.get("job_id", "")
        if names_job(system, job_id):
            jobs_found.setdefault((system, each.labels.get(cluster_label, ""), job_id), []).append(each)
    return jobs_found


def _values(series: Iterable[Series], name: str) -> list[float]:
    return [each.value for each in series if each.name == name]


def make_totals_document(totals: Totals) -> dict[str, Any]:
    """Return the totals as a JSON document."""
    return {
        "version": 1,
        "by": totals.by,
        "notes": list(totals.notes),
        "totals": [
            {**asdict(total), "wasted_core_hours": total.wasted_core_hours} for total in totals.totals
        ],
    }


# Heading, and the text of a cell.
COLUMNS: dict[str, Callable[[Total], str]] = {
    "jobs": lambda each: str(each.jobs),
    "core h": lambda each: f"{each.core_hours:.2f}",
    "used": lambda each: _share(each.used_core_hours, each.core_hours),
    "wasted core h": lambda each: f"{each.wasted_core_hours:.2f}",
    "GiB h": lambda each: f"{each.gibibyte_hours:.2f}",
    "used at most": lambda each: _share(each.used_gibibyte_hours, each.gibibyte_hours),
    "GPU h": lambda each: f"{each.gpu_hours:.2f}",
    "GPU used": lambda each: _share(each.used_gpu_hours, each.gpu_hours),
}


def format_totals(totals: Totals) -> str:
    """Return the totals as a text table for a terminal."""
    rows = [[fit(each.name, 32), *(make(each) for make in COLUMNS.values())] for each in totals.totals]
    lines = align([[totals.by, *COLUMNS], *rows])
    if totals.notes:
        lines += ["", "Notes", *(f"  - {note}" for note in totals.notes)]
    return "\n".join(lines).replace("\u202f", " ") + "\n"


def _share(part: float, whole: float) -> str:
    return format_share(part / whole) if whole > 0 else "-"
