"""Suggestions for the user's next job: rules, each a function, with their thresholds. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from jobfeatures.records.cells import clean
from jobfeatures_exporter.jobreport.figures import JobReport, NodeUse
from jobfeatures_exporter.view.thresholds import (
    BUSY_CPU,
    BUSY_GPU,
    CPU_STALLED,
    IDLE_CPU,
    IDLE_GPU,
    IO_STALLED,
    LOW_CPU,
    LOW_GPU,
    LOW_MEMORY,
    LOW_TIME,
    MANY_CPUS,
    MEMORY_STALLED,
    NEAR_MEMORY,
    SERIAL_CPUS,
    SETTLED_SECS,
    SPARED_BYTES,
    SPARED_SECS,
    THREADS_PER_CPU,
    THROTTLED,
)
from jobfeatures_exporter.view.units import format_bytes, format_figure, format_share, format_span


@dataclass(frozen=True, slots=True)
class Advice:
    """One suggestion."""

    name: str
    text: str


Judge = Callable[[JobReport], str | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """When a hint is given: `judge` returns the hint's text, or None."""

    name: str
    judge: Judge
    meaning: str
    judges_short: bool  # also judges jobs shorter than `SETTLED_SECS`


RULES: list[Rule] = []  # in the order in which hints are shown: that of the functions below


def _rule(name: str, meaning: str, *, judges_short: bool = False) -> Callable[[Judge], Judge]:
    """Make a function a rule."""

    def add(judge: Judge) -> Judge:
        RULES.append(Rule(name, judge, meaning, judges_short))
        return judge

    return add


def find_hints(report: JobReport) -> list[Advice]:
    """Return the hints on a job, in the order of `RULES`."""
    is_short = (report.elapsed_secs or 0.0) - report.suspended_secs < SETTLED_SECS
    found = [(rule.name, rule.judge(report)) for rule in RULES if rule.judges_short or not is_short]
    return [Advice(name, clean(text)) for name, text in found if text is not None]


def _while_active(report: JobReport, share: float | None) -> float | None:
    """Convert a share of a job's time to a share of the time in which it was not suspended."""
    elapsed = report.elapsed_secs
    active = (elapsed or 0.0) - report.suspended_secs
    return share if share is None or not elapsed or active <= 0 else share * elapsed / active


def _cpu_share(report: JobReport) -> float | None:
    return _while_active(report, report.cpu_share)


def _idle_nodes(report: JobReport) -> list[NodeUse]:
    """Return the nodes that were nearly idle while others worked."""
    idle = [
        node
        for node in report.nodes
        if (share := _while_active(report, node.cpu_share)) is not None and share < IDLE_CPU
    ]
    return idle if len(idle) < len(report.nodes) else []


def _without_idle_nodes(report: JobReport) -> JobReport:
    idle = _idle_nodes(report)
    return replace(report, nodes=tuple(node for node in report.nodes if node not in idle)) if idle else report


def _is_explained(report: JobReport) -> bool:
    """Return whether something other than too large a request explains a job's low CPU use."""
    if _idle_pilot(report) is not None or (_while_active(report, report.gpu_share) or 0.0) >= BUSY_GPU:
        return True
    held = [report.stalled_share(resource) or 0.0 for resource in ("cpu", "io", "memory")]
    held.append(_withheld(report) or 0.0)
    worst = min(1.0, max(held))
    # Its CPU use was low even when it was not stalled.
    if worst < 0.5 and (_cpu_share(report) or 0.0) < LOW_CPU * (1 - worst):
        return False
    return any(judge(report) is not None for judge in (_memory_wait, _starved_io, _throttled, _contended))


@_rule("memory_killed", "a process was killed when memory ran out, or the job ended so", judges_short=True)
def _killed(report: JobReport) -> str | None:
    kills = report.oom_kills
    if kills:
        killed = "one of its processes was" if kills == 1 else f"{format_figure(kills)} of its processes were"
        return f"{killed} killed when memory ran out: ask for more memory"
    return "it ended when memory ran out: ask for more" if report.state == "OUT_OF_MEMORY" else None


@_rule(
    "memory_near_limit",
    f"highest memory at {NEAR_MEMORY:.0%} of what a node gave, or more",
    judges_short=True,
)
def _near_memory(report: JobReport) -> str | None:
    near = [node for node in report.nodes if (node.memory_share or 0.0) >= NEAR_MEMORY]
    if not near or report.oom_kills:
        return None
    worst = max(near, key=lambda node: node.memory_share or 0.0)
    return (
        f"it came near its memory limit: {format_share(worst.memory_share or 0.0)} on {worst.place.name}; "
        "ask for a little more"
    )


