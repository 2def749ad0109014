"""Writes the PromQL queries of reports. Metric names come from the collectors. Pure.

Each query names the jobs by label matchers (`selector`), so the server reads only their series. It also has a
range of `range_secs`, so the server reads only the time of the jobs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from jobfeatures.records.metrics import JOB_CPUS, JOB_END, JOB_INFO, JOB_SAYS_CPUS, JOB_START, Metric
from jobfeatures.records.model import JobState
from jobfeatures_exporter.scrape.collectors import allocation, energy, gpus, jobs

MAX_STEPS = 500  # of a subquery
PROOF = JOB_INFO  # every job has it at every scrape, one series per node

# Metrics whose last value counts.
LAST = (
    *(JOB_INFO, allocation.STATE, allocation.RESTARTS, JOB_START, JOB_END, allocation.WALL),
    *(JOB_CPUS, allocation.ALLOCATED_GPUS, allocation.MEMORY),
    *(jobs.CPU, jobs.LIMIT, jobs.PEAK, jobs.OOM_KILLS, jobs.LIMIT_HITS, jobs.PRESSURE),
    *(jobs.THROTTLED, JOB_SAYS_CPUS),
    *(jobs.STORAGE_READ, jobs.STORAGE_WRITTEN, energy.JOB_ENERGY),
    *(gpus.JOB_ALLOCATED, gpus.JOB_BUSY),
)
# Metrics whose highest value over the job's time counts.
HIGHEST = (jobs.USED, jobs.CHARGED, gpus.JOB_MEMORY)
# Counters that may reset while a job runs: those that the exporter keeps itself, and those of processes.
RESETTABLE = (jobs.CPU, energy.JOB_ENERGY, gpus.JOB_BUSY)
OF_CARDS = (gpus.INFO, gpus.MEMORY, gpus.BUSY)


def quoted(text: str) -> str:
    """Return a text as a PromQL string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def any_of(texts: Iterable[str]) -> str:
    """Return a PromQL string of a regular expression that matches only these texts."""
    return quoted("|".join(re.sub(r"([.+*?()|\[\]{}^$\\])", r"\\\1", text) for text in texts))


def selector_of(batch_system: str, job_ids: Iterable[str], more: str = "") -> str:
    """Return the PromQL label matchers for some jobs; `more` are further matchers to append."""
    return f"batch_system={quoted(batch_system)},job_id=~{any_of(job_ids)}" + (f",{more}" if more else "")


def find_jobs(job: str, more: str, since_secs: float) -> list[str]:
    """Return queries for the info metric of every job that the id `job` may mean.

    It may be a job's id, an array's, or that of an array's task. `more` are further label matchers; the
    queries look back for `since_secs`.
    """
    ways = [f"job_id={quoted(job)}", f"array_job_id={quoted(job)}"]
    task = re.fullmatch(r"(.+?)(?:_([0-9]+)|\[([0-9]+)\]|\.([0-9]+))", job)
    if task is not None:
        number = next(each for each in task.groups()[1:] if each is not None)
        ways.append(f"array_job_id={quoted(task[1])},array_task_id={quoted(number)}")
    number, _, schedd = job.partition("@")
    if schedd and number.isdecimal():
        ways.append(f"array_job_id={quoted(number)},schedd={quoted(schedd)}")
    elif re.fullmatch(r"[0-9]+\.[0-9]+", job):  # HTCondor's, without the schedd
        ways.append(f'schedd!="",job_id=~{any_of([job])[:-1]}@.+"')
    elif found := re.fullmatch(
        r"([0-9]+(?:\[[0-9]+\])?)\.[A-Za-z].*", job
    ):  # as qsub of PBS and Torque prints it
        ways.append(f'batch_system=~"pbs|torque",job_id={quoted(found[1])}')
    rest = f",{more}" if more else ""
    return [f"last_over_time({JOB_INFO.sample_name}{{{way}{rest}}}[{span(since_secs)}])" for way in ways]


def last(metrics: Iterable[Metric], selector: str, range_secs: float) -> str:
    """Return the query for the last value of each of some metrics within a range."""
    names = "|".join(each.sample_name for each in metrics)
    return f'last_over_time({{__name__=~"{names}",{selector}}}[{span(range_secs)}])'


def over_time(function: str, metric: Metric, selector: str, range_secs: float) -> str:
    """Return the query that applies a function such as avg_over_time to a metric's values in a range.

    The series in its answer have no metric name.
    """
    return f"{function}({metric.sample_name}{{{selector}}}[{span(range_secs)}])"


def samples(metric: Metric, selector: str, range_secs: float) -> str:
    """Return the query for all samples of one metric in a range."""
    return f"{metric.sample_name}{{{selector}}}[{span(range_secs)}]"


def seen(function: str, selector: str, range_secs: float) -> str:
    """Return the query for the time at which each job was last (max_over_time) or first (min_over_time) seen.

    The answer is only as exact as `step_secs`.
    """
    return _at_steps(function, current(selector), range_secs)


def current(selector: str) -> str:
    """Return the query for the jobs that have a sample now, with the time of the sample as value."""
    return f"timestamp({PROOF.sample_name}{{{selector}}})"


def steps_seen(selector: str, range_secs: float) -> str:
    """Return the query for the number of points in time at which each job was seen.

    The points are `step_secs` apart in the range, so this measures how long the job ran.
    """
    return _at_steps("count_over_time", f"{PROOF.sample_name}{{{selector}}}", range_secs)


def steps_suspended(selector: str, range_secs: float, at_steps_of_secs: float | None = None) -> str:
    """Return the query for the number of points in time at which each job was suspended.

    The points are `at_steps_of_secs` (None: `step_secs`) apart.
    """
    state = f"{selector},state={quoted(JobState.SUSPENDED.value)}"
    inner = f"{allocation.STATE.sample_name}{{{state}}}"
    return _at_steps("count_over_time", inner, range_secs, at_steps_of_secs)


def _at_steps(function: str, inner: str, range_secs: float, steps_secs: float | None = None) -> str:
    return f"{function}({inner}[{span(range_secs)}:{span(steps_secs or step_secs(range_secs))}])"


def step_secs(range_secs: float) -> int:
    """Return the step, in seconds, at which a subquery evaluates a range of `range_secs`."""
    return max(1, math.ceil(range_secs / MAX_STEPS))


def span(secs: float) -> str:
    """Return a duration in PromQL's syntax."""
    return f"{max(1, math.ceil(secs))}s"
