"""What profiles share: a `Context` with GPUs and processes by job, and conversions of figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import cached_property

from jobfeatures.records.combining import grouped
from jobfeatures.records.metrics import Metric
from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.families.exposition import Number, Values
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import (
    GpuSample,
    JobGpu,
    JobSample,
    ProcessSample,
    Snapshot,
    StepSample,
    WorkKey,
    cpu_secs_of,
)

Reading = tuple[Metric, Values, Number]
NOTHING = Snapshot(taken_at_secs=0.0, duration_secs=0.0, node=None, jobs={})


def gauge(name: str, meaning: str, label_names: tuple[str, ...]) -> Metric:
    """Return the declaration of another exporter's gauge."""
    return Metric(name, "gauge", meaning, label_names, verbatim=True)


def counter(name: str, meaning: str, label_names: tuple[str, ...]) -> Metric:
    """Return the declaration of another exporter's counter, whose name may lack ``_total``."""
    return Metric(name, "counter", meaning, label_names, verbatim=True)


class ContextView:
    """A node's `Context` as profiles need it: GPUs and processes are grouped by job on first use."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.snapshot = context.snapshot or NOTHING

    @cached_property
    def cards(self) -> dict[str, GpuSample]:
        """Return the state of each GPU card, by UUID."""
        return {sample.card.uuid: sample for sample in self.snapshot.gpus}

    def cards_of(self, key: WorkKey) -> list[GpuSample]:
        """Return the GPU cards that are allocated to a job or used by it."""
        return [self.cards[each.uuid] for each in self.gpus_of.get(key, ()) if each.uuid in self.cards]

    @cached_property
    def gpus_of(self) -> dict[WorkKey, list[JobGpu]]:
        """Return each job's use of each GPU card that is allocated to it or used by it."""
        return grouped((each.key, each) for each in self.context.shown_job_gpus)

    @cached_property
    def processes_of(self) -> dict[WorkKey, list[ProcessSample]]:
        """Return the processes of each job, unit or process group."""
        owned = ((self.snapshot.key_of(pid), process) for pid, process in self.snapshot.processes.items())
        return grouped((key, process) for key, process in owned if key is not None)

    def job(self, key: WorkKey) -> Job | None:
        """Return what the batch system has reported about a job; None: nothing, or it is not a batch job."""
        return self.context.shown_jobs.get(key) if isinstance(key, JobKey) else None

    def thread_states(self, processes: Collection[ProcessSample]) -> Counter[str]:
        """Return how many threads of these processes are in each state, by the state's letter.

        Empty if the states of any process are unknown.
        """
        states: Counter[str] = Counter()
        for each in processes:
            known = self.snapshot.thread_states.get(each.pid)
            if known is None:
                return Counter()
            states.update(known)
        return states

    def allocated_memory_bytes(self, key: WorkKey) -> int | None:
        """Return the bytes of memory that a job is allocated on this node; None if unknown or unlimited."""
        job = self.job(key)
        given = None if job is None else job.limits.memory_bytes
        return given if isinstance(given, int) else None

    def uid(self, sample: JobSample) -> int | None:
        """Return the uid of the job's user; None if unknown."""
        job = self.job(sample.key)
        return job.uid if job is not None and job.uid is not None else sample.uid

    def user(self, sample: JobSample) -> str:
        """Return the name of the job's user; "" if the batch system has not reported it."""
        job = self.job(sample.key)
        return "" if job is None or job.user is None else job.user

    def card_number(self, sample: GpuSample) -> tuple[int | None, int | None]:
        """Return a card's (index, minor number), None if unknown; for a MIG instance those of its card."""
        card = sample.card
        if card.parent_uuid is not None and card.parent_uuid in self.cards:
            card = self.cards[card.parent_uuid].card
        return card.index, card.minor


def job_id_of(sample: JobSample) -> str | None:
    """Return a batch job's id; None for anything else."""
    return sample.key.job_id if isinstance(sample.key, JobKey) else None


def memory_failures(sample: JobSample) -> int | None:
    """Return what other exporters call memory failures: on v1 failcnt, on v2 the count of ``oom`` events.

    These differ, so figures of v1 and v2 cannot be compared. None if unknown.
    """
    return sample.memory_limit_hits if sample.cgroup_version == 1 else sample.memory_ooms


def is_unlimited(memory: MemoryBytes) -> bool:
    """Return whether a job has a control group that counts its memory and does not limit it."""
    return memory.limit is None and memory.charged is not None


def page_cache(memory: MemoryBytes) -> int | None:
    """Return the bytes of page cache as the kernel counts it for a group, shmem included; None if unknown."""
    return None if memory.file is None or memory.shmem is None else memory.file + memory.shmem


def swap_used(sample: JobSample) -> int | None:
    """Return the bytes that count against a group's swap limit; None if unknown.

    On v1 these are memory and swap together, on v2 swap alone.
    """
    memory = sample.memory
    if sample.cgroup_version == 2 or memory.swap is None:
        return memory.swap
    return None if memory.charged is None else memory.charged + memory.swap


def number_text(value: int | None) -> str:
    """Return a number as text for a label value; "" if it is None."""
    return "" if value is None else str(value)


def cpu_readings(
    user: Metric, system: Metric, total: Metric | None, values: Values, sample: JobSample | StepSample
) -> list[Reading]:
    """Return readings of a job's or step's CPU seconds under the given metrics, as far as they are known.

    `user` and `system` are the metrics of the two modes, `total` that of their sum, or None.
    """
    found = known(values, (user, sample.user_cpu_secs), (system, sample.system_cpu_secs))
    return found if total is None else [*found, *known(values, (total, cpu_secs_of(sample)))]


def known(values: Values, *found: tuple[Metric, Number | None]) -> list[Reading]:
    """Return a reading of each metric in `found` whose value is not None, all with label values `values`."""
    return [(metric, values, value) for metric, value in found if value is not None]
