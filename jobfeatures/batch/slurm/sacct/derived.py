"""Fields of a job's record that depend on several columns of sacct. Pure."""

from __future__ import annotations

from typing import Any, Final

from jobfeatures.batch.slurm.sacct.values import RequestedMemory
from jobfeatures.records.model import JobState

# The arguments of `derive`, each from one column, and the fields of a record that it returns.
TOLD: Final = (
    *("state", "start_secs", "end_secs", "suspended_secs", "run_secs", "exit", "nodes", "total_nodes"),
    *("total_cpus", "requested_nodes", "requested_cpus", "requested_memory_bytes", "allocated", "requested"),
    *("used_cpu_secs", "user_cpu_secs", "system_cpu_secs"),
)
DERIVED: Final = (
    *("start_secs", "end_secs", "run_secs", "exit_status", "exit_signal", "nodes", "total_nodes"),
    *("total_cpus", "requested_nodes", "requested_cpus", "requested_memory_bytes"),
    *("used_cpu_secs", "user_cpu_secs", "system_cpu_secs"),
)


def derive(
    state: JobState,
    start: int | None,
    end: int | None,
    suspended: float | None,
    elapsed: float | None,
    exit_code: tuple[int | None, int | None],
    nodes: tuple[str, ...] | None,
    total_nodes: int | None,
    cpus: int | None,
    requested_nodes: int | None,
    requested_cpus: int | None,
    requested_memory: RequestedMemory | None,
    allocated: dict[str, int],
    requested: dict[str, int],
    used: float | None,
    user: float | None,
    system: float | None,
) -> tuple[Any, ...]:
    """Return the values of `DERIVED`.

    A job that never had a CPU or a node has not run, whatever its Start is. The end of a running or pending
    job is unknown. CPU time is reported when steps end, so 0 for a running job means unknown.
    """
    is_finished, is_pending = state.is_finished, state is JobState.PENDING
    cpus = allocated.get("cpu") if cpus is None else cpus
    if used is None and user is not None and system is not None:
        used = user + system
    if is_pending or (is_finished and not elapsed and (cpus == 0 or nodes == ())):  # it never ran
        start = elapsed = used = user = system = None
    status, signal = exit_code
    if not is_finished:
        end = end if state is JobState.UNKNOWN else None
        status, signal, used = None, None, used or None
    elif end is None and start is not None and elapsed is not None:
        end = start + round(elapsed + (suspended or 0))
    requested_cpus = requested_cpus or requested.get("cpu")
    requested_nodes = requested_nodes or requested.get("node")
    memory = requested.get("mem")
    if requested_memory is not None:
        memory = requested_memory.of_job(requested_cpus or cpus, requested_nodes or total_nodes) or memory
    return (
        start,
        end,
        elapsed,
        status,
        signal,
        nodes or (),
        None if is_pending else total_nodes or allocated.get("node"),
        None if is_pending else cpus or None,
        requested_nodes,
        requested_cpus,
        memory or None,
        used,
        user,
        system,
    )
