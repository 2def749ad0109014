"""Which jobs to give up when cores are needed (use case 12 of the 2014 draft): pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jobfeatures.drains.nodemetrics import SeenJob


@dataclass(frozen=True, slots=True)
class Victim:
    """A job in the order of giving up.

    `core_secs_per_core` is its kill waste for each core that is wanted of it,
    None where it is not known. `freed` are the cores of all jobs up to this
    one; `needed` tells whether it has to go for the cores that are wanted.
    """

    job: SeenJob
    core_secs_per_core: float | None
    freed: int
    needed: bool


def rank_victims(jobs: Iterable[SeenJob], cores: int) -> tuple[Victim, ...]:
    """Return the jobs in the order in which they are best given up for `cores` cores.

    Cost is the kill waste for each core freed, of which at most `cores` count:
    more are not wanted. Among one user's jobs with a priority_factor the lower
    goes first ("higher is better"), whatever the waste; priorities of
    different users are never compared (draft 0.99, 3.9), so that between users,
    and with jobs without a priority, cost alone decides: of the next job of
    each the cheapest goes. Jobs of unknown users stand alone. Jobs whose cores
    or waste are not known come last and are never needed.
    """
    if cores < 1:
        raise ValueError("at least one core has to be wanted")
    queues: dict[tuple[str, ...], list[SeenJob]] = {}
    unknown: list[SeenJob] = []
    for job in sorted(jobs, key=lambda each: (each.batch_system, each.job_id)):
        if not job.allocated_cpus or job.kill_core_secs is None:
            unknown.append(job)
        else:
            queues.setdefault(_queue_of(job), []).append(job)

    def cost(job: SeenJob) -> float:
        return (job.kill_core_secs or 0.0) / min(job.allocated_cpus or 1, cores)

    for queue in queues.values():
        queue.sort(key=lambda job: (job.priority_factor or 0, cost(job)), reverse=True)  # the next one last
    ranked: list[Victim] = []
    freed = 0
    while queues:
        chosen = min(queues, key=lambda name: (cost(queues[name][-1]), name))
        job = queues[chosen].pop()
        if not queues[chosen]:
            del queues[chosen]
        needed = freed < cores
        freed += job.allocated_cpus or 0
        ranked.append(Victim(job, cost(job), freed, needed))
    return (*ranked, *(Victim(job, None, freed, needed=False) for job in unknown))


def cores_found(victims: Iterable[Victim]) -> int:
    """Return the cores that the jobs which have to go would free."""
    return max((each.freed for each in victims if each.needed), default=0)


def _queue_of(job: SeenJob) -> tuple[str, ...]:
    """Return whose order a job stands in; jobs of one user without a priority need none among themselves."""
    if job.user is None or job.priority_factor is None:
        return "alone", job.batch_system, job.job_id
    return "user", job.batch_system, job.user
