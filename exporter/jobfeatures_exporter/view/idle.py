"""What a job holds without using it now: CPUs and memory, and how much of the node that is. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.model import JobState
from jobfeatures_exporter.exposition import Number
from jobfeatures_exporter.view.job import JobView
from jobfeatures_exporter.view.node import NodeView
from jobfeatures_exporter.view.units import format_bytes, format_figure


@dataclass(frozen=True, slots=True)
class Idle:
    """What nobody else can use because a job holds it; None is not known."""

    cpus: float | None = None
    memory_bytes: Number | None = None
    share: float | None = None  # of the node: the larger of the shares of its cores and of its memory

    @property
    def words(self) -> str:
        """Return what is idle as words: 3.9 CPUs idle, 14 GiB unused; empty where nothing is."""
        found = []
        if self.cpus is not None and self.cpus >= 0.005:  # else it would be called 0
            found.append(f"{format_figure(self.cpus)} CPUs idle")
        if self.memory_bytes:
            found.append(f"{format_bytes(self.memory_bytes)} unused")
        return ", ".join(found)


def find_idle(job: JobView, node: NodeView) -> Idle:
    """Return what a job holds without using it; nothing is known of jobs that are suspended or have ended."""
    if not job.is_running or job.identity.state == JobState.SUSPENDED.value:
        return Idle()
    cpus = None
    if job.allocated_cpus is not None and job.cpus_used is not None:
        cpus = max(0.0, job.allocated_cpus - job.cpus_used)
    memory = None
    if job.memory_limit is not None and job.memory is not None:
        limit = job.memory_limit if node.memory_bytes is None else min(job.memory_limit, node.memory_bytes)
        memory = max(0, limit - job.memory)
    shares = [
        part / whole
        for part, whole in ((cpus, node.cores), (memory, node.memory_bytes))
        if part is not None and whole
    ]
    return Idle(cpus, memory, max(shares, default=None))


def find_most_wasteful(node: NodeView) -> tuple[JobView, Idle] | None:
    """Return the job that holds the largest part of the node without using it; None: none is known to."""
    found = ((each, find_idle(each, node)) for each in node.jobs)
    return max((each for each in found if each[1].share), key=lambda each: each[1].share or 0.0, default=None)
