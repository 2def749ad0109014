"""Collector: what each step of a job uses, if the setting `jobs.steps` is on."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.records.metrics import JOB, counter, gauge
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context, job_labels

STEP = (*JOB, "step")
COMPONENTS = ("anon", "file", "shmem", "kernel", "sock", "hugetlb", "swap")

CPU = counter("batch_job_step_cpu_seconds", "CPU time of the step on this node.", (*STEP, "mode"))
MEMORY = gauge(
    "batch_job_step_memory_bytes",
    "Memory of the step by the same components as the job's.",
    (*STEP, "component"),
)
CHARGED = gauge(
    "batch_job_step_memory_charged_bytes",
    "Memory counted against the step's limit, page cache included.",
    STEP,
)
PEAK = gauge("batch_job_step_memory_peak_bytes", "Highest charged memory so far.", STEP)

METRICS = (CPU, MEMORY, CHARGED, PEAK)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about steps; none if steps are not read."""
    steps = [
        ((*job_labels(sample.key), step.step), step)
        for sample in context.shown_samples
        for step in sample.steps
    ]
    modes = [("user", "user_cpu_secs"), ("system", "system_cpu_secs")]
    cpu = [((*values, mode), getattr(step, name)) for values, step in steps for mode, name in modes]
    yield Family.known(CPU, cpu)
    parts = [((*values, name), getattr(step.memory, name)) for values, step in steps for name in COMPONENTS]
    yield Family.known(MEMORY, parts)
    for metric, name in ((CHARGED, "charged"), (PEAK, "peak")):
        yield Family.known(metric, [(values, getattr(step.memory, name)) for values, step in steps])
