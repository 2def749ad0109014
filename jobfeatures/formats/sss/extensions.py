"""The fields that we write in Extension elements, the format's means for data without an element: one table.

An Extension of our type is named after the record's field:
``<Extension name="uid" type="jobfeatures">6001</Extension>``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jobfeatures.formats.sss.vocabulary import Type
from jobfeatures.records.model import JobState

TYPE: Final = "jobfeatures"
FIELDS: Final[Mapping[str, Type]] = {
    "uid": Type.COUNT,
    "gid": Type.COUNT,
    "exit_signal": Type.INTEGER,
    "allocated_cpus": Type.COUNT,
    "allocated_gpus": Type.COUNT,
    "gpus": Type.LIST,
    "array_job_id": Type.STRING,
    "array_task_id": Type.STRING,
    "het_job_id": Type.STRING,
    "workflow_id": Type.STRING,
    "het_offset": Type.COUNT,
    "sluid": Type.STRING,
    "tasks": Type.COUNT,
    "think_secs": Type.COUNT,
    "run_secs": Type.COUNT,
    "user_cpu_secs": Type.COUNT,
    "system_cpu_secs": Type.COUNT,
    "energy_joules": Type.COUNT,
    "cluster": Type.STRING,
    "state_word": Type.STRING,
    "state": Type.STRING,  # more precise than State
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
    """Return the State value for a state, None for an unknown one."""
    return "Completed" if state.is_finished else _WORDS.get(state)


def exact_state(word: str | None, said: str | None) -> JobState | None:
    """Return the more precise state given by an extension, None if it contradicts State."""
    state = JobState.__members__.get(said or "")
    return state if state is not None and state_word(state) == word else None
