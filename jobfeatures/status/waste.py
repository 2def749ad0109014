"""What draining or killing a job would waste, and how long it still runs. Pure arithmetic.

Source: Machine/Job Features, draft 0.99 of 2014-05-15, section "Pilot status
specific conversion formulas" (use cases 9, 10 and 11).

The draft calls none of the inputs optional and gives no defaults: where one
of a formula is missing, its result is unknown (None), not a smaller figure.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from jobfeatures.status.jobstatus import JobStatus


class Basis(enum.StrEnum):
    """Where a figure of waste comes from."""

    REPORTED = "reported"  # the job's own JOBSTATUS
    ESTIMATED = "estimated"  # the batch system's data, for a job without JOBSTATUS


class RemainingBasis(enum.StrEnum):
    """What ends a job."""

    WALL_LIMIT = "wall_limit"
    SHUTDOWN = "shutdown"
    EXPECTED_END = "expected_end"
    MAXIMUM_END = "maximum_end"


@dataclass(frozen=True, slots=True)
class Waste:
    """CPU seconds lost. `overdue`: a payload should have ended before now, the figure is a lower bound."""

    core_secs: float
    basis: Basis
    overdue: bool = False


def compute_draining_waste(
    status: JobStatus | None, *, allocated_cpus: int | None, now_secs: float
) -> Waste | None:
    """Return the CPU seconds that would stay idle if the job drained from now on. Use case 10.

        (allocated_CPU − used_CPU) × (first_exp_job_end − now) + add_final_exp_waste

    A first expected end in the past counts as now, and marks the result
    overdue. Without JOBSTATUS the job is one payload on all its CPUs, so that
    draining leaves none idle before its end. None where an input is unknown,
    or where used_CPU exceeds an allocation that has shrunk since.
    """
    if allocated_cpus is None:
        return None
    if status is None:
        return Waste(0, Basis.ESTIMATED)
    if status.first_exp_job_end is None or status.add_final_exp_waste is None:
        return None
    if status.used_cpu > allocated_cpus:
        return None
    until_first_end = status.first_exp_job_end - now_secs
    idle = (allocated_cpus - status.used_cpu) * max(0, until_first_end)
    return Waste(idle + status.add_final_exp_waste, Basis.REPORTED, overdue=until_first_end < 0)


def compute_kill_waste(
    status: JobStatus | None, *, allocated_cpus: int | None, start_secs: int | None, now_secs: float
) -> Waste | None:
    """Return the CPU seconds that would be lost if the job was killed now. Use case 11.

        add_uncom_time + used_CPU × (now − last_job_start)

    Without JOBSTATUS all of the job so far is lost: allocated_CPU × (now −
    start). A start in the future (a clock was set) counts as now. None where
    an input is unknown.
    """
    if status is not None:
        if status.last_job_start is None or status.add_uncom_time is None:
            return None
        since = max(0, now_secs - status.last_job_start)
        return Waste(status.add_uncom_time + status.used_cpu * since, Basis.REPORTED)
    if allocated_cpus is None or start_secs is None:
        return None
    return Waste(allocated_cpus * max(0, now_secs - start_secs), Basis.ESTIMATED)


def compute_remaining(
    *,
    now_secs: float,
    end_limit_secs: float | None = None,
    shutdown_secs: float | None = None,
    status: JobStatus | None = None,
) -> dict[RemainingBasis, float]:
    """Return the seconds until each known end of the job, negative where it has passed. Use case 9.

    `end_limit_secs` is start plus wall limit (`Job.end_limit_secs`),
    `shutdown_secs` the earliest announced shutdown, both epoch seconds. An end
    that is unknown, or that nothing limits, has no entry.
    """
    ends = {
        RemainingBasis.WALL_LIMIT: end_limit_secs,
        RemainingBasis.SHUTDOWN: shutdown_secs,
        RemainingBasis.EXPECTED_END: status.last_exp_job_end if status is not None else None,
        RemainingBasis.MAXIMUM_END: status.last_max_job_end if status is not None else None,
    }
    return {basis: end - now_secs for basis, end in ends.items() if end is not None}
