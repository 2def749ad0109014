"""What each kind of log tells and holds of a job, found by trying: for `reference/logs.md`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC
from pathlib import Path
from typing import Any

from jobfeatures.joblogs.loggedjob import JobRecord, Notes, Passage
from jobfeatures.logkinds import WRITABLE, KindError, read_log, recognise_kind, write_log
from jobfeatures.records.model import JobState

FIXTURES = Path(__file__).parents[1] / "tests/fixtures"
FIELDS = tuple(each.name for each in fields(JobRecord) if each.compare and each.name != "batch_system")
# A job with every field, as Slurm might report one; and what cannot stand beside each other.
FULL = JobRecord(
    batch_system="slurm", job_id="12", cluster="c", state=JobState.TIMEOUT, state_word="DEADLINE",
    name="fit",
    user="ann", uid=6001, group="hep", gid=100, account="physics", queue="q", partition="batch", qos="low",
    is_interactive=True, executable="/bin/fit", reservation="course", priority=7, submit_secs=1_800_000_000,
    eligible_secs=1_800_000_010, start_secs=1_800_000_060, end_secs=1_800_003_665, run_secs=3600,
    suspended_secs=5, restarts=1, exit_status=1, nodes=("n1", "n2"), total_nodes=2, total_cpus=8,
    total_gpus=2, requested_nodes=2, requested_cpus=8, requested_gpus=2, requested_memory_bytes=2**31,
    wall_limit_secs=3600,
    cpu_limit_secs=28800, used_cpu_secs=100, user_cpu_secs=90, system_cpu_secs=10, energy_joules=5,
    used_memory_bytes=2**20, array_job_id="10", array_task_id="2", workflow_id="w", preceding_job_id="11",
    think_secs=30,
    more=(("distribution", "block"), ("max_virtual_bytes", 2**20)),
)  # fmt: skip
BEFORE = JobRecord(batch_system="slurm", job_id="11", state=JobState.COMPLETED, submit_secs=1_800_000_000)
VARIANTS = (
    FULL,
    replace(FULL, exit_status=None, exit_signal=9),
    replace(FULL, array_job_id=None, array_task_id=None, het_job_id="12", het_offset=1),
    replace(FULL, step="0", array_job_id=None, array_task_id=None, is_interactive=None),
    replace(FULL, partition=None, is_interactive=None),
)
# Held, but by another name or less exactly: what is said in the table instead.
OTHERWISE = {
    ("swf", "used_cpu_secs"): "by processor, in microseconds",
    ("swf", "used_memory_bytes"): "by processor, in KiB",
    ("swf", "requested_memory_bytes"): "by processor, in KiB",
    ("sonar", "queue"): "as partition",
    ("sonar", "requested_memory_bytes"): "by node, in KiB",
    ("sonar", "total_nodes"): "as nodes are named",
    ("sonar", "used_memory_bytes"): "in KiB",
}
HELD, LOST = "held", "lost"


def there_and_back(records: list[JobRecord], kind: str) -> tuple[list[JobRecord], Notes]:
    """Return what is read of a log that was written of these, and what was told while it was written."""
    notes = Notes()
    lines = [f"{line}\n" for line in write_log(records, kind, notes)]
    found = read_log(lines, kind, source="log", strict=True, zone=UTC)
    return [each for each in found if isinstance(each, JobRecord)], notes


def differences(before: JobRecord, after: JobRecord, kind: str) -> Iterator[str]:
    """Yield the fields that a record had and has no more, or otherwise; but for those held otherwise."""
    for name in FIELDS:
        value: Any = getattr(before, name)
        if value not in (None, ()) and getattr(after, name) != value and (kind, name) not in OTHERWISE:
            yield name


def is_reported(name: str, record: JobRecord, notes: Notes) -> bool:
    """Return whether the loss of a field was told by its name; of `more` by the names in it."""
    if name == "more":
        return any(notes.lost[each] for each, _ in record.more)
    return any(told.partition(":")[0] == name for told in notes.lost)


def cell(kind: str, name: str) -> str:
    """Return what becomes of a field in a log that is written."""
    if (kind, name) in OTHERWISE:
        return OTHERWISE[kind, name]
    found = set()
    for record in VARIANTS:
        if getattr(record, name) in (None, ()):
            continue
        after, _ = there_and_back([BEFORE, record], kind)
        same = [each for each in after if each.job_id == record.job_id]
        if name == "step":
            found.add(HELD if same and same[0].step == record.step else LOST)
        elif record.step is None:
            found.add(LOST if name in differences(record, same[0], kind) else HELD)
    return HELD if found == {HELD} else LOST


def fixtures() -> Iterator[tuple[str, str, str]]:
    """Yield the logs among the fixtures: name, kind, text."""
    for path in sorted(FIXTURES.rglob("*")):
        if path.is_file() and "golden" not in path.parts:
            text = path.read_bytes().decode("utf-8", "replace")
            try:
                yield path.relative_to(FIXTURES).as_posix(), recognise_kind(text[:4096]), text
            except KindError:
                continue


def records_of(kind: str, text: str) -> list[JobRecord]:
    """Return the records of a log."""
    found = read_log(text.splitlines(keepends=True), kind, source="log", zone=UTC)
    return [each for each in found if isinstance(each, JobRecord) and not isinstance(each, Passage)]


def logs_page(note: str) -> str:
    """Return the page: what each kind that is written holds."""
    parts = [HEAD.format(note=note)]
    for kind in WRITABLE:
        cells = {name: cell(kind, name) for name in FIELDS}
        lost = [f"`{name}`" for name in FIELDS if cells[name] == LOST]
        other = [f"`{name}` ({OTHERWISE[kind, name]})" for name in FIELDS if (kind, name) in OTHERWISE]
        parts.append(f"- `{kind}`: {'; '.join(_counted(lost, len(FIELDS), other))}\n")
    return "".join(parts)


def _counted(lost: list[str], total: int, other: list[str]) -> Iterator[str]:
    """Yield what is lost and what is held otherwise."""
    yield f"{len(lost)} of {total} fields are lost: {', '.join(lost)}" if lost else "all fields are held"
    if other:
        yield f"held otherwise: {', '.join(other)}"


HEAD = """# What logs of jobs hold

{note}

`jobfeatures convert` converts through one record of a job. A field is held if it is read back unchanged;
names and numbers of lost ones are printed on standard error.

"""
