"""The processes of each job by command, on request: those that use most by name, the rest as "other"."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures_exporter.context import JOB, Context, job_labels_with
from jobfeatures_exporter.exposition import Family, Metric

COMMAND = (*JOB, "command")

CPU = Metric(
    "batch_job_command_cpu_seconds",
    "counter",
    "CPU time of processes of the job by command, since the command was first told by name; before and else "
    "it counts as other.",
    COMMAND,
    "seconds",
)
RESIDENT = Metric(
    "batch_job_command_resident_bytes",
    "gauge",
    "Resident memory of processes of the job by command; pages that they share count for each.",
    COMMAND,
    "bytes",
    sums=True,
)
PROCESSES = Metric(
    "batch_job_command_processes", "gauge", "Processes of the job by command.", COMMAND, sums=True
)

METRICS = (CPU, RESIDENT, PROCESSES)


def families(context: Context) -> Iterator[Family]:
    """Yield the families of the commands; nothing where they are not rolled up."""
    snapshot = context.snapshot
    commands = [
        (job_labels_with(key, "command", each.command), each)
        for key, samples in (snapshot.commands if snapshot is not None else {}).items()
        for each in samples
    ]
    yield Family(CPU, [(text, each.cpu_secs) for text, each in commands])
    alive = [(text, each) for text, each in commands if each.processes]
    yield Family(RESIDENT, [(text, each.resident_bytes) for text, each in alive])
    yield Family(PROCESSES, [(text, each.processes) for text, each in alive])
