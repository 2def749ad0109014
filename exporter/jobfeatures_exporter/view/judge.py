"""Judges how jobs use what they are allocated, by rules, each of which is a function. No I/O.

The HTML page, `top` and reports use these rules, alerts the same thresholds. An unknown figure is not taken
for 0, but not judged: with less data there is less advice, never different advice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from jobfeatures.records.cells import clean
from jobfeatures_exporter.view import thresholds as at
from jobfeatures_exporter.view.units import format_bytes, format_figure, format_share, format_span
from jobfeatures_exporter.view.use import JobUse, NodeUse, compute_ratio


class Advice(NamedTuple):
    """What is wrong with a job's use of its allocation, with a suggestion (`text`); `name` is the rule's."""

    name: str
    text: str


Judge = Callable[[JobUse], str | None]


class Rule(NamedTuple):
    """A rule on jobs' use of their allocation.

    `judge` returns what is wrong with a job's use, with a suggestion, as text; None if nothing is.
    """

    name: str
    meaning: str
    judge: Judge


RULES: list[Rule] = []  # in the order in which advice is shown: that of the functions below
OF_SHORT_JOBS = {"memory_killed", "memory_near_limit", "time_limit", "time_unused", "time_unlimited"}
LITTLE_USE = frozenset({"cpu_idle", "cpu_serial", "cpu_low"})  # one of them at most
WAITS = frozenset({"memory_wait", "io_wait", "cpu_throttled", "cpu_contended"})
# What says better what others say, unless something says that better in turn.
INSTEAD_OF = {
    "memory_killed": {"memory_near_limit", "memory_wait"},
    "memory_wait": {"memory_unused", "memory_cache", "io_wait"},
    "memory_cache": {"memory_unused"},
    "pilot_idle": LITTLE_USE,
    "cpu_throttled": {"cpu_contended"},
    "cpu_crowded": {"cpu_contended"},
    "gpu_idle": {"gpu_low"},
}


def _rule(name: str, meaning: str) -> Callable[[Judge], Judge]:
    """Make a function a rule."""

    def add(judge: Judge) -> Judge:
        RULES.append(Rule(name, meaning, judge))
        return judge

    return add


def judge(use: JobUse, rules: Sequence[Rule] = RULES) -> list[Advice]:
    """Return the advice on a job in the order of `RULES`; leave out advice that follows from other advice."""
    is_short = (use.active_secs or 0.0) < at.SETTLED_SECS
    judged = ((rule.name, rule.judge(use)) for rule in rules if not is_short or rule.name in OF_SHORT_JOBS)
    found = {name: text for name, text in judged if text is not None}
    left_out: set[str] = set()
    for name, others in INSTEAD_OF.items():
        left_out |= others if name in found.keys() - left_out else set()
    if (found.keys() - left_out) & WAITS and _is_explained_by_waits(use):
        left_out |= LITTLE_USE
    return [Advice(name, clean(text)) for name, text in found.items() if name not in left_out]


def _is_explained_by_waits(use: JobUse) -> bool:
    """Return whether a job waited for so long that this explains how little of its CPUs it used."""
    held = [use.stalled_share(resource) or 0.0 for resource in ("cpu", "io", "memory")]
    worst = min(1.0, max(*held, _withheld(use) or 0.0))
    # Else its CPU use was low even when it did not wait.
    return worst >= 0.5 or (use.cpu_share or 0.0) >= at.LOW_CPU * (1 - worst)


def _idle_nodes(use: JobUse) -> list[NodeUse]:
    """Return the job's nodes that were nearly idle while its other nodes worked."""
    idle = [node for node in use.nodes if node.cpu_share is not None and node.cpu_share < at.IDLE_CPU]
    return idle if len(idle) < len(use.nodes) else []


def _little_use(use: JobUse) -> str | None:
    """Return which of `LITTLE_USE` is true of the job's working nodes; None if its GPUs compute, or may."""
    if (use.gpu_share is None and use.gpu_count) or (use.gpu_share or 0.0) >= at.BUSY_GPU:
        return None
    idle = _idle_nodes(use)
    working = replace(use, nodes=tuple(node for node in use.nodes if node not in idle)) if idle else use
    share, used, given = working.cpu_share, working.cpus_used, working.allocated_cpus
    if share is None or used is None or given is None:
        return None
    if share < at.IDLE_CPU:
        return "cpu_idle"
    if given >= at.MANY_CPUS and used <= at.SERIAL_CPUS:
        return "cpu_serial"
    return "cpu_low" if share < at.LOW_CPU else None


@_rule("memory_killed", "a process was killed when memory ran out, or the job ended so")
def _killed(use: JobUse) -> str | None:
    kills = use.oom_kills
    if kills:
        killed = "one of its processes was" if kills == 1 else f"{format_figure(kills)} of its processes were"
        return f"{killed} killed when memory ran out: ask for more memory"
    return "it ended when memory ran out: ask for more" if use.state == "OUT_OF_MEMORY" else None


