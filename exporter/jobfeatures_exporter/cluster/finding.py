"""A job or the jobs of a user among all of a cluster. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jobfeatures.model import Job, JobState, JobTable

MOST = 200  # are shown
_PARTS = "_.[+"  # what stands between the number of an array and its task's


@dataclass(frozen=True, slots=True)
class Found:
    """The jobs that were looked for, running ones first; `count` of them there are."""

    jobs: tuple[Job, ...] = ()
    count: int = 0


def find_jobs(tables: Iterable[JobTable], text: str, hide: Callable[[Job], Job]) -> Found:
    """Return the jobs of this number, array or user; if none, of users with the text in their name.

    `hide` returns a job as it may be shown: names that are hidden find nothing.
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
    """Return whose a job is; empty is not known."""
    return job.user or ("" if job.uid is None else f"uid {job.uid}")
