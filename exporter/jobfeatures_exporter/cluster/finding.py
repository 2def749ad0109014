"""Finds a job, or the jobs of a user, in a cluster. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jobfeatures.records.model import Job, JobState, JobTable

MOST = 200  # jobs shown
_PARTS = "_.[+@"  # separates the number of an array from that of its task, or from its schedd


@dataclass(frozen=True, slots=True)
class Found:
    """The jobs found, running ones first; `count` is their total number."""

    jobs: tuple[Job, ...] = ()
    count: int = 0


def find_jobs(tables: Iterable[JobTable], text: str, hide: Callable[[Job], Job]) -> Found:
    """Return the jobs with this ID, array or user; if none, of users whose names contain the text.

    `hide` returns a job as it may be shown: hidden names are not searched.
    """
    wanted = text.casefold()
    if not wanted:
        return Found()
    exact: list[Job] = []
    near: list[Job] = []
    users: dict[tuple[str | None, int | None], str] = {}
    for table in tables:
        for key, job in table.jobs.items():
            number = key.job_id.casefold()
            who = job.user, job.uid
            user = users.get(who)
            if user is None:
                user = users[who] = user_of(hide(job)).casefold()
            is_job = number == wanted or (number.startswith(wanted) and number[len(wanted)] in _PARTS)
            if is_job or user == wanted:
                exact.append(job)
            elif wanted in user:
                near.append(job)
    found = exact or near
    found.sort(key=lambda job: (job.state is not JobState.RUNNING, job.key))
    return Found(tuple(hide(job) for job in found[:MOST]), len(found))


def user_of(job: Job) -> str:
    """Return the user of a job; empty if unknown."""
    return job.user or ("" if job.uid is None else f"uid {job.uid}")