@_rule("memory_near_limit", f"highest memory at {at.NEAR_MEMORY:.0%} of what a node gave, or more")
def _near_memory(use: JobUse) -> str | None:
    shares = ((node.memory_share or 0.0, node.place.name) for node in use.nodes)
    share, name = max(shares, default=(0.0, ""))
    if share < at.NEAR_MEMORY:
        return None
    return f"it came near its memory limit: {format_share(share)} on {name}; ask for a little more"


@_rule("memory_wait", f"some task waited for memory {at.MEMORY_STALLED:.0%} of the time or more")
def _memory_wait(use: JobUse) -> str | None:
    stalled = use.stalled_share("memory")
    if stalled is None or stalled < at.MEMORY_STALLED:
        return None
    return (
        f"it waited for memory {format_share(stalled)} of the time: what it uses again and again did not "
        "fit, so ask for more"
    )


def _unused_memory(use: JobUse) -> float | None:
    """Return the allocated bytes that the job never used for its own data, None if they are few."""
    share, unused = use.memory_share, use.unused_memory
    if share is None or unused is None or share >= at.LOW_MEMORY or unused < at.SPARED_BYTES:
        return None
    return unused


@_rule("memory_unused", f"less than {at.LOW_MEMORY:.0%} of the memory used, and 1 GiB or more to give back")
def _much_memory(use: JobUse) -> str | None:
    unused = _unused_memory(use)
    if unused is None:
        return None
    return f"it never used {format_bytes(unused)} of its memory: ask for less, others wait for it"


@_rule(
    "memory_cache",
    f"the same, where files in the page cache filled {at.NEAR_MEMORY:.0%} of the memory or more",
)
def _cached_files(use: JobUse) -> str | None:
    charged = (compute_ratio(node.charged_peak, node.allocated_memory) or 0.0 for node in use.nodes)
    if _unused_memory(use) is None or max(charged) < at.NEAR_MEMORY:
        return None
    return (
        f"its own data took {format_bytes(use.memory_peak or 0)} of its memory; files that it read or "
        "wrote filled the rest (page cache), which by itself does no harm: less memory may do"
    )


_IF_ALONE = ", and nothing else explains it"


@_rule("cpu_idle", f"less than {at.IDLE_CPU:.0%} of the CPU time used{_IF_ALONE}")
def _idle_cpus(use: JobUse) -> str | None:
    worked = format_share(use.cpu_share or 0.0)
    sentence = f"it did next to nothing: its CPUs worked {worked} of the time"
    return sentence if _little_use(use) == "cpu_idle" else None


@_rule(
    "cpu_serial",
    f"at most {at.SERIAL_CPUS:g} CPUs used on average, of {at.MANY_CPUS} or more, but {at.IDLE_CPU:.0%} "
    f"or more{_IF_ALONE}",
)
def _serial(use: JobUse) -> str | None:
    had = format_figure(use.allocated_cpus or 0)
    sentence = f"it did the work of one CPU, and had {had}: ask for one, or start its parallel parts"
    return sentence if _little_use(use) == "cpu_serial" else None


@_rule("cpu_low", f"less than {at.LOW_CPU:.0%} of the CPU time used{_IF_ALONE}")
def _low_cpu(use: JobUse) -> str | None:
    worked = format_share(use.cpu_share or 0.0)
    sentence = f"its CPUs worked {worked} of the time: ask for fewer, or find what it waits for"
    return sentence if _little_use(use) == "cpu_low" else None


def _withheld(use: JobUse) -> float | None:
    """Return the share of the CPU time that a job could have used which a CPU quota withheld."""
    held, used = use.throttled_secs, use.cpu_secs
    return None if not held or used is None else held / (held + used)


@_rule("cpu_throttled", f"a quota withheld {at.THROTTLED:.0%} or more of the CPU time it wanted")
def _throttled(use: JobUse) -> str | None:
    withheld, share = _withheld(use), use.cpu_share
    if withheld is None or withheld < at.THROTTLED or share is None or share >= at.BUSY_CPU:
        return None
    return (
        f"a CPU quota withheld {format_share(withheld)} of the CPU time that it wanted: ask for more CPUs, "
        "or ask the site why the quota is lower than what it was given"
    )


@_rule(
    "cpu_contended",
    f"less than {at.BUSY_CPU:.0%} of the CPU time used, and some task waited for a CPU {at.CPU_STALLED:.0%} "
    "of the time or more, longer than for storage or memory",
)
def _contended(use: JobUse) -> str | None:
    stalled, share = use.stalled_share("cpu"), use.cpu_share
    if stalled is None or stalled < at.CPU_STALLED or share is None or share >= at.BUSY_CPU:
        return None
    if stalled < max(use.stalled_share(resource) or 0.0 for resource in ("io", "memory")):
        return None  # tasks that wake up often wait briefly for a CPU each time
    return (
        f"it waited for CPUs {format_share(stalled)} of the time and got {format_share(share)} of its own: "
        "others ran on them, or its threads are bound to fewer (affinity)"
    )


