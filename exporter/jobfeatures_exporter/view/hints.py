"""Hints: what may be wrong with a job, with the figures behind each. Pure."""

from __future__ import annotations

from typing import NamedTuple

from jobfeatures.records.model import JobState
from jobfeatures_exporter.view.job import JobView
from jobfeatures_exporter.view.thresholds import IDLE_CPU, IDLE_GPU, IO_STALLED, MEMORY_FULL, SETTLED_SECS
from jobfeatures_exporter.view.units import format_bytes, format_cpus, format_share, format_span, format_when


class Hint(NamedTuple):
    """One hint; `kind` is the kind of its badge."""

    kind: str
    words: str
    reason: str


def find_hints(job: JobView) -> list[Hint]:
    """Return the hints on a job."""
    if not job.is_running:
        remains = Hint("bad", "processes remain", "it has ended, but some of its processes are still here")
        return [remains] if job.processes_remain else []
    found = _on_idleness(job) if (job.elapsed_secs or 0.0) >= SETTLED_SECS else []
    if job.is_near_its_memory:
        used, limit = format_bytes(job.memory or 0), format_bytes(job.memory_limit or 0)
        said = f"it uses {used} of {limit}, {format_share(MEMORY_FULL)} or more"
        found.append(Hint("bad", "memory near its limit", f"{said}: beyond the limit the kernel kills it"))
    left = job.enforced_secs or 0.0
    if job.is_late:
        said = f"a limit or shutdown should have ended it {format_when(left)}"
        found.append(Hint("bad", "past its end", said))
    elif job.ends_soon:
        found.append(Hint("warn", "ends soon", f"a limit or shutdown ends it {format_when(left)}"))
    if job.is_overdue:
        said = "a payload should have ended by what the job itself reported: the waste is a lower bound"
        found.append(Hint("", "payload overdue", said))
    return found


def _on_idleness(job: JobView) -> list[Hint]:
    """Return the hints on a job that hardly uses its CPUs or GPUs."""
    found = []
    after = f"{format_span(SETTLED_SECS)} or more after its start"
    given, now, mean = job.allocated_cpus, job.cpus_used, job.cpus_mean
    is_idle = given and now is not None and mean is not None and max(mean, now) < IDLE_CPU * given
    if is_idle and job.identity.state != JobState.SUSPENDED.value:
        used = f"{format_cpus(now or 0)} of {format_cpus(given or 0)} CPUs now and {format_cpus(mean or 0)}"
        said = f"it uses {used} on average: less than {format_share(IDLE_CPU)}, {after}"
        stalled_secs, claimed = job.io_stalled_secs or 0.0, job.claimed_cpus
        if claimed is not None and claimed < IDLE_CPU * (given or 0):
            found.append(Hint("warn", "no payload", f"{said}; its JOBSTATUS says {format_cpus(claimed)}"))
        elif stalled_secs >= IO_STALLED * (job.elapsed_secs or 0.0):
            waited = f"{format_span(stalled_secs)}, {format_share(IO_STALLED)} of its time or more"
            said += f"; some task waited for storage for {waited}"
            found.append(Hint("warn", "waits for storage", said))
        else:
            found.append(Hint("warn", "CPUs idle", said))
    if job.idle_gpus:
        words = f"{job.idle_gpus} of {len(job.gpus)} GPUs idle" if len(job.gpus) > 1 else "GPU idle"
        share = format_share(IDLE_GPU)
        said = f"its own work, and all work now, keeps them less than {share} busy, {after}"
        found.append(Hint("warn", words, said))
    return found
