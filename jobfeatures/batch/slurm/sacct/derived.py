"""Computes the fields of a job's record that depend on several columns of sacct. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from operator import not_
from typing import Any, Final

from jobfeatures.batch.slurm.sacct.values import RequestedMemory
from jobfeatures.records.model import JobState

# The arguments of `derive`, each from one column, and the fields of a record that it returns.
REPORTED: Final = (
    *("state", "start_secs", "end_secs", "suspended_secs", "run_secs", "exit", "nodes", "total_nodes"),
    *("total_cpus", "requested_nodes", "requested_cpus", "requested_memory_bytes", "allocated", "requested"),
    *("used_cpu_secs", "user_cpu_secs", "system_cpu_secs"),
)
DERIVED: Final = (
    *("start_secs", "end_secs", "run_secs", "exit_status", "exit_signal", "nodes", "total_nodes"),
    *("total_cpus", "requested_nodes", "requested_cpus", "requested_memory_bytes"),
    *("used_cpu_secs", "user_cpu_secs", "system_cpu_secs"),
)

_ABSENT: Final[dict[str, Any]] = {
    "state": JobState.UNKNOWN,
    "exit": (None, None),
    "allocated": {},
    "requested": {},
}
_SIZES: Final = ("nodes", "total_nodes", "total_cpus")
_REQUESTED: Final = {"requested_cpus": "cpu", "requested_nodes": "node", "requested_memory_bytes": "mem"}
_FINISHED: Final = frozenset(state for state in JobState if state.is_finished)
_WITHOUT_0: Final = frozenset({JobState.FAILED, JobState.PREEMPTED})


def derive_columns(values: Mapping[str, Any], count: int) -> dict[str, list[Any]]:
    """Return the columns of job records whose values depend on several columns of sacct, by field name.

    Their names are `DERIVED`. `values` has the columns of sacct named in `REPORTED`, each with `count` rows.
    If a job ran and has ended, reported values are copied; else `derive` computes them.
    """
    given = {name: values.get(name) or [_ABSENT.get(name)] * count for name in REPORTED}
    # sacct before 26.05 takes 128 from exit statuses; what was taken from its nodes had none.
    if not _WITHOUT_0.isdisjoint(given["state"]):
        given["exit"] = [
            (None, None) if each == (0, None) and state in _WITHOUT_0 else each
            for each, state in zip(given["exit"], given["state"], strict=True)
        ]
    statuses, signals = zip(*given["exit"], strict=True)
    found: dict[str, list[Any]] = {name: [*given[name]] for name in DERIVED if name in given}
    found |= {"exit_status": [*statuses], "exit_signal": [*signals]}
    memory = given["requested_memory_bytes"]
    found["requested_memory_bytes"] = [None if each is None else each.size_bytes or None for each in memory]
    for field, name in _REQUESTED.items() if "requested" in values else ():
        found[field] = [
            of.get(name) or None if known is None else known
            for known, of in zip(found[field], given["requested"], strict=True)
        ]
    if "nodes" not in values:
        found["nodes"] = [()] * count
    sizes = (name for name in _SIZES if name in values or "allocated" in values)
    needed = (given[name] for name in ("run_secs", "end_secs", *sizes))
    plain = [*map(all, zip(map(_FINISHED.__contains__, given["state"]), *needed, strict=True))]
    if any(each.per for each in {*memory} if each is not None):
        plain = [is_plain and not (each and each.per) for is_plain, each in zip(plain, memory, strict=True)]
    if None in given["used_cpu_secs"] and "user_cpu_secs" in values:
        plain = [False] * count
    if False in plain:
        places = [place for place, is_plain in enumerate(plain) if not is_plain]
        rows = zip(*(given[name] for name in REPORTED), strict=True)
        for place, row in zip(places, compress(rows, map(not_, plain)), strict=True):
            for name, value in zip(DERIVED, derive(*row), strict=True):
                found[name][place] = value
    return found


def pairs_of(columns: Sequence[tuple[str, Sequence[Any]]], count: int) -> list[tuple[tuple[str, Any], ...]]:
    """Return, for each of `count` rows, the values that are not None, as pairs (column's name, value)."""
    named = [
        [None if value is None else (name, value) for value in column]
        for name, column in columns
        if column.count(None) < count
    ]
    if not named:
        return [()] * count
    rows: Iterable[Any] = zip(*named, strict=True)
    return [tuple(filter(None, row)) for row in rows] if any(None in each for each in named) else [*rows]


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
    """Return one job's values of the fields `DERIVED`, in the order of that tuple.

    The arguments are its values of the columns `REPORTED`. A job that never had a CPU or a node has not run,
    whatever its Start is. The end of a running or pending job is unknown. CPU time is reported when steps
    end, so 0 for a running job means unknown.
    """
    is_finished, is_pending = state.is_finished, state is JobState.PENDING
    cpus = allocated.get("cpu") if cpus is None else cpus
    if used is None and user is not None and system is not None:
        used = user + system
    never_ran = is_pending or (is_finished and not elapsed and (cpus == 0 or nodes == ()))
    if never_ran:
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
        None if never_ran else total_nodes or allocated.get("node"),
        None if never_ran else cpus or None,
        requested_nodes,
        requested_cpus,
        memory or None,
        used,
        user,
        system,
    )
