"""Which jobs a controller is worth asking about, for sources that ask job by job. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from jobfeatures.model import Job, JobKey, JobState


@dataclass(frozen=True, slots=True)
class KnownJob:
    """An answer that is kept. `job` is None once the controller has forgotten the job.

    `reported_secs` (epoch) is the time before the question whose answer this is,
    which may be older than the last question, if that had no usable answer.
    """

    job: Job | None
    asked_secs: float  # monotonic
    reported_secs: float = 0.0


def take_times(
    known: dict[str, KnownJob], batch_system: str, wanted: Collection[str]
) -> tuple[dict[JobKey, float], dict[JobKey, float]]:
    """Return when jobs were told, and when to be forgotten; let go of ended ones that are not `wanted`."""
    reported = {each.job.key: each.reported_secs for each in known.values() if each.job is not None}
    gone = {
        JobKey(batch_system, each): answer.reported_secs for each, answer in known.items() if not answer.job
    }
    for job_id in known.keys() - wanted:
        job = known[job_id].job
        if job is None or job.state.is_finished:
            del known[job_id]
    return reported, gone


def compute_questions(
    known: Mapping[str, KnownJob],
    seen: Collection[str],
    claimed: Collection[str],
    now_secs: float,
    refresh_secs: float,
) -> tuple[str, ...]:
    """Return the ids worth asking about: never asked ones first, then the oldest answers.

    Asked at every poll: jobs that are known or claimed and not seen, until they
    are proven to have ended, and jobs that are seen although their state says that
    they are not here (they end, or they were requeued and started again).
    """

    def is_due(job_id: str) -> bool:
        answer = known.get(job_id)
        if answer is None or job_id not in seen:
            return True
        job = answer.job
        if job is not None and (job.state.is_finished or job.state is JobState.PENDING):
            return True
        return now_secs - answer.asked_secs >= refresh_secs

    def order(job_id: str) -> tuple[bool, float, int, str]:  # by length first: ids are numbers, or begin so
        answer = known.get(job_id)
        return answer is not None, answer.asked_secs if answer else 0.0, len(job_id), job_id

    return tuple(sorted(filter(is_due, {*known, *seen, *claimed}), key=order))
