"""Chooses the job that a report is about, among those of which Prometheus has samples. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from jobfeatures.errors import JobfeaturesError, shown
from jobfeatures.records.metrics import names_job
from jobfeatures.records.series import Series

MAX_DIGITS = 18
MAX_JOBS = 200  # array tasks in one report


class JobWithoutSamplesError(JobfeaturesError):
    """Raised if no sample of the job was found in the time searched."""


class AmbiguousJobError(JobfeaturesError):
    """Raised if several jobs match; the message lists the options that distinguish them."""


@dataclass(frozen=True, slots=True)
class SelectedJobs:
    """The ids of the jobs to report: one job, or the tasks of an array.

    `left_out` counts tasks beyond `MAX_JOBS`. `info` holds the labels of each job's info metric, by job id.
    """

    batch_system: str
    cluster: str
    job_ids: tuple[str, ...]
    left_out: int = 0  # tasks beyond `MAX_JOBS`
    info: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # labels by job id


def choose_jobs(
    job: str, found: Iterable[Series], *, cluster_label: str, since_text: str, where: str
) -> SelectedJobs:
    """Return the jobs that the id `job` refers to, among the series of the info metric in `found`.

    If `job` is the id of both a task and an array, the task is chosen unless the array has more tasks: in
    Slurm an array has the id of its last task. `cluster_label` is the label that holds the cluster's name.
    `since_text` (the time searched) and `where` (the server) are for messages. Raises JobWithoutSamplesError
    and AmbiguousJobError.
    """
    series = [each for each in found if names_job(each.labels.get("batch_system"), each.labels.get("job_id"))]
    if not series:
        raise JobWithoutSamplesError(
            f"{where} has no samples of job {shown(job)} in the last {since_text}: check that it scrapes the "
            "job's node, or search further back (--since) or at another time (--at)"
        )
    names = ("batch_system", cluster_label, "schedd")
    kinds = {tuple([each.labels.get(name, "") for name in names]) for each in series}
    if len(kinds) > 1:
        raise AmbiguousJobError(_which(job, kinds, cluster_label))
    [(batch_system, cluster, schedd)] = kinds
    infos: dict[str, dict[str, str]] = {}
    for each in series:
        infos.setdefault(each.labels.get("job_id", ""), {}).update(
            {name: text for name, text in each.labels.items() if text}
        )
    array = job.removesuffix(f"@{schedd}")
    tasks = [job_id for job_id, info in infos.items() if info.get("array_job_id") == array]
    chosen = [job] if job in infos and len(tasks) < 2 else list(infos)
    chosen.sort(key=lambda job_id: _order(infos[job_id], job_id))
    kept = chosen[:MAX_JOBS]
    return SelectedJobs(
        batch_system, cluster, tuple(kept), len(chosen) - len(kept), {each: infos[each] for each in kept}
    )


def _order(info: Mapping[str, str], job_id: str) -> tuple[int, int, str]:
    number = info.get("array_task_id", "")
    is_number = number.isascii() and number.isdigit() and len(number) <= MAX_DIGITS
    return (0, int(number), job_id) if is_number else (1, 0, job_id)


def is_called(labels: Mapping[str, str], job: str) -> bool:
    """Return whether a series of the info metric is of the job or array `job`.

    The id of a job of HTCondor may be given without ``@SCHEDD``.
    """
    schedd = f"@{labels.get('schedd', '')}"
    names = labels.get("job_id", ""), labels.get("array_job_id", "")
    return job in names or (schedd != "@" and job in (names[0].removesuffix(schedd), names[1] + schedd))


def _which(job: str, kinds: Iterable[tuple[str, ...]], cluster_label: str) -> str:
    lines = [f"several jobs match {shown(job)}; choose one by:"]
    several_clusters = len({cluster for _, cluster, _ in kinds}) > 1
    for batch_system, cluster, schedd in sorted(kinds):
        words = f"  {shown(f'{job}@{schedd}')}" if schedd else f"  --batch-system {batch_system}"
        if several_clusters:
            words += f" --cluster {shown(cluster)}"
        lines.append(words + ("" if cluster or not several_clusters else f"  (has no label {cluster_label})"))
    return "\n".join(lines)
