"""Why a hint is given, with the figures that it rests on. Pure."""

from __future__ import annotations

from jobfeatures_exporter.view.job import (
    IDLE_AFTER_SECS,
    IDLE_CPUS,
    IDLE_GPU,
    IO_STALLED,
    NEAR_LIMIT,
    JobView,
    find_hints,
)
from jobfeatures_exporter.view.units import format_bytes, format_cpus, format_share, format_span


def explain_hints(job: JobView) -> list[tuple[str, str, str]]:
    """Return the hints on a job: (kind of badge, words, reason)."""
    return [(kind, words, _reason(job, words)) for kind, words in find_hints(job)]


def _reason(job: JobView, words: str) -> str:
    after = f"{format_span(IDLE_AFTER_SECS)} or more after its start"
    if words in {"CPUs idle", "no payload", "waits for storage"}:
        now, mean = format_cpus(job.cpus_used or 0), format_cpus(job.cpus_mean or 0)
        said = f"it uses {now} of {format_cpus(job.allocated_cpus or 0)} CPUs now and {mean} on average"
        said += f": less than {format_share(IDLE_CPUS)}, {after}"
        if words == "no payload":
            return f"{said}; its JOBSTATUS says {format_cpus(job.claimed_cpus or 0)}"
        if words == "waits for storage":
            stalled, share = format_span(job.io_stalled_secs or 0), format_share(IO_STALLED)
            return f"{said}; some task waited for storage for {stalled}, {share} of its time or more"
        return said
    if "idle" in words:
        return f"its own work, and all work now, keeps them less than {format_share(IDLE_GPU)} busy, {after}"
    if words == "memory near its limit":
        used, limit = format_bytes(job.memory or 0), format_bytes(job.memory_limit or 0)
        near = format_share(NEAR_LIMIT)
        return f"it uses {used} of {limit}, {near} or more: beyond the limit the kernel kills it"
    if words in {"past its end", "ends soon"}:
        left = job.enforced_secs or 0
        if left < 0:
            return f"a limit or shutdown should have ended it {format_span(-left)} ago"
        return f"a limit or shutdown ends it in {format_span(left)}"
    if words == "payload overdue":
        return "a payload should have ended by what the job itself reported: the waste is a lower bound"
    return "it has ended, but processes of it are still here" if words == "processes remain" else ""