@_rule("memory_wait", f"some task waited for memory {MEMORY_STALLED:.0%} of the time or more")
def _memory_wait(report: JobReport) -> str | None:
    stalled = report.stalled_share("memory")
    if stalled is None or stalled < MEMORY_STALLED or report.ran_out_of_memory:
        return None
    return (
        f"it waited for memory {format_share(stalled)} of the time: what it uses again and again did not "
        "fit, so ask for more"
    )


def _unused_memory(report: JobReport) -> float | None:
    """Return the allocated bytes that it never used for its own data, None if few."""
    share, unused = report.memory_share, report.unused_memory
    if share is None or unused is None or _memory_wait(report) is not None:
        return None
    return None if share >= LOW_MEMORY or unused < SPARED_BYTES else unused


def _is_full_of_files(report: JobReport) -> bool:
    return any(
        node.charged_peak is not None
        and node.allocated_memory is not None
        and node.charged_peak >= NEAR_MEMORY * node.allocated_memory
        for node in report.nodes
    )


@_rule("memory_unused", f"less than {LOW_MEMORY:.0%} of the memory used, and 1 GiB or more to give back")
def _much_memory(report: JobReport) -> str | None:
    unused = _unused_memory(report)
    if unused is None or _is_full_of_files(report):
        return None
    return f"it never used {format_bytes(unused)} of its memory: ask for less, others wait for it"


@_rule(
    "memory_cache", f"the same, where files in the page cache filled {NEAR_MEMORY:.0%} of the memory or more"
)
def _cached_files(report: JobReport) -> str | None:
    if _unused_memory(report) is None or not _is_full_of_files(report):
        return None
    return (
        f"its own data took {format_bytes(report.memory_peak or 0)} of its memory; files that it read or "
        "wrote filled the rest (page cache), which by itself does no harm: less memory may do"
    )


@_rule(
    "cpu_serial",
    f"at most {SERIAL_CPUS:g} CPUs used on average, of {MANY_CPUS} or more, but {IDLE_CPU:.0%} or more, and "
    "nothing else explains it",
)
def _serial(report: JobReport) -> str | None:
    working = _without_idle_nodes(report)
    used, given = _while_active(report, working.cpus_used), working.allocated_cpus
    if used is None or given is None or given < MANY_CPUS or _is_explained(report):
        return None
    if not IDLE_CPU * given <= used <= SERIAL_CPUS:
        return None
    had = format_figure(given)
    return f"it did the work of one CPU, and had {had}: ask for one, or start its parallel parts"


@_rule("cpu_low", f"less than {LOW_CPU:.0%} of the CPU time used, and nothing else explains it")
def _low_cpu(report: JobReport) -> str | None:
    share = _cpu_share(_without_idle_nodes(report))
    if share is None or share >= LOW_CPU or _is_explained(report) or _serial(report) is not None:
        return None
    return (
        f"its CPUs worked {format_share(_cpu_share(report) or 0.0)} of the time: ask for fewer, or find what "
        "it waits for"
    )


def _withheld(report: JobReport) -> float | None:
    """Return the share of the CPU time it wanted that a quota withheld."""
    held, used = report.throttled_secs, report.cpu_secs
    return None if not held or used is None else held / (held + used)


@_rule("cpu_throttled", f"a quota withheld {THROTTLED:.0%} or more of the CPU time it wanted")
def _throttled(report: JobReport) -> str | None:
    withheld, share = _withheld(report), _cpu_share(report)
    if withheld is None or withheld < THROTTLED or (share is not None and share >= BUSY_CPU):
        return None
    return (
        f"a CPU quota withheld {format_share(withheld)} of the CPU time that it wanted: ask for more CPUs, "
        "or ask the site why the quota is lower than what it was given"
    )


@_rule(
    "cpu_contended",
    f"less than {BUSY_CPU:.0%} of the CPU time used, and some task waited for a CPU {CPU_STALLED:.0%} of "
    "the time or more, longer than for storage or memory",
)
def _contended(report: JobReport) -> str | None:
    stalled, share = report.stalled_share("cpu"), _cpu_share(report)
    if stalled is None or stalled < CPU_STALLED or share is None:
        return None
    if share >= BUSY_CPU or _throttled(report) is not None or _crowded(report) is not None:
        return None
    if stalled < max(report.stalled_share(resource) or 0.0 for resource in ("io", "memory")):
        return None  # tasks that wake up often wait briefly for a CPU each time
    return (
        f"it waited for CPUs {format_share(stalled)} of the time and got {format_share(share)} of its own: "
        "others ran on them, or its threads are bound to fewer (affinity)"
    )


