"""Profile: names of Jobstats' plazonic/cgroup_exporter and plazonic/nvidia_gpu_prometheus_exporter.

Source: cgroup_exporter.go of the former, main.go of the latter. All are gauges, even CPU seconds. Empty
`step` and `task` mean the whole job. Power is in milliwatts. A card that several jobs use has a series for
each.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures_exporter.families.exposition import Values
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import GpuSample, JobSample, StepSample
from jobfeatures_exporter.scrape.profiles.common import (
    ContextView,
    Reading,
    cpu_readings,
    gauge,
    is_unlimited,
    job_id_of,
    known,
    memory_failures,
    number_text,
    page_cache,
)

NO_LIMIT = -1  # as the original writes it
STEP = ("jobid", "step", "task")
GPU = ("ordinal", "minor_number", "uuid", "name", "GPU_I_ID", "jobid", "userid")

UID = gauge("cgroup_uid", "Whose job it is.", ("jobid",))
USER = gauge("cgroup_cpu_user_seconds", "User CPU time of the job or step.", STEP)
SYSTEM = gauge("cgroup_cpu_system_seconds", "System CPU time of the job or step.", STEP)
TOTAL = gauge("cgroup_cpu_total_seconds", "CPU time of the job or step.", STEP)
CPUS = gauge("cgroup_cpus", "CPUs that the job may use.", STEP)
RSS = gauge("cgroup_memory_rss_bytes", "Anonymous memory.", STEP)
CACHE = gauge("cgroup_memory_cache_bytes", "Page cache, shmem included.", STEP)
SHMEM = gauge("cgroup_memory_shmem_bytes", "tmpfs and shared memory, which Jobstats adds to anonymous.", STEP)
USED = gauge("cgroup_memory_used_bytes", "Memory held against the limit.", STEP)
LIMIT = gauge("cgroup_memory_total_bytes", "Memory limit; without one, the allocated memory, or -1.", STEP)
FAILURES = gauge("cgroup_memory_fail_count", "Hits of the limit; on v2, times without memory.", STEP)
SWAP = gauge("cgroup_memsw_used_bytes", "Memory and swap.", STEP)

DEVICES = gauge("nvidia_gpu_num_devices", "Cards.", ())
DUTY = gauge("nvidia_gpu_duty_cycle", "Utilisation in percent.", GPU)
MEMORY_USED = gauge("nvidia_gpu_memory_used_bytes", "Memory of the card in use.", GPU)
MEMORY_TOTAL = gauge("nvidia_gpu_memory_total_bytes", "Memory of the card.", GPU)
POWER = gauge("nvidia_gpu_power_usage_milliwatts", "Power.", GPU)
TEMPERATURE = gauge("nvidia_gpu_temperature_celsius", "Temperature.", GPU)
FAN = gauge("nvidia_gpu_fanspeed_percent", "Fan speed.", GPU)
JOB_ID = gauge("nvidia_gpu_jobId", "The job on the card; only ids that are numbers.", GPU)
JOB_UID = gauge("nvidia_gpu_jobUid", "Whose job is on the card.", GPU)

METRICS = (
    UID, USER, SYSTEM, TOTAL, CPUS, RSS, CACHE, SHMEM, USED, LIMIT, FAILURES, SWAP,
    DEVICES, DUTY, MEMORY_USED, MEMORY_TOTAL, POWER, TEMPERATURE, FAN, JOB_ID, JOB_UID,
)  # fmt: skip


def of_job(view: ContextView, sample: JobSample) -> Iterator[Reading]:
    """Yield the readings of one job's control group, and of the cards that it is allocated or uses."""
    job_id = job_id_of(sample)
    if job_id is None:
        return
    uid = view.uid(sample)
    if sample.cgroup is not None:
        yield from known((job_id,), (UID, uid))
        # The jobstats command cannot do without a figure.
        given = view.allocated_memory_bytes(sample.key)
        limit = (NO_LIMIT if given is None else given) if is_unlimited(sample.memory) else sample.memory.limit
        yield from _of_group(job_id, "", sample, limit)
        values: Values = (job_id, "", "")
        yield from known(values, (CPUS, sample.cpus), (FAILURES, memory_failures(sample)))
        for step in sample.steps:
            yield from _of_group(job_id, step.step, step, limit)
            values = (job_id, step.step, "")
            yield from known(values, (CPUS, sample.cpus))  # a step without a cpuset has the job's
    for card in view.cards_of(sample.key):
        values = _card_labels(view, card, job_id, number_text(uid))
        yield from _of_card(view, card, values)
        yield from known(values, (JOB_ID, int(job_id) if job_id.isdecimal() else None), (JOB_UID, uid))


def of_node(view: ContextView) -> Iterator[Reading]:
    """Yield the number of GPU cards, and the readings of cards without a job."""
    if not view.cards:
        return
    whole = [each for each in view.cards.values() if each.card.parent_uuid is None]
    yield DEVICES, (), len(whole)
    jobs = [each.key for each in view.context.shown_samples if job_id_of(each) is not None]
    taken = {card.card.uuid for key in jobs for card in view.cards_of(key)}
    for uuid, card in view.cards.items():
        if uuid not in taken:
            yield from _of_card(view, card, _card_labels(view, card, "", ""))


def _of_group(
    job_id: str, step: str, sample: JobSample | StepSample, job_limit: int | None
) -> Iterator[Reading]:
    values = (job_id, step, "")
    memory: MemoryBytes = sample.memory
    yield from cpu_readings(USER, SYSTEM, TOTAL, values, sample)
    with_swap = None if memory.charged is None or memory.swap is None else memory.charged + memory.swap
    yield from known(
        values,
        (RSS, memory.anon),
        (CACHE, page_cache(memory)),
        (SHMEM, memory.shmem),
        (USED, memory.charged),
        (LIMIT, job_limit if is_unlimited(memory) else memory.limit),
        (SWAP, with_swap),
    )


def _card_labels(view: ContextView, sample: GpuSample, job_id: str, uid: str) -> Values:
    index, minor = view.card_number(sample)
    card = sample.card
    instance = number_text(card.instance_id)
    return number_text(index), number_text(minor), card.uuid, card.model, instance, job_id, uid


def _of_card(view: ContextView, sample: GpuSample, values: Values) -> list[Reading]:
    """Return the readings of a card; a MIG instance has its card's power, temperature and fan speed."""
    whole = view.cards.get(sample.card.parent_uuid or "", sample)
    watts = whole.power_watts
    return known(
        values,
        (DUTY, sample.ce_util_percent),
        (MEMORY_USED, sample.memory_used_bytes),
        (MEMORY_TOTAL, sample.card.memory_bytes),
        (POWER, None if watts is None else watts * 1000),
        (TEMPERATURE, whole.temperature_celsius),
        (FAN, whole.fan_percent),
    )
