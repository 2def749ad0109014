"""Computes the keys and values of a job's directory $JOBFEATURES."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from jobfeatures.features import keys
from jobfeatures.features.keys import Area, MjfProfile
from jobfeatures.features.machine import Machine, Values
from jobfeatures.records.model import Job, Limit

_PRINTABLE = re.compile(r"[!-~]+\Z")
MB_BYTES = 10**6  # "Count with 1000 not 1024": draft 0.99 of 2014, 1.6
GB_BYTES = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the site, not the batch system, states about jobs.

    `grace_secs` is the least notice of a job's shutdown. `cpu_factor` is a decimal, above 1 for a machine
    faster than the reference. `scratch_size_bytes` is the whole file system, on which jobs have no quota.
    Keys in `left_out` are not published. `shutdown_by_limit`: shutdowntime_job is at most the end that the
    wall limit sets. `origins` says by key where its value comes from.
    """

    grace_secs: int | None = None
    cpu_factor: str | None = None  # decimal; above 1 for a machine faster than the reference
    scratch_bytes_per_cpu: int | None = None
    scratch_size_bytes: int | None = None  # of the whole file system, where no job has a quota
    profile: MjfProfile = MjfProfile.OF_2016
    left_out: frozenset[str] = frozenset()  # keys that are not published
    shutdown_by_limit: bool = False  # shutdowntime_job is at most the end that the wall limit sets
    origins: Mapping[str, str] = field(default_factory=dict)


NO_TERMS = Terms()


def job_features(
    job: Job,
    machine: Machine,
    *,
    terms: Terms = NO_TERMS,
    shutdown_secs: int | None = None,
) -> Values:
    """Return the values to publish for one job on this machine, as texts by key.

    Unknown and unlimited values have no key: readers take any number for a limit, 0 and −1 included.
    `machine` has what is known about this machine, `terms` what the site states about jobs. `shutdown_secs`
    (epoch) is the time by which this job must have finished, unless its own deadline is earlier. It is
    published even once it has passed: only the machine's shutdown time must be removed then (draft, 2.2 but
    not 1.8).

    Sources: HSF-TN-2016-02, "$JOBFEATURES"; draft 0.99 of 2014, 1.1 to 1.8.
    """
    limits, cpu_limit = job.limits, cpu_limit_here(job)
    job_id = job.key.job_id if job.schedd is None else job.key.job_id.removesuffix(f"@{job.schedd}")
    factor = terms.cpu_factor if job.cpu_factor is None else job.cpu_factor
    scratch = scratch_limit(job, terms)
    known: dict[str, Limit | str] = {
        keys.ALLOCATED_CPU.name: job.allocated_cpus,
        keys.HS06_JOB.name: compute_share(machine.hs06, machine.total_cpus, job.allocated_cpus),
        keys.SHUTDOWNTIME_JOB.name: job_shutdown(job, shutdown_secs, terms),
        keys.GRACE_SECS_JOB.name: min(
            (each for each in (terms.grace_secs, job.grace_secs) if each is not None), default=None
        ),
        keys.JOBSTART_SECS.name: job.start_secs,
        keys.JOB_ID.name: job_id if _PRINTABLE.match(job_id) else None,
        keys.WALL_LIMIT_SECS.name: job.wall_limit_from_start_secs,
        keys.CPU_LIMIT_SECS.name: cpu_limit,
        keys.MAX_RSS_BYTES.name: limits.memory_bytes,
        keys.MAX_SWAP_BYTES.name: limits.swap_bytes,
        keys.SCRATCH_LIMIT_BYTES.name: scratch,
        keys.CPUFACTOR_LRMS.name: factor,
        keys.CPU_LIMIT_SECS_LRMS.name: compute_normalized(cpu_limit, factor),
        keys.WALL_LIMIT_SECS_LRMS.name: compute_normalized(job.wall_limit_from_start_secs, factor),
        # "If no quotas are used on a shared system, this corresponds to the full scratch space": 1.4.
        keys.DISK_LIMIT_GB.name: _in_units(
            scratch if isinstance(scratch, int) else terms.scratch_size_bytes, GB_BYTES
        ),
        keys.MEM_LIMIT_MB.name: _in_units(limits.memory_bytes, MB_BYTES),
        keys.ALLOCATED_CPU_2014.name: job.allocated_cpus,
        keys.HS23_JOB.name: compute_share(machine.hs23, machine.total_cpus, job.allocated_cpus),
    }
    reported = frozenset(keys.names_in(Area.JOB, terms.profile)) - terms.left_out
    return {
        name: str(value) for name, value in known.items() if isinstance(value, int | str) and name in reported
    }


