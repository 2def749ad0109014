"""What task groups and their defaults say of a job. What the specification says stands beside each test."""

from __future__ import annotations

import pytest

from jobfeatures.features.job import job_features
from jobfeatures.features.machine import Machine
from jobfeatures.formats.sss.records import read_records
from jobfeatures.joblogs.loggedjob import Notes
from jobfeatures.records.model import Job, JobState
from tests.jobfeatures.formats.sss.documents import parse_jobs

MIB = 2**20
RUNNING = "<State>Running</State>"


def spool_job(content: str) -> Job:
    jobs, notes = parse_jobs(f"<Job><Id>1</Id>{content}</Job>".encode(), source="s")
    assert not notes
    return jobs[0]


def group(content: str) -> str:
    return f"<TaskGroup>{content}</TaskGroup>"


# "Tasks may be grouped into task groups, which are logical aggregations of tasks and their common
# properties … they also describe the number of such tasks": section 3.0.
EIGHT = group("<TaskCount>4</TaskCount><Processors>2</Processors><Memory>100</Memory>")
DEFAULTS = "<TaskGroupDefaults><TaskCount>4</TaskCount><Processors>2</Processors><Memory>100</Memory></TaskGroupDefaults>"


@pytest.mark.parametrize("groups", [EIGHT * 2, DEFAULTS + group("<Name>a</Name>") + group("<Name>b</Name>")])
def test_processors_and_memory_are_summed_over_task_groups_and_their_defaults(groups):
    job = spool_job(RUNNING + groups)
    assert (job.total_cpus, job.allocated_cpus, job.limits.memory_bytes) == (16, 16, 800 * MIB)
    assert job_features(job, Machine())["allocated_cpu"] == "16"
    assert job_features(job, Machine())["max_rss_bytes"] == str(800 * MIB)
    [record] = read_records([f"<Job><Id>1</Id>{RUNNING}{groups}</Job>"], source="f", notes=Notes())
    assert (record.total_cpus, record.requested_memory_bytes) == (16, 800 * MIB)


# "A job that does not specify an explicit task group is considered as having a single implicit task group";
# "a set of task group properties to be assumed by all task groups within the job".
def test_defaults_alone_are_those_of_the_one_implicit_group():
    assert spool_job(RUNNING + DEFAULTS).allocated_cpus == 8


@pytest.mark.parametrize(
    ("content", "cpus"),
    [
        # "unless overridden within a task group"; "Delivered … the actual amounts"
        (DEFAULTS + group("<Processors>1</Processors>"), 4),
        ("<Processors>3</Processors>" + EIGHT, 3),
        ("<Delivered><Processors>3</Processors></Delivered>" + EIGHT, 3),
        (group("<TaskCount>2</TaskCount><Delivered><Processors>5</Processors></Delivered>"), 10),
        # "a job that requests 3 nodes and 4 processors will have 4 tasks"
        (group("<TaskCount>5</TaskCount>"), 5),
        (group("<TaskCount>0</TaskCount>"), 0),
        (
            group('<TaskCount>5</TaskCount><TaskDistribution type="ProcessorsPerTask">2</TaskDistribution>'),
            10,
        ),
        (group('<TaskCount>5</TaskCount><TaskDistribution type="TasksPerNode">2</TaskDistribution>'), 5),
        # "Tasks … can … specify different consumable resources"
        (group("<Task><Processors>2</Processors></Task><Task><Processors>3</Processors></Task>"), 5),
        (group("<TaskCount>3</TaskCount><TaskDefaults><Processors>2</Processors></TaskDefaults>"), 6),
        # a sum is unknown where a part of it is
        (EIGHT + group("<Task><Process>77</Process></Task>"), None),
        (EIGHT + group("g1"), None),
        (group("<Name>a</Name>"), None),
    ],
)
def test_what_counts_where_groups_and_the_job_speak(content, cpus):
    assert spool_job(RUNNING + content).total_cpus == cpus


# The second job of the elaborate example (section 1.3): its groups close one that is not open.
def test_the_second_job_of_the_elaborate_example_asks_for_at_least_thirteen_processors():
    content = (
        "<State>Idle</State>"
        + group("<TaskCount>1</TaskCount><Name>Master</Name><Memory>2048</Memory>")
        + group(
            "<Name>Slave</Name><NodeCount>4</NodeCount><Requested>"
            '<Processors group="-1">12</Processors><Processors conj="Or" group="1">16</Processors>'
            "<Memory>512</Memory></Requested>"
        )
    )
    job = spool_job(content)
    assert (job.state, job.total_cpus, job.limits.memory_bytes) == (JobState.PENDING, 13, 2560 * MIB)
    assert job.allocated_cpus is None, "12 or 16 is nothing that was allocated"
    [record] = read_records([f"<Job><Id>1</Id>{content}</Job>"], source="f", notes=Notes())
    assert (record.requested_cpus, record.total_cpus) == (13, None)


@pytest.mark.parametrize(
    ("requests", "least"),
    [
        ('<Processors>4</Processors><Processors conj="Or">2</Processors>', 2),
        ('<Processors preference="2">4</Processors><Processors preference="1">8</Processors>', 4),
        ('<Processors preference="-2">4</Processors><Processors preference="-1">8</Processors>', None),
        ('<Processors>4</Processors><Processors conj="Nor">2</Processors>', None),
        ('<Processors op="LE">4</Processors><Processors conj="Or">2</Processors>', None),
        ('<Queue>a</Queue><Processors>4</Processors><Processors conj="Or">2</Processors><Node conj="Or">n</Node>', None),
    ],
)  # fmt: skip
def test_of_alternatives_the_least_is_asked_for_at_least(requests, least):
    [record] = read_records(
        [f"<Job><Id>1</Id><Requested>{requests}</Requested></Job>"], source="f", notes=Notes()
    )
    assert record.requested_cpus == least


def test_a_sum_that_is_too_large_is_refused():
    jobs, notes = parse_jobs(
        f"<Job><Id>1</Id>{group(f'<TaskCount>{2**62}</TaskCount><Processors>4</Processors>')}</Job>".encode(),
        source="s",
    )
    assert jobs == []
    assert "the sum over all task groups is too large" in notes[0].reason


# "Date and time that a job must end by": DeadlineTime, table 2.
def test_a_job_of_a_spool_folder_has_its_deadline():
    assert spool_job(f"{RUNNING}<DeadlineTime>1700009999</DeadlineTime>").deadline_secs == 1700009999
