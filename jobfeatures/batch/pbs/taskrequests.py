"""Parses what ``qsub -L`` of Torque 6 requests: groups of tasks, and the resources of each task. Pure.

Source: Torque Administrator Guide 6, "-L NUMA Resource Request": ``-L tasks=2:lprocs=4:memory=8GB``. A task
has one logical processor unless ``lprocs`` says how many, or ``all``. qstat prints the same for group 0 as
``req_information.task_count.0``, ``req_information.lprocs.0`` and ``req_information.gpus.0``.
"""

from __future__ import annotations

from typing import Final

from jobfeatures.batch.basics import Texts
from jobfeatures.batch.pbs.values import parse_size
from jobfeatures.errors import ParseError
from jobfeatures.records.quantities import parse_count

FIELD: Final = "Resource_Request_2.0"
INFORMATION: Final = "req_information"


def parse_cpus(text: str) -> int | None:
    """Return how many logical processors all tasks request together; None if a group requests ``all``.

    Raises ParseError if the text is malformed.
    """
    found = [(tasks, group.get("lprocs", "1")) for tasks, group in _groups(text)]
    if any(cpus == "all" for _, cpus in found):
        return None
    return sum(tasks * parse_count(cpus) for tasks, cpus in found)


def parse_memory(text: str) -> int | None:
    """Return how much memory all tasks request together, in bytes; None if a group of tasks states none.

    Raises ParseError if the text is malformed.
    """
    found = [(tasks, group.get("memory")) for tasks, group in _groups(text)]
    if any(size is None for _, size in found):
        return None
    return sum(tasks * parse_size(size) for tasks, size in found if size is not None)


def count_asked(fields: Texts, name: str, *, each: int) -> int | None:
    """Return how much of the resource `name`, such as ``lprocs``, a job's tasks request; None if unknown.

    `fields` has the job's fields as qstat prints them. If a group of tasks states no number, each of its
    tasks counts as `each`.
    """
    total, group = 0, 0
    while fields.text(f"{INFORMATION}.task_count.{group}") is not None:
        tasks = fields.read(parse_count, f"{INFORMATION}.task_count.{group}")
        asked = f"{INFORMATION}.{name}.{group}"
        if (text := fields.text(asked)) == "all":
            return None
        per_task = each if text is None else fields.read(parse_count, asked)
        if tasks is None or per_task is None:
            return None
        total, group = total + tasks * per_task, group + 1
    return total or None


def _groups(text: str) -> list[tuple[int, dict[str, str]]]:
    groups = []
    for each in text.removeprefix("-L ").split(" -L "):
        values = dict(part.partition("=")[::2] for part in each.split(":"))
        if "tasks" not in values:
            raise ParseError("a request with -L must contain tasks=", text=text)
        groups.append((parse_count(values["tasks"]), values))
    return groups