@_rule(
    "cpu_crowded",
    f"{THREADS_PER_CPU:g} threads a CPU or more, which waited for CPUs {CPU_STALLED:.0%} of the time; "
    f"{LOW_CPU:.0%} of the CPU time used or more",
)
def _crowded(report: JobReport) -> str | None:
    stalled, threads, cpus = report.stalled_share("cpu"), report.threads, report.allocated_cpus
    if stalled is None or threads is None or not cpus:
        return None
    share = _cpu_share(report)
    if stalled < CPU_STALLED or threads < THREADS_PER_CPU * cpus or (share is not None and share < LOW_CPU):
        return None
    return (
        f"about {format_figure(threads)} threads shared {format_figure(cpus)} CPUs and waited for them "
        f"{format_share(stalled)} of the time: as many threads as CPUs (OMP_NUM_THREADS)?"
    )


@_rule("pilot_idle", f"a pilot's payloads took less than {LOW_CPU:.0%} of its CPUs")
def _idle_pilot(report: JobReport) -> str | None:
    claimed, given, share = report.claimed_cpus, report.allocated_cpus, _cpu_share(report)
    if claimed is None or not given or claimed >= LOW_CPU * given or share is None or share >= LOW_CPU:
        return None
    return (
        f"it is a pilot whose payloads took {format_figure(claimed)} of its {format_figure(given)} CPUs on "
        "average: more payloads, or an earlier end"
    )


@_rule("nodes_idle", f"some of its nodes used less than {IDLE_CPU:.0%} of their CPU time")
def _uneven(report: JobReport) -> str | None:
    idle = _idle_nodes(report)
    if not idle:
        return None
    names = ", ".join(node.place.name for node in idle[:3]) + (" …" if len(idle) > 3 else "")
    return f"{len(idle)} of its {len(report.nodes)} nodes did next to nothing: {names}"


@_rule(
    "io_wait",
    f"some task waited for storage {IO_STALLED:.0%} of the time or more, and the others did not compute",
)
def _starved_io(report: JobReport) -> str | None:
    stalled, all_stalled = report.stalled_share("io"), report.stalled_share("io", all_tasks=True)
    if stalled is None or stalled < IO_STALLED or _memory_wait(report) is not None:
        return None
    # A task that waits while others compute costs the job nothing.
    if (_cpu_share(report) or 0.0) >= LOW_CPU and (all_stalled or 0.0) < IO_STALLED:
        return None
    return f"it waited for storage {format_share(stalled)} of the time: larger files, or the node's own disk?"


@_rule("gpu_idle", f"an allocated GPU computed less than {IDLE_GPU:.0%} of the time")
def _idle_gpu(report: JobReport) -> str | None:
    cards = [card for node in report.nodes for card in node.gpus if card.is_allocated]
    elapsed = report.elapsed_secs
    if not elapsed:
        return None
    idle = [card for card in cards if card.busy_secs is not None and card.busy_secs < IDLE_GPU * elapsed]
    if not idle:
        return None
    which = "its GPU" if len(cards) == 1 else f"{len(idle)} of its {len(cards)} GPUs"
    return f"{which} did nothing: ask for fewer, or see whether the program finds them"


@_rule("gpu_low", f"its GPUs computed less than {LOW_GPU:.0%} of the time")
def _low_gpu(report: JobReport) -> str | None:
    share = _while_active(report, report.gpu_share)
    if share is None or share >= LOW_GPU or _idle_gpu(report) is not None:
        return None
    why = "do they wait for data?"
    if (_cpu_share(report) or 0.0) >= BUSY_CPU:
        why = "its CPUs were busy, so ask for more of them, or prepare the data beforehand"
    return f"its GPUs computed {format_share(share)} of the time: {why}"


@_rule("time_limit", "it ended at its time limit", judges_short=True)
def _out_of_time(report: JobReport) -> str | None:
    if report.state != "TIMEOUT":
        return None
    return "it ended at its time limit: ask for more time, or write checkpoints"


@_rule(
    "time_unused",
    f"it completed in less than {LOW_TIME:.0%} of its time limit, an hour or more before it",
    judges_short=True,
)
def _much_time(report: JobReport) -> str | None:
    share, elapsed, limit = report.time_share, report.elapsed_secs, report.wall_limit_secs
    if report.is_running or share is None or elapsed is None or limit is None or report.state != "COMPLETED":
        return None
    if share >= LOW_TIME or limit - elapsed < SPARED_SECS:
        return None
    return (
        f"it took {format_span(elapsed)} of {format_span(limit)}: with a limit nearer to that "
        "jobs start sooner, in the gaps between others"
    )


@_rule("time_unlimited", "it had no time limit", judges_short=True)
def _limit_is_unlimited(report: JobReport) -> str | None:
    limit = report.wall_limit_secs
    if report.is_running or limit is None or not math.isinf(limit):
        return None
    return "it had no time limit: with one, the scheduler can start it in gaps between others"
