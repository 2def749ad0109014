"""$JOBFEATURES of a job."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Decimal

from jobfeatures.features import keys
from jobfeatures.features.machine import Machine, Values
from jobfeatures.model import Job

_PRINTABLE = re.compile(r"[!-~]+\Z")


def job_features(job: Job, machine: Machine) -> Values:
    """Return key → value of one job on this machine.

    Unknown and unlimited values have no key: readers take any number for a
    limit, 0 and −1 included. Source: HSF-TN-2016-02, "$JOBFEATURES".
    """
    limits = job.limits
    known = {
        keys.ALLOCATED_CPU.name: job.allocated_cpus,
        keys.JOBSTART_SECS.name: job.start_secs,
        keys.WALL_LIMIT_SECS.name: limits.wall_secs,
        keys.CPU_LIMIT_SECS.name: limits.cpu_secs,
        keys.MAX_RSS_BYTES.name: limits.memory_bytes,
        keys.MAX_SWAP_BYTES.name: limits.swap_bytes,
        keys.SCRATCH_LIMIT_BYTES.name: limits.scratch_bytes,
    }
    values = {name: str(value) for name, value in known.items() if isinstance(value, int)}
    if _PRINTABLE.match(job.key.job_id):  # "printable non-whitespace ASCII characters"
        values[keys.JOB_ID.name] = job.key.job_id
    hs06_job = compute_hs06_job(machine, job.allocated_cpus)
    if hs06_job is not None:
        values[keys.HS06_JOB.name] = hs06_job
    return values


def compute_hs06_job(machine: Machine, allocated_cpus: int | None) -> str | None:
    """Return hs06 × allocated_cpu ÷ total_cpu to four places; None if any is unknown.

    >>> compute_hs06_job(Machine(total_cpus=16, hs06="171.04"), 4)
    '42.76'
    """
    if machine.hs06 is None or not machine.total_cpus or allocated_cpus is None:
        return None
    share = Decimal(machine.hs06) * allocated_cpus / machine.total_cpus
    text = format(share.quantize(Decimal("0.0001"), ROUND_HALF_EVEN), "f")
    return text.rstrip("0").rstrip(".")
