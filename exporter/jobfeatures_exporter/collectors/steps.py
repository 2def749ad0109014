"""What each step of a job uses, where `jobs.steps` asks for it."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures_exporter.context import JOB, Context, job_labels
from jobfeatures_exporter.exposition import Family, Metric, Sample, labels
from jobfeatures_exporter.snapshot import StepSample

STEP = (*JOB, "step")
COMPONENTS = ("anon", "file", "shmem", "kernel", "swap")

CPU = Metric(
    "batch_job_step_cpu_seconds",
    "counter",
    "CPU time of the step on this node; never falls.",
    (*STEP, "mode"),
    "seconds",
)
MEMORY = Metric(
    "batch_job_step_memory_bytes",
    "gauge",
    "Memory of the step by component: anon, file (page cache without shmem), shmem, kernel, swap.",
    (*STEP, "component"),
    "bytes",
)
CHARGED = Metric(
    "batch_job_step_memory_charged_bytes",
    "gauge",
    "Memory that the kernel counts against the step's limit.",
    STEP,
    "bytes",
)
PEAK = Metric("batch_job_step_memory_peak_bytes", "gauge", "Highest charged memory so far.", STEP, "bytes")

METRICS = (CPU, MEMORY, CHARGED, PEAK)


def families(context: Context) -> Iterator[Family]:
    """Yield the families of the steps; nothing where they are not read."""
    steps = [
        (f"{job_labels(sample.key)},{labels(step=step.step)}", step)
        for sample in context.shown_samples()
        for step in sample.steps
    ]
    yield Family(CPU, [each for text, step in steps for each in _cpu(text, step)])
    yield Family(MEMORY, [each for text, step in steps for each in _memory(text, step)])
    for metric, name in ((CHARGED, "charged"), (PEAK, "peak")):
        values = ((text, getattr(step.memory, name)) for text, step in steps)
        yield Family(metric, [(text, value) for text, value in values if value is not None])


def _cpu(text: str, step: StepSample) -> Iterator[Sample]:
    for mode, secs in (("user", step.user_cpu_secs), ("system", step.system_cpu_secs)):
        if secs is not None:
            yield f'{text},mode="{mode}"', secs


def _memory(text: str, step: StepSample) -> Iterator[Sample]:
    for component in COMPONENTS:
        value = getattr(step.memory, component)
        if value is not None:
            yield f'{text},component="{component}"', value
