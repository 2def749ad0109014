"""Logs of sacct that tests share: a captured one, and how constructed lines are read."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from jobfeatures.batch.slurm.sacct.records import read_records
from jobfeatures.errors import Rejected
from jobfeatures.joblogs.loggedjob import JobRecord, Notes

FIXTURES = Path(__file__).parents[4] / "fixtures" / "slurm"


COLUMNS = "JobID|JobName|State|Submit|Start|End|NCPUS|NodeList"


JOB = "7|a|COMPLETED|2026-11-21T07:00:00|2026-11-21T07:00:10|2026-11-21T07:01:10|2|n1"


def captured() -> list[str]:
    return (FIXTURES / "json" / "accounting.txt").read_text().splitlines(keepends=True)


def read(*lines: str, zone=UTC) -> list[JobRecord | Rejected]:
    return list(read_records([f"{line}\n" for line in lines], source="log", zone=zone, notes=Notes()))


def records(*lines: str, zone=UTC) -> list[JobRecord]:
    found = read(*lines, zone=zone)
    assert not [each for each in found if isinstance(each, Rejected)]
    return found


def jobs(found) -> dict[str, JobRecord]:
    return {each.job_id: each for each in found if each.step is None}


def one(header: str, line: str, **options) -> JobRecord:
    (found,) = records(header, line, **options)
    return found
