"""Computes CPU time wasted by draining or killing a job, and how long a job will still run. Pure arithmetic.

Source: Machine/Job Features, draft 0.99 of 2014-05-15, section "Pilot status specific conversion formulas"
(use cases 9, 10 and 11).

The draft makes none of the inputs optional and gives no defaults. So if an input of a formula is missing, its
result is unknown (None), not a smaller figure.
"""

from __future__ import annotations

import enum
import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jobfeatures.status.jobstatus import JobStatus


class Basis(enum.StrEnum):
    """From what a figure of waste or an expected end is computed, such as the job's own report."""

    REPORTED = "reported"  # the job's own JOBSTATUS
    MEASURED = "measured"  # the CPU time that a job without JOBSTATUS has used
    ESTIMATED = "estimated"  # the batch system's data, for a job whose CPU time is not known either
    MIXED = "mixed"  # a sum over several bases


class RemainingBasis(enum.StrEnum):
    """The events that can end a job."""

    WALL_LIMIT = "wall_limit"
    CPU_LIMIT = "cpu_limit"
    DEADLINE = "deadline"
    SHUTDOWN = "shutdown"
    EXPECTED_END = "expected_end"
    MAXIMUM_END = "maximum_end"


_ENDS = (
    *(RemainingBasis.WALL_LIMIT, RemainingBasis.DEADLINE, RemainingBasis.SHUTDOWN),
    *(RemainingBasis.EXPECTED_END, RemainingBasis.MAXIMUM_END),
)


class Waste(NamedTuple):
    """An amount of wasted CPU time in CPU seconds, and the basis on which it is computed.

    `overdue`: a payload of the job should have ended before now, so the figure is a lower bound. `capped`:
    the figure that the job reported exceeded what its CPUs can use, and was reduced to that.
    """

    core_secs: float
    basis: Basis
    overdue: bool = False
    capped: bool = False