def job_shutdown(job: Job, shutdown_secs: int | None, terms: Terms) -> int | None:
    """Return when the job must have finished (epoch seconds); None if nothing sets such a time.

    It is the earliest of `shutdown_secs` (that of a drain), the job's own deadline and, if the site wants it,
    the end of its wall limit.
    """
    limit = job.wall_limit_from_start_secs if terms.shutdown_by_limit else None
    ends = job.start_secs + limit if job.start_secs is not None and isinstance(limit, int) else None
    return min((each for each in (shutdown_secs, job.deadline_secs, ends) if each), default=None)


def cpu_limit_here(job: Job) -> Limit:
    """Return how much CPU time a job may use on this node, in seconds; None if unknown.

    Of a job on several nodes it is the part of this node's CPUs, as allocated_cpu has no more of them.
    """
    limit, total, here = job.limits.cpu_secs, job.total_cpus, job.allocated_cpus
    if not isinstance(limit, int) or len(job.nodes) == 1 or total is None or here is None or here >= total:
        return limit
    return limit * here // total if here else None


def scratch_limit(job: Job, terms: Terms) -> Limit:
    """Return how much scratch space a job may use, in bytes; None if unknown.

    It is the batch system's limit, else the site's scratch space per CPU times the job's CPUs.
    """
    if job.limits.scratch_bytes is not None:
        return job.limits.scratch_bytes
    if terms.scratch_bytes_per_cpu is None or job.allocated_cpus is None:
        return None
    return terms.scratch_bytes_per_cpu * job.allocated_cpus


def compute_share(rating: str | None, total_cpus: int | None, allocated_cpus: int | None) -> str | None:
    """Return the job's part of a machine's benchmark rating: rating × allocated CPUs ÷ total CPUs.

    It is rounded to four places, without trailing zeros; None if any of the three is unknown.

    >>> compute_share("171.04", 16, 4)
    '42.76'
    """
    if rating is None or not total_cpus or allocated_cpus is None:
        return None
    numerator, denominator = _fraction(rating)
    share, rest = divmod(numerator * allocated_cpus * 10**4, denominator * total_cpus)
    doubled, whole = 2 * rest, denominator * total_cpus
    share += doubled > whole or (doubled == whole and share % 2)  # half to even
    return f"{share // 10**4}.{share % 10**4:04}".rstrip("0").rstrip(".")


def compute_normalized(limit: Limit, cpu_factor: str | None) -> int | None:
    """Return a limit in normalized seconds: real seconds × CPU factor, rounded down; None if unknown.

    Source: draft 0.99 of 2014, 1.2.1: dividing by cpufactor_lrms gives the real time.

    >>> compute_normalized(17280, "2.5")
    43200
    """
    if cpu_factor is None or not isinstance(limit, int):
        return None
    numerator, denominator = _fraction(cpu_factor)
    return limit * numerator // denominator


def _fraction(decimal: str) -> tuple[int, int]:
    """Return a plain decimal as an exact fraction, without imports that would slow a hook."""
    whole, _, digits = decimal.partition(".")
    return int(whole + digits), 10 ** len(digits)


def _in_units(limit: Limit, unit_bytes: int) -> int | None:
    """Round down; None below one unit, as readers could take 0 for no limit or for no space."""
    if not isinstance(limit, int):
        return None
    return limit // unit_bytes or (0 if limit == 0 else None)
