"""Defines every key that is published: its name, directory, type, unit, profiles and specification.

Two texts specify keys: HSF-TN-2016-02 (Machine/Job Features, 4 February 2016) and its draft 0.99 of 15 May
2014, whose section numbers are in `section`. Key names are spelled only here, except those of $JOBSTATUS,
which jobs write themselves: `jobfeatures.status.jobstatus`.
"""

from __future__ import annotations

import enum
from functools import cache, partial
from typing import NamedTuple


class Area(enum.Enum):
    """The directory that a key's file is in."""

    MACHINE = "machinefeatures"
    JOB = "jobfeatures"


class Lifetime(enum.Enum):
    """Whether a value may change while a job runs."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class MjfProfile(enum.Enum):
    """The specification (of 2016, of 2014, or both) whose keys are published.

    Keys of the profile of 2016 have no capitals in their names.
    """

    OF_2016 = "2016"
    OF_2014 = "2014"
    BOTH = "both"


class Key(NamedTuple):
    """One key of the machine or job features. `value_type` is "integer", "decimal" or "text".

    `texts` are the years of the specifications that define it, and `section` names the section in that of
    2016 and, if any, its number in that of 2014. A key that neither defines is an extension: once enabled, it
    is published in every profile.
    """

    name: str
    value_type: str
    unit: str
    lifetime: Lifetime
    texts: tuple[str, ...]
    section: str
    meaning: str
    area: Area

    def is_in(self, profile: MjfProfile) -> bool:
        """Return whether the key is published in a profile."""
        return not self.texts or profile is MjfProfile.BOTH or profile.value in self.texts


_STATIC, _DYNAMIC = Lifetime.STATIC, Lifetime.DYNAMIC
_2016, _2014, _EITHER, _NEITHER = ("2016",), ("2014",), ("2016", "2014"), ()
_INTEGER, _DECIMAL, _TEXT = "integer", "decimal", "text"
_EPOCH = "epoch seconds"
_machine, _job = partial(Key, area=Area.MACHINE), partial(Key, area=Area.JOB)

TOTAL_CPU = _machine("total_cpu", _INTEGER, "processors", _STATIC, _2016, "", "processors for jobs")
HS06 = _machine("hs06", _DECIMAL, "HS06", _STATIC, _EITHER, "2.1", "rating of the whole machine")
SHUTDOWNTIME = _machine(
    "shutdowntime", _INTEGER, _EPOCH, _DYNAMIC, _EITHER, "2.2", "when the machine goes away"
)
GRACE_SECS = _machine(
    "grace_secs", _INTEGER, "seconds", _STATIC, _2016, "", "least notice of a shutdown of the machine"
)
JOBSLOTS = _machine("jobslots", _INTEGER, "slots", _DYNAMIC, _2014, "2.3", "job slots of the machine")
PHYS_CORES = _machine("phys_cores", _INTEGER, "cores", _STATIC, _2014, "2.4", "physical cores")
LOG_CORES = _machine("log_cores", _INTEGER, "cores", _STATIC, _2014, "2.5", "logical cores")
SHUTDOWN_COMMAND = _machine(
    "shutdown_command",
    _TEXT,
    "path",
    _STATIC,
    _2014,
    "2.6",
    "what a job calls to destroy its virtual machine",
)
HS23 = _machine("hs23", _DECIMAL, "HS23", _STATIC, _NEITHER, "", "HEPScore23 rating of the whole machine")

ALLOCATED_CPU = _job("allocated_cpu", _INTEGER, "processors", _STATIC, _2016, "", "processors of this job")
HS06_JOB = _job("hs06_job", _DECIMAL, "HS06", _STATIC, _2016, "", "rating of the job's processors")
SHUTDOWNTIME_JOB = _job(
    "shutdowntime_job", _INTEGER, _EPOCH, _DYNAMIC, _EITHER, "1.8", "when this job has to have finished"
)
GRACE_SECS_JOB = _job(
    "grace_secs_job", _INTEGER, "seconds", _STATIC, _2016, "", "least notice of a shutdown of this job"
)
JOBSTART_SECS = _job("jobstart_secs", _INTEGER, _EPOCH, _STATIC, _EITHER, "1.5", "start of the job")
JOB_ID = _job("job_id", _TEXT, "", _STATIC, _2016, "", "the batch system's id")
WALL_LIMIT_SECS = _job(
    "wall_limit_secs", _INTEGER, "seconds", _STATIC, _EITHER, "1.3.2", "elapsed time limit"
)
CPU_LIMIT_SECS = _job(
    "cpu_limit_secs", _INTEGER, "seconds", _STATIC, _EITHER, "1.2.2", "CPU time limit on this node"
)
MAX_RSS_BYTES = _job("max_rss_bytes", _INTEGER, "bytes", _STATIC, _2016, "", "resident memory limit")
MAX_SWAP_BYTES = _job("max_swap_bytes", _INTEGER, "bytes", _STATIC, _2016, "", "swap limit")
SCRATCH_LIMIT_BYTES = _job("scratch_limit_bytes", _INTEGER, "bytes", _STATIC, _2016, "", "scratch limit")
CPUFACTOR_LRMS = _job(
    "cpufactor_lrms", _DECIMAL, "", _STATIC, _2014, "1.1", "normalization factor of the batch system"
)
CPU_LIMIT_SECS_LRMS = _job(
    "cpu_limit_secs_lrms", _INTEGER, "seconds", _STATIC, _2014, "1.2.1", "CPU time limit, normalized"
)
WALL_LIMIT_SECS_LRMS = _job(
    "wall_limit_secs_lrms", _INTEGER, "seconds", _STATIC, _2014, "1.3.1", "elapsed time limit, normalized"
)
DISK_LIMIT_GB = _job(
    "disk_limit_GB", _INTEGER, "10⁹ bytes", _STATIC, _2014, "1.4", "scratch limit, rounded down"
)
MEM_LIMIT_MB = _job(
    "mem_limit_MB", _INTEGER, "10⁶ bytes", _STATIC, _2014, "1.6", "memory limit, rounded down"
)
ALLOCATED_CPU_2014 = _job(
    "allocated_CPU", _INTEGER, "cores", _STATIC, _2014, "1.7", "cores allocated to this job"
)
HS23_JOB = _job(
    "hs23_job", _DECIMAL, "HS23", _STATIC, _NEITHER, "", "HEPScore23 rating of the job's processors"
)

KEYS = tuple(each for each in vars().values() if isinstance(each, Key))  # in the order above


@cache
def names_in(area: Area, profile: MjfProfile) -> frozenset[str]:
    """Return the names of the keys that a directory may contain in a profile; `area` is the directory."""
    return frozenset(key.name for key in KEYS if key.area is area and key.is_in(profile))