@_rule(
    "cpu_crowded",
    f"{at.THREADS_PER_CPU:g} threads a CPU or more, which waited for CPUs {at.CPU_STALLED:.0%} of the time; "
    f"{at.LOW_CPU:.0%} of the CPU time used or more",
)
def _crowded(use: JobUse) -> str | None:
    stalled, threads, cpus = use.stalled_share("cpu"), use.threads, use.allocated_cpus
    share = use.cpu_share
    if stalled is None or threads is None or not cpus or share is None:
        return None
    if stalled < at.CPU_STALLED or threads < at.THREADS_PER_CPU * cpus or share < at.LOW_CPU:
        return None
    return (
        f"about {format_figure(threads)} threads shared {format_figure(cpus)} CPUs and waited for them "
        f"{format_share(stalled)} of the time: as many threads as CPUs (OMP_NUM_THREADS)?"
    )


@_rule("pilot_idle", f"a pilot's payloads took less than {at.LOW_CPU:.0%} of its CPUs")
def _idle_pilot(use: JobUse) -> str | None:
    claimed, given, share = use.claimed_cpus, use.allocated_cpus, use.cpu_share
    if claimed is None or not given or claimed >= at.LOW_CPU * given or share is None or share >= at.LOW_CPU:
        return None
    return (
        f"it is a pilot whose payloads took {format_figure(claimed)} of its {format_figure(given)} CPUs: "
        "more payloads, or an earlier end"
    )


@_rule("nodes_idle", f"some of its nodes used less than {at.IDLE_CPU:.0%} of their CPU time")
def _uneven(use: JobUse) -> str | None:
    idle = _idle_nodes(use)
    if not idle:
        return None
    names = ", ".join(node.place.name for node in idle[:3]) + (" …" if len(idle) > 3 else "")
    return f"{len(idle)} of its {len(use.nodes)} nodes did next to nothing: {names}"


@_rule(
    "io_wait",
    f"some task waited for storage {at.IO_STALLED:.0%} of the time or more, and the others did not compute",
)
def _starved_io(use: JobUse) -> str | None:
    stalled, all_stalled = use.stalled_share("io"), use.stalled_share("io", all_tasks=True)
    if stalled is None or stalled < at.IO_STALLED:
        return None
    share = use.cpu_share
    # A task that waits while others compute costs the job nothing.
    if (share is None or share >= at.LOW_CPU) and (all_stalled or 0.0) < at.IO_STALLED:
        return None
    return f"it waited for storage {format_share(stalled)} of the time: larger files, or the node's own disk?"


@_rule("gpu_idle", f"an allocated GPU computed less than {at.IDLE_GPU:.0%} of the time")
def _idle_gpu(use: JobUse) -> str | None:
    cards = [card for node in use.nodes for card in node.gpus if card.is_allocated]
    active = use.active_secs or 0.0
    idle = [card for card in cards if card.busy_secs is not None and card.busy_secs < at.IDLE_GPU * active]
    if not idle:
        return None
    which = "its GPU" if len(cards) == 1 else f"{len(idle)} of its {len(cards)} GPUs"
    return f"{which} did nothing: ask for fewer, or see whether the program finds them"


@_rule("gpu_low", f"its GPUs computed less than {at.LOW_GPU:.0%} of the time")
def _low_gpu(use: JobUse) -> str | None:
    share = use.gpu_share
    if share is None or share >= at.LOW_GPU:
        return None
    why = "do they wait for data?"
    if (use.cpu_share or 0.0) >= at.BUSY_CPU:
        why = "its CPUs were busy, so ask for more of them, or prepare the data beforehand"
    return f"its GPUs computed {format_share(share)} of the time: {why}"


@_rule("time_limit", "it ended at its time limit")
def _out_of_time(use: JobUse) -> str | None:
    sentence = "it ended at its time limit: ask for more time, or write checkpoints"
    return sentence if use.state == "TIMEOUT" else None


@_rule(
    "time_unused", f"it completed in less than {at.LOW_TIME:.0%} of its time limit, an hour or more before it"
)
def _much_time(use: JobUse) -> str | None:
    share, elapsed, limit = use.time_share, use.elapsed_secs, use.wall_limit_secs
    if share is None or elapsed is None or limit is None or use.is_running or use.state != "COMPLETED":
        return None
    if share >= at.LOW_TIME or limit - elapsed < at.SPARED_SECS:
        return None
    return (
        f"it took {format_span(elapsed)} of {format_span(limit)}: with a limit nearer to that "
        "jobs start sooner, in the gaps between others"
    )


@_rule("time_unlimited", "it had no time limit")
def _limit_is_unlimited(use: JobUse) -> str | None:
    sentence = "it had no time limit: with one, the scheduler can start it in gaps between others"
    return sentence if not use.is_running and use.wall_limit_secs == math.inf else None
