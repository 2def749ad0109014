"""What somebody may want to do better next time: one table, each rule with its bounds. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from jobfeatures_exporter.jobreport.figures import NEAR_MEMORY, JobReport
from jobfeatures_exporter.terminal.cells import clean
from jobfeatures_exporter.view.units import format_bytes, format_figure, format_share, format_span

SETTLED_SECS = 300.0  # shorter jobs are judged by what killed them alone
LOW_CPU = 0.5
SERIAL_CPUS = 1.2
LOW_MEMORY = 0.25
SPARED_BYTES = 2**30  # less to give back is not worth a word
LOW_GPU = 0.15
IDLE_GPU = 0.01
LOW_TIME = 0.25
SPARED_SECS = 3600.0
IO_STALLED = 0.25
CPU_STALLED = 0.3
THREADS_PER_CPU = 2.0


@dataclass(frozen=True, slots=True)
class Hint:
    """One thing to look at."""

    name: str
    text: str


def find_hints(report: JobReport) -> list[Hint]:
    """Return the hints on a job, in the order of `RULES`."""
    found = []
    for rule in RULES:
        text = rule.judge(report)
        if text is not None:
            found.append(Hint(rule.name, clean(text)))
    return found


def _is_settled(report: JobReport) -> bool:
    return (report.elapsed_secs or 0.0) >= SETTLED_SECS


def _killed(report: JobReport) -> str | None:
    kills = report.oom_kills
    if kills:
        killed = "one of its processes was" if kills == 1 else f"{format_figure(kills)} of its processes were"
        return f"{killed} killed for want of memory: ask for more memory"
    return "it ended for want of memory: ask for more" if report.state == "OUT_OF_MEMORY" else None


def _near_memory(report: JobReport) -> str | None:
    near = [node for node in report.nodes if (node.memory_share or 0.0) >= NEAR_MEMORY]
    if not near or report.oom_kills:
        return None
    worst = max(near, key=lambda node: node.memory_share or 0.0)
    return (
        f"it came near its memory limit: {format_share(worst.memory_share or 0.0)} on {worst.place.name}; "
        "ask for a little more"
    )


def _much_memory(report: JobReport) -> str | None:
    share, unused = report.memory_share, report.unused_memory
    if not _is_settled(report) or share is None or unused is None:
        return None
    if share >= LOW_MEMORY or unused < SPARED_BYTES:
        return None
    return f"it never used {format_bytes(unused)} of its memory: ask for less, others wait for it"


def _serial(report: JobReport) -> str | None:
    used, given = report.cpus_used, report.allocated_cpus
    if not _is_settled(report) or used is None or given is None or given < 2:
        return None
    if not LOW_CPU < used <= SERIAL_CPUS or used / given >= LOW_CPU:
        return None
    return f"it worked on one CPU, and had {format_figure(given)}: ask for one, or start its parallel parts"


def _low_cpu(report: JobReport) -> str | None:
    share = report.cpu_share
    if not _is_settled(report) or share is None or share >= LOW_CPU or _serial(report) is not None:
        return None
    return f"its CPUs worked {format_share(share)} of the time: ask for fewer, or find what it waits for"


def _uneven(report: JobReport) -> str | None:
    idle = [node for node in report.nodes if node.cpu_share is not None and node.cpu_share < 0.05]
    if not _is_settled(report) or not idle or len(idle) == len(report.nodes):
        return None
    names = ", ".join(node.place.name for node in idle[:3]) + (" …" if len(idle) > 3 else "")
    return f"{len(idle)} of its {len(report.nodes)} nodes did next to nothing: {names}"


def _idle_gpu(report: JobReport) -> str | None:
    cards = [card for node in report.nodes for card in node.gpus if card.is_allocated]
    elapsed = report.elapsed_secs
    if not _is_settled(report) or not elapsed:
        return None
    idle = [card for card in cards if card.busy_secs is not None and card.busy_secs < IDLE_GPU * elapsed]
    if not idle:
        return None
    which = "its graphics card" if len(cards) == 1 else f"{len(idle)} of its {len(cards)} graphics cards"
    return f"{which} did nothing: ask for fewer, or see whether the program finds them"


def _low_gpu(report: JobReport) -> str | None:
    share = report.gpu_share
    if not _is_settled(report) or share is None or share >= LOW_GPU or _idle_gpu(report) is not None:
        return None
    return f"its graphics cards computed {format_share(share)} of the time: do they wait for data?"


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


def _out_of_time(report: JobReport) -> str | None:
    if report.state != "TIMEOUT":
        return None
    return "it ended at its time limit: ask for more time, or write checkpoints"


def _starved_io(report: JobReport) -> str | None:
    stalled = report.stalled_share("io")
    if not _is_settled(report) or stalled is None or stalled < IO_STALLED:
        return None
    return f"it waited for storage {format_share(stalled)} of the time: larger files, or the node's own disk?"


def _crowded(report: JobReport) -> str | None:
    stalled, threads, cpus = report.stalled_share("cpu"), report.threads, report.allocated_cpus
    if not _is_settled(report) or stalled is None or threads is None or not cpus:
        return None
    if stalled < CPU_STALLED or threads < THREADS_PER_CPU * cpus:
        return None
    return (
        f"about {format_figure(threads)} threads shared {format_figure(cpus)} CPUs and waited for them "
        f"{format_share(stalled)} of the time: as many threads as CPUs (OMP_NUM_THREADS)?"
    )


def _limit_is_unlimited(report: JobReport) -> str | None:
    limit = report.wall_limit_secs
    if report.is_running or limit is None or not math.isinf(limit):
        return None
    return "it had no time limit: with one, the scheduler can start it in gaps between others"


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table: `judge` returns what to say, None where there is nothing."""

    name: str
    judge: Callable[[JobReport], str | None]
    meaning: str


RULES = (
    Rule("memory_killed", _killed, "a process was killed for want of memory, or the job ended so"),
    Rule(
        "memory_near_limit", _near_memory, f"highest memory at {NEAR_MEMORY:.0%} of what a node gave, or more"
    ),
    Rule(
        "memory_unused",
        _much_memory,
        f"less than {LOW_MEMORY:.0%} of the memory used, and 1 GiB or more to give back",
    ),
    Rule("cpu_serial", _serial, f"{LOW_CPU:g} to {SERIAL_CPUS:g} CPUs used on average, of several"),
    Rule("cpu_low", _low_cpu, f"less than {LOW_CPU:.0%} of the CPU time used"),
    Rule("nodes_idle", _uneven, "some of its nodes used less than 5% of their CPU time"),
    Rule("gpu_idle", _idle_gpu, f"a card that it was given computed less than {IDLE_GPU:.0%} of the time"),
    Rule("gpu_low", _low_gpu, f"its cards computed less than {LOW_GPU:.0%} of the time"),
    Rule("time_limit", _out_of_time, "it ended at its time limit"),
    Rule(
        "time_unused",
        _much_time,
        f"it completed in less than {LOW_TIME:.0%} of its time limit, an hour or more before it",
    ),
    Rule("time_unlimited", _limit_is_unlimited, "it had no time limit"),
    Rule("io_wait", _starved_io, f"some task waited for storage {IO_STALLED:.0%} of the time or more"),
    Rule(
        "cpu_crowded",
        _crowded,
        f"{THREADS_PER_CPU:g} threads a CPU or more, which waited for CPUs {CPU_STALLED:.0%} of the time",
    ),
)
