"""Collector: the processes of each job by command; commands that use most by name, the rest as "other"."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.records.metrics import JOB, counter, gauge
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context

COMMAND = (*JOB, "command")

CPU = counter(
    "batch_job_command_cpu_seconds",
    "CPU time of the job's processes by command, since the command was first shown; before, it counts as "
    "other.",
    COMMAND,
)
RESIDENT = gauge(
    "batch_job_command_resident_bytes",
    "Resident memory of the job's processes by command; shared pages count for each.",
    COMMAND,
    sums=True,
)
PROCESSES = gauge("batch_job_command_processes", "Processes of the job by command.", COMMAND, sums=True)

METRICS = (CPU, RESIDENT, PROCESSES)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about jobs' commands; without samples unless settings ask for commands."""
    snapshot = context.snapshot
    commands = [
        ((*key, each.command), each)
        for key, samples in (snapshot.commands if snapshot is not None else {}).items()
        for each in samples
    ]
    yield Family(CPU, [(values, each.cpu_secs) for values, each in commands])
    alive = [(values, each) for values, each in commands if each.processes]
    yield Family(RESIDENT, [(values, each.resident_bytes) for values, each in alive])
    yield Family(PROCESSES, [(values, each.processes) for values, each in alive])
