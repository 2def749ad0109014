"""Finds hints on a node's jobs: advice by the rules of `judge`, warnings about time and memory. No I/O."""

from __future__ import annotations

from typing import NamedTuple

from jobfeatures.records.model import JobState
from jobfeatures_exporter.view.job import JobView
from jobfeatures_exporter.view.judge import RULES, WAITS, Advice, judge
from jobfeatures_exporter.view.thresholds import MEMORY_FULL
from jobfeatures_exporter.view.units import format_bytes, format_share, format_when
from jobfeatures_exporter.view.use import GpuUse, JobUse, NodeUse, Place, multiply

# The words of those rules that say something is wrong now; the others are for the next job, see `report`.
BADGES = {
    "memory_wait": "waits for memory",
    "cpu_idle": "CPUs idle",
    "pilot_idle": "few payloads",
    "io_wait": "waits for storage",
    "gpu_idle": "GPU idle",
}
_JUDGED = [rule for rule in RULES if rule.name in BADGES.keys() | WAITS]  # waits explain little use


class Hint(NamedTuple):
    """One hint on a job: its text on a badge (`words`), and why it is given (`reason`).

    `kind` is the style of the badge: warn, bad or "".
    """

    kind: str
    words: str
    reason: str


def find_hints(job: JobView) -> list[Hint]:
    """Return the hints on a job as it is now."""
    if not job.is_running:
        remains = Hint("bad", "processes remain", "it has ended, but some of its processes are still here")
        return [remains] if job.processes_remain else []
    found = [Hint("warn", BADGES[each.name], each.text) for each in judge_now(job) if each.name in BADGES]
    if job.is_near_its_memory:
        used, limit = format_bytes(job.memory or 0), format_bytes(job.memory_limit or 0)
        sentence = f"it uses {used} of {limit}, {format_share(MEMORY_FULL)} or more"
        found.append(
            Hint("bad", "memory near its limit", f"{sentence}: beyond the limit the kernel kills it")
        )
    left = job.enforced_secs or 0.0
    if job.is_late:
        sentence = f"a limit or shutdown should have ended it {format_when(left)}"
        found.append(Hint("bad", "past its end", sentence))
    elif job.ends_soon:
        found.append(Hint("warn", "ends soon", f"a limit or shutdown ends it {format_when(left)}"))
    if job.is_overdue:
        sentence = "a payload should have ended by what the job itself reported: the waste is a lower bound"
        found.append(Hint("", "payload overdue", sentence))
    return found


def judge_now(job: JobView) -> list[Advice]:
    """Return the advice that follows both from what a job has used since its start and from what it uses now.

    There is none while the job is suspended.
    """
    if job.elapsed_secs is None or job.identity.state == JobState.SUSPENDED.value:
        return []
    secs, cards = job.elapsed_secs, job.gpus
    found = judge(_use(job, secs, job.cpus_mean, [card.busy_secs for card in cards]), _JUDGED)
    as_now = _use(job, secs, job.cpus_used, [multiply(card.busy_share, secs) for card in cards])
    now = {each.name for each in judge(as_now, _JUDGED)} if found else ()
    return [each for each in found if each.name in now]


def _use(job: JobView, secs: float, cpus: float | None, busy_secs: list[float | None]) -> JobUse:
    """Return a job's use of this node in `secs`, with `cpus` busy on average and its GPUs for `busy_secs`."""
    cards = [
        GpuUse(uuid=card.uuid, is_allocated=card.is_allocated, busy_secs=busy)
        for card, busy in zip(job.gpus, busy_secs, strict=True)
    ]
    node = NodeUse(
        place=Place(""),
        elapsed_secs=secs,
        allocated_cpus=job.allocated_cpus,
        cpu_secs=multiply(cpus, secs),
        allocated_gpus=job.given_gpus,
        gpus=tuple(cards),
        stalled_secs=job.stalled_secs,
        all_stalled_secs=job.all_stalled_secs,
        claimed_cpus=job.claimed_cpus,
    )
    return JobUse(batch_system="", job_id="", start_secs=0.0, seen_until_secs=secs, nodes=(node,))
