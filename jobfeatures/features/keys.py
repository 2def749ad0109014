"""Every key that is published: its name, area, type, unit, and the text that defines it.

The names are those of HSF-TN-2016-02 (Machine/Job Features, 4 February 2016),
sections "$MACHINEFEATURES" and "$JOBFEATURES". They are spelled here only.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Area(enum.Enum):
    """Which of the directories a key stands in."""

    MACHINE = "machinefeatures"
    JOB = "jobfeatures"


class Lifetime(enum.Enum):
    """Whether a value may change while a job runs."""

    STATIC = "static"
    DYNAMIC = "dynamic"


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `value_type` is "integer", "decimal" or "text"."""

    name: str
    area: Area
    value_type: str
    unit: str
    lifetime: Lifetime
    meaning: str


TOTAL_CPU = Key("total_cpu", Area.MACHINE, "integer", "processors", Lifetime.STATIC, "processors for jobs")
HS06 = Key("hs06", Area.MACHINE, "decimal", "HS06", Lifetime.STATIC, "rating of the whole machine")

ALLOCATED_CPU = Key(
    "allocated_cpu", Area.JOB, "integer", "processors", Lifetime.STATIC, "processors of this job"
)
HS06_JOB = Key("hs06_job", Area.JOB, "decimal", "HS06", Lifetime.STATIC, "rating of the job's processors")
JOBSTART_SECS = Key(
    "jobstart_secs", Area.JOB, "integer", "epoch seconds", Lifetime.STATIC, "start of the job"
)
JOB_ID = Key("job_id", Area.JOB, "text", "", Lifetime.STATIC, "the batch system's id")
WALL_LIMIT_SECS = Key(
    "wall_limit_secs", Area.JOB, "integer", "seconds", Lifetime.STATIC, "elapsed time limit"
)
CPU_LIMIT_SECS = Key(
    "cpu_limit_secs", Area.JOB, "integer", "seconds", Lifetime.STATIC, "CPU time limit, in total"
)
MAX_RSS_BYTES = Key("max_rss_bytes", Area.JOB, "integer", "bytes", Lifetime.STATIC, "resident memory limit")
MAX_SWAP_BYTES = Key("max_swap_bytes", Area.JOB, "integer", "bytes", Lifetime.STATIC, "swap limit")
SCRATCH_LIMIT_BYTES = Key(
    "scratch_limit_bytes", Area.JOB, "integer", "bytes", Lifetime.STATIC, "scratch limit"
)

KEYS = (
    TOTAL_CPU,
    HS06,
    ALLOCATED_CPU,
    HS06_JOB,
    JOBSTART_SECS,
    JOB_ID,
    WALL_LIMIT_SECS,
    CPU_LIMIT_SECS,
    MAX_RSS_BYTES,
    MAX_SWAP_BYTES,
    SCRATCH_LIMIT_BYTES,
)