def compute_draining_waste(
    status: JobStatus | None, *, allocated_cpus: int | None, now_secs: float
) -> Waste | None:
    """Return the CPU seconds that would stay idle if the job drained from now on. Use case 10.

        (allocated_CPU − used_CPU) × (first_exp_job_end − now) + add_final_exp_waste

    A first expected end in the past counts as now, and marks the result overdue. A job without JOBSTATUS is
    treated as one payload on all its CPUs: draining leaves none idle before the job's end. None if an input
    is unknown, or if used_CPU exceeds an allocation that has shrunk since.
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
    status: JobStatus | None,
    *,
    allocated_cpus: int | None,
    start_secs: int | None,
    now_secs: float,
    cpu_secs: float | None = None,
) -> Waste | None:
    """Return the CPU seconds that would be lost if the job were killed now. Use case 11.

        add_uncom_time + used_CPU × (now − last_job_start)

    Without JOBSTATUS all the job's work so far is lost: its CPU time, `cpu_secs`, or, if unknown,
    allocated_CPU × (now − start). A start in the future (after a clock change) counts as now. None if an
    input is unknown.
    """
    if status is not None:
        if status.last_job_start is None or status.add_uncom_time is None:
            return None
        since = max(0, now_secs - status.last_job_start)
        return Waste(status.add_uncom_time + status.used_cpu * since, Basis.REPORTED)
    if cpu_secs is not None:
        return Waste(cpu_secs, Basis.MEASURED)
    if allocated_cpus is None or start_secs is None:
        return None
    return Waste(allocated_cpus * max(0, now_secs - start_secs), Basis.ESTIMATED)


def cap_waste(
    waste: Waste | None, *, allocated_cpus: int | None, from_secs: float | None, to_secs: float | None
) -> Waste | None:
    """Return the waste that a job reported, capped at what its CPUs can use between two times (epoch).

    A job can waste CPU time only until its known end, and lose only what it used since its start. A figure is
    returned unchanged if the CPUs or a time are unknown, or if the job did not report it.
    """
    if waste is None or waste.basis is not Basis.REPORTED:
        return waste
    if allocated_cpus is None or from_secs is None or to_secs is None:
        return waste
    most = allocated_cpus * max(0, to_secs - from_secs)
    return waste if waste.core_secs <= most else waste._replace(core_secs=most, capped=True)


def compute_remaining(
    *,
    now_secs: float,
    end_limit_secs: float | None = None,
    deadline_secs: float | None = None,
    shutdown_secs: float | None = None,
    status: JobStatus | None = None,
    cpu_secs: float | None = None,
) -> dict[RemainingBasis, float]:
    """Return the seconds until each known end of the job, negative where it has passed. Use case 9.

    The key names the end: `wall_limit` is `end_limit_secs` (see `Job.end_limit_at`); `deadline` is when the
    job must have ended whatever its limit; `shutdown` is the earliest announced; `expected_end` and
    `maximum_end` are last_exp_job_end and last_max_job_end of JOBSTATUS (all epoch seconds). The value of
    `cpu_limit` is `cpu_secs`, from `compute_cpu_limit_secs`. Unknown or unlimited ends have no key.
    """
    expected, most = (None, None) if status is None else (status.last_exp_job_end, status.last_max_job_end)
    ends = zip(_ENDS, (end_limit_secs, deadline_secs, shutdown_secs, expected, most), strict=True)
    remaining = {basis: end - now_secs for basis, end in ends if end is not None}
    if cpu_secs is not None:
        remaining[RemainingBasis.CPU_LIMIT] = cpu_secs
    return remaining


def compute_cpu_limit_secs(
    *, limit_secs: float, used_secs: float, rate_cpus: float | None, allocated_cpus: int | None
) -> float | None:
    """Return the seconds until a job has used up its CPU limit; negative afterwards.

        (limit − used) ÷ rate

    The rate, `rate_cpus`, is in CPU seconds per second. If it is unknown or 0, the job is assumed to use all
    its CPUs, which gives the earliest possible end; None if these are unknown too.
    """
    rate = rate_cpus if rate_cpus is not None and rate_cpus > 0 else allocated_cpus
    return None if not rate else (limit_secs - used_secs) / rate


class NodeJob(NamedTuple):
    """The figures of one job from which the waste of its node is computed.

    `end_secs` is the job's expected end in epoch seconds; `draining` and `kill` are its own waste. None means
    unknown.
    """

    allocated_cpus: int | None
    end_secs: float | None = None
    end_basis: Basis = Basis.ESTIMATED
    draining: Waste | None = None
    kill: Waste | None = None


def compute_expected_end(
    status: JobStatus | None, *, limit_ends_secs: Iterable[float | None]
) -> tuple[float | None, Basis]:
    """Return when a job is expected to end (epoch seconds; None: unknown), and on what basis.

    This is the job's own estimate, or else its own enforced limit, unless one of `limit_ends_secs` is
    earlier; otherwise the earliest of these.
    """
    limits = [each for each in limit_ends_secs if each is not None]
    if status is not None:
        own = status.last_exp_job_end if status.last_exp_job_end is not None else status.last_max_job_end
        if own is not None and all(own <= limit for limit in limits):
            return own, Basis.REPORTED
    return min(limits, default=None), Basis.ESTIMATED


class IdleCpus:
    """Computes the CPU time that stays idle on a node, as jobs end and none starts.

    `jobs` are pairs of the CPUs of a job and the seconds until its end, infinity if it has none. Jobs may
    share CPUs: CPUs are idle once the jobs that still run have fewer than `total_cpus`.
    """

    def __init__(self, total_cpus: int, jobs: Iterable[tuple[int, float]]) -> None:
        ordered = sorted(jobs, key=lambda job: job[1])
        free = total_cpus - sum(cpus for cpus, _ in ordered)
        self._ends, self._cpus, self._core_secs = [0.0], [max(0, free)], [0.0]
        for cpus, end_secs in ordered:
            if math.isinf(end_secs):
                break
            free += cpus
            self._core_secs.append(self.until(max(0.0, end_secs)))
            self._ends.append(max(0.0, end_secs))
            self._cpus.append(max(0, free))

    def until(self, after_secs: float) -> float:
        """Return how much CPU time, in core seconds, stays idle in the next `after_secs` seconds."""
        after_secs = max(0.0, after_secs)
        at = bisect_right(self._ends, after_secs) - 1
        return self._core_secs[at] + self._cpus[at] * (after_secs - self._ends[at])


def compute_node_draining_waste(
    jobs: Sequence[NodeJob], *, total_cpus: int | None, now_secs: float
) -> Waste | None:
    """Return the CPU seconds that would stay idle if the node drained from now to its last job's end.

        Σ waste_j + ∫ from now to last_end: max(0, total − Σ over jobs that still run: allocated_j) dt

    waste_j is each job's own draining waste, see `cap_waste`. An end in the past counts as now and marks the
    result overdue. None if `total_cpus`, or any job's end, allocation or own waste, is unknown.
    """
    if total_cpus is None:
        return None
    ends: list[tuple[int, float]] = []
    wastes: list[Waste] = []
    bases: list[Basis] = []
    overdue = False
    for job in jobs:
        if job.end_secs is None or job.allocated_cpus is None or job.draining is None:
            return None
        ends.append((job.allocated_cpus, max(0.0, job.end_secs - now_secs)))
        wastes.append(job.draining)
        bases += [job.draining.basis, job.end_basis]
        overdue = overdue or job.end_secs < now_secs or job.draining.overdue
    idle = IdleCpus(total_cpus, ends).until(max((end for _, end in ends), default=0.0))
    return Waste(sum(each.core_secs for each in wastes) + idle, combine_bases(bases), overdue)


def compute_node_kill_waste(jobs: Sequence[NodeJob]) -> Waste | None:
    """Return the CPU seconds lost if every job were killed now; None if any job's loss is unknown."""
    wastes = [job.kill for job in jobs if job.kill is not None]
    if len(wastes) < len(jobs):
        return None
    return Waste(sum(each.core_secs for each in wastes), combine_bases(each.basis for each in wastes))


def combine_bases(bases: Iterable[Basis]) -> Basis:
    """Return the basis of a sum of figures with these bases.

    It is mixed if the bases differ, and estimated if there are none.
    """
    found = set(bases)
    if len(found) > 1:
        return Basis.MIXED
    return found.pop() if found else Basis.ESTIMATED
