"""Queries a Prometheus server for reports on jobs: first for the job and its times, then for its figures.

Pure except for `ask`, a function passed in, which sends one query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from jobfeatures.records.combining import grouped
from jobfeatures.records.metrics import JOB_END, JOB_SAYS_CPUS, JOB_START, Metric
from jobfeatures.records.model import JobState
from jobfeatures.records.series import InstantAnswer, Series
from jobfeatures_exporter.jobreport import queries
from jobfeatures_exporter.jobreport.gathering import ReportedRun, SeriesOfJobs, gather_report
from jobfeatures_exporter.jobreport.selecting import SelectedJobs, choose_jobs
from jobfeatures_exporter.scrape.collectors import allocation, jobs
from jobfeatures_exporter.view.units import format_span, format_time
from jobfeatures_exporter.view.use import JobUse

# (question, at which time) → answer
Ask = Callable[[str, float], InstantAnswer]

LOOKBACK_SECS = 300.0  # how long Prometheus takes a last sample for current
EARLIER_RUN = "this id had an earlier run"
END = JOB_END.sample_name
AFTER_END_SECS = 120.0  # how long the exporter shows the last values of an ended job


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportQuestion:
    """What a report is asked for: the id of a job or array, and the time in which to search for it.

    The search ends at the Unix time `at_secs` and begins `since_secs` before it. `batch_system` and
    `cluster`, if given, restrict the search; `cluster_label` is the label that holds the cluster's name on
    this server. `where` names the server in messages.
    """

    job: str
    at_secs: float
    since_secs: float
    batch_system: str | None = None
    cluster: str | None = None
    cluster_label: str = "cluster"
    where: str = ""  # the server's name in messages

    def matchers(self) -> str:
        """Return the PromQL label matchers of every query: the batch system and cluster, where given."""
        found = []
        if self.batch_system is not None:
            found.append(f"batch_system={queries.quoted(self.batch_system)}")
        if self.cluster is not None:
            found.append(f"{self.cluster_label}={queries.quoted(self.cluster)}")
        return ",".join(found)


@dataclass(frozen=True, slots=True)
class JobReports:
    """Reports of one or more jobs, and notes that apply to all of them."""

    reports: tuple[JobUse, ...]
    notes: tuple[str, ...] = ()


def ask_all(ask: Ask, question: ReportQuestion) -> JobReports:
    """Query the server for the job of a question, or all tasks of an array, and return the reports.

    Raises JobWithoutSamplesError if no job is found, AmbiguousJobError if several jobs match, and whatever
    `ask` raises.
    """
    warnings: dict[str, None] = {}

    def query(text: str, at_secs: float) -> tuple[Series, ...]:
        answer = ask(text, at_secs)
        warnings.update(dict.fromkeys(f"the server says: {each}" for each in answer.warnings))
        return tuple(each for each in answer.series if is_sound(each))

    infos: list[Series] = []
    for text in queries.find_jobs(question.job, question.matchers(), question.since_secs):
        infos += query(text, question.at_secs)
    found = choose_jobs(
        question.job,
        infos,
        cluster_label=question.cluster_label,
        since_text=format_span(question.since_secs).replace("\u202f", " "),
        where=question.where,
    )
    more = "" if question.cluster is None else f"{question.cluster_label}={queries.quoted(question.cluster)}"
    selector = queries.selector_of(found.batch_system, found.job_ids, more)
    runs = _find_runs(query, found, selector, more, question)
    answers = _ask_figures(query, runs, selector, question)
    reports = tuple(gather_report(found, job_id, run, answers) for job_id, run in runs.items())
    if found.left_out:
        warnings[f"{found.left_out} tasks of this array are left out"] = None
    return JobReports(reports, tuple(warnings))


def is_sound(series: Series) -> bool:
    """Return whether a value is plausible: only a time limit may be infinite."""
    return math.isfinite(series.value) or (series.name == allocation.WALL.sample_name and series.value > 0)


Query = Callable[[str, float], tuple[Series, ...]]


def _find_runs(
    query: Query, found: SelectedJobs, selector: str, more: str, question: ReportQuestion
) -> dict[str, ReportedRun]:
    """Return the latest run of each job that had begun."""
    at, since = question.at_secs, question.since_secs
    times = query(queries.last((JOB_START, JOB_END), selector, since), at)
    starts = _latest(each for each in times if each.name == JOB_START.sample_name)
    ends = _latest(each for each in times if each.name == END)
    firsts = _latest(query(queries.over_time("min_over_time", JOB_START, selector, since), at), min)
    now_seen = query(queries.current(selector), at)
    runs = {}
    for job_id in found.job_ids:
        start, end = starts.get(job_id), ends.get(job_id)
        notes = []
        if start is not None and firsts.get(job_id, start) < start:
            notes.append(f"{EARLIER_RUN}; --at {start - 1:.0f} reports on what was before it")
        if end is not None and start is not None and end < start:
            end = None  # of an earlier run
        ended_on = {_node(each) for each in times if each.name == END and _is_of(each, job_id)}
        living = [each for each in now_seen if _is_of(each, job_id) and _node(each) not in ended_on]
        if end is not None and living:
            end = None  # on some of its nodes only
        seen = max((each.value for each in living), default=None)
        if end is None and seen is None:
            seen = _last_seen(query, queries.selector_of(found.batch_system, [job_id], more), question)
            if seen is not None and at - seen > LOOKBACK_SECS:
                end = seen
                notes.append(f"its end was not seen: the last sample of it is of {format_time(seen)}")
        if start is None:
            first = query(queries.seen("min_over_time", selector, since), at)
            start = min((each.value for each in first if _is_of(each, job_id)), default=None)
            notes.append("its start is not known; its time counts from when it was first seen")
        elif start < at - since:
            notes.append(
                f"it began before the last {format_span(since)}, which this report covers: "
                "highest values may have been earlier (--since reaches further back)"
            )
        runs[job_id] = ReportedRun(start, end, end if end is not None else seen, tuple(notes))
    return runs


def _last_seen(query: Query, selector: str, question: ReportQuestion) -> float | None:
    """Return the Unix time when a job was last seen, None if never; ask roughly, then precisely."""
    at, since = question.at_secs, question.since_secs
    roughly = [each.value for each in query(queries.seen("max_over_time", selector, since), at)]
    if not roughly:
        return None
    step = queries.step_secs(since)
    closely = query(
        queries.seen("max_over_time", selector, 2 * step), min(at, max(at - since, max(roughly) + step))
    )
    return max([*roughly, *(each.value for each in closely)])


def _is_of(series: Series, job_id: str) -> bool:
    return series.labels.get("job_id") == job_id


def _node(series: Series) -> tuple[str, str]:
    return series.labels.get("instance", ""), series.labels.get("node", "")


def _ask_figures(
    query: Query, runs: Mapping[str, ReportedRun], selector: str, question: ReportQuestion
) -> SeriesOfJobs:
    """Query the last figures of `runs`, and figures over the time from the first start to the last end."""
    at, earliest = question.at_secs, question.at_secs - question.since_secs
    end = max((run.end_secs if run.end_secs is not None else at) for run in runs.values())
    then = max(earliest, min(at, end + AFTER_END_SECS))
    starts = [run.start_secs for run in runs.values() if run.start_secs is not None]
    begin = min(then, max(earliest, min(starts, default=earliest)))  # a node's clock may be ahead
    range_secs = max(1.0, then - begin)

    def over_time(function: str, metrics: Iterable[Metric]) -> dict[Metric, tuple[Series, ...]]:
        return {
            each: query(queries.over_time(function, each, selector, range_secs), then) for each in metrics
        }

    resets = over_time("resets", queries.RESETTABLE)
    last = query(queries.last(queries.LAST, selector, range_secs), then)
    answers = SeriesOfJobs(
        last=last,
        highest=over_time("max_over_time", queries.HIGHEST),
        steps=query(queries.steps_seen(selector, range_secs), then),
        step_secs=queries.step_secs(range_secs),
        resets=resets,
        samples={
            metric: query(queries.samples(metric, selector, range_secs), then)
            for metric, found in resets.items()
            if any(each.value > 0 for each in found)
        },
    )
    is_pilot = any(each.name == JOB_SAYS_CPUS.sample_name for each in last)
    answers.average = over_time(
        "avg_over_time", (jobs.THREADS, JOB_SAYS_CPUS) if is_pilot else (jobs.THREADS,)
    )
    if any(each.labels.get("state") == JobState.SUSPENDED.value for each in last):
        answers.suspended_steps = query(queries.steps_suspended(selector, range_secs), then)
    uuids = sorted({each.labels["uuid"] for each in last if "uuid" in each.labels})
    if uuids:
        instances = sorted({each.labels.get("instance", "") for each in last if "uuid" in each.labels})
        which = f"uuid=~{queries.any_of(uuids)},instance=~{queries.any_of(instances)}"
        answers.cards = query(queries.last(queries.OF_CARDS, which, range_secs), then)
    answers.had_runs_before = any(note.startswith(EARLIER_RUN) for run in runs.values() for note in run.notes)
    if answers.had_runs_before and len(runs) == 1:
        answers.before = query(queries.last((jobs.CPU,), selector, LOOKBACK_SECS), begin)
    return answers


def _latest(series: Iterable[Series], choose: Callable[[Iterable[float]], float] = max) -> dict[str, float]:
    values = grouped((each.labels.get("job_id", ""), each.value) for each in series)
    return {job_id: choose(found) for job_id, found in values.items()}
