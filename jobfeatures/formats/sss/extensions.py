"""Maps fields of job records to SSS elements; fields without an element are stored in Extensions.

An Extension is the format's means for data without an element. Those written here have the type "jobfeatures"
and are named after the field: ``<Extension name="uid" type="jobfeatures">6001</Extension>``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jobfeatures.formats.sss.vocabulary import Type
from jobfeatures.records.model import JobState

TYPE: Final = "jobfeatures"
# Fields of a log's record, in the order in which they are written.
TEXT_ELEMENTS: Final[Mapping[str, str]] = {
    "name": "Name",
    "account": "Project",
    "user": "User",
    "group": "Group",
    "queue": "Queue",
    "partition": "Partition",
    "executable": "Executable",
    "reservation": "Reservation",
    "batch_system": "ResourceManagerType",
    "qos": "QualityOfService",
}
NUMBER_ELEMENTS: Final[Mapping[str, str]] = {
    "submit_secs": "SubmitTime",
    "eligible_secs": "EligibleTime",
    "start_secs": "StartTime",
    "end_secs": "EndTime",
    "suspended_secs": "SuspendDuration",
    "used_cpu_secs": "CpuDuration",
    "priority": "Priority",
    "exit_status": "ExitCode",
}
NUMBERS: Final = (
    *("uid", "gid", "exit_signal", "het_offset", "think_secs"),
    *("run_secs", "user_cpu_secs", "system_cpu_secs", "energy_joules"),
)
TEXTS: Final = ("array_job_id", "array_task_id", "het_job_id", "workflow_id", "cluster", "state_word")
# All Extensions of our type.
FIELDS: Final[Mapping[str, Type]] = {
    **dict.fromkeys((*NUMBERS, "allocated_cpus", "allocated_gpus", "tasks"), Type.COUNT),
    **dict.fromkeys((*TEXTS, "sluid", "state"), Type.STRING),  # state: more precise than State
    "exit_signal": Type.INTEGER,
    "gpus": Type.LIST,
}

# Section 5.1 for jobs, section 4.1 for job groups, whose states are accepted for jobs too.
STATES: Final[Mapping[str, JobState]] = {
    "Idle": JobState.PENDING,
    "Hold": JobState.PENDING,
    "Running": JobState.RUNNING,
    "Suspended": JobState.SUSPENDED,
    "Completed": JobState.COMPLETED,
    "NotQueued": JobState.PENDING,
    "Unstarted": JobState.PENDING,
    "Active": JobState.RUNNING,
}
_WORDS: Final = {
    JobState.PENDING: "Idle",
    JobState.RUNNING: "Running",
    JobState.SUSPENDED: "Suspended",
    JobState.COMPLETING: "Running",  # it still occupies its node
}


def state_word(state: JobState) -> str | None:
    """Return the value of the element State for a job state; None for an unknown state."""
    return "Completed" if state.is_finished else _WORDS.get(state)


def exact_state(word: str | None, extension: str | None) -> JobState | None:
    """Return the state that an extension names, if it makes the element State (`word`) more precise.

    Returns None if the extension is absent or unknown, or contradicts State.
    """
    state = JobState.__members__.get(extension or "")
    return state if state is not None and state_word(state) == word else None
