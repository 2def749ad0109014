"""Jobs to documents, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.job import parse_jobs
from jobfeatures.formats.sss.write import format_job
from jobfeatures.model import UNLIMITED, Job, JobKey, JobState, Limits

PRINTABLE = st.characters(exclude_categories=["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"])
WORD = st.text(PRINTABLE, min_size=1, max_size=20)
TEXT = st.lists(WORD, min_size=1, max_size=3).map(" ".join)
NUMBER = st.one_of(st.integers(0, 100), st.integers(0, 2**63 - 1))
PROCESSES = st.frozensets(st.integers(2, 2**22), max_size=4)


@st.composite
def jobs(draw):
    """Draw jobs of which a document can say everything."""
    state = draw(
        st.sampled_from(
            [JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETED, JobState.UNKNOWN]
        )
    )
    nodes = tuple(draw(st.lists(WORD.filter(lambda name: "," not in name), unique=True, max_size=3)))
    cpus = draw(st.none() | NUMBER)
    return Job(
        key=JobKey("spool", draw(WORD)),
        state=state,
        name=draw(st.none() | TEXT),
        user=draw(st.none() | TEXT),
        account=draw(st.none() | TEXT),
        partition=draw(st.none() | TEXT),
        submit_secs=draw(st.none() | NUMBER),
        start_secs=draw(st.none() | NUMBER),
        end_secs=draw(st.none() | NUMBER) if state is JobState.COMPLETED else None,
        nodes=nodes,
        total_cpus=cpus,
        allocated_cpus=cpus if len(nodes) <= 1 else None,
        limits=Limits(
            wall_secs=draw(st.none() | NUMBER),
            cpu_secs=draw(st.none() | NUMBER | st.just(UNLIMITED)),
            memory_bytes=draw(st.none() | NUMBER | st.just(UNLIMITED)),
            swap_bytes=draw(st.none() | NUMBER),
            scratch_bytes=draw(st.none() | NUMBER | st.just(UNLIMITED)),
        ),
        processes=draw(PROCESSES),
        sessions=draw(PROCESSES),
    )  # fmt: skip


@given(jobs())
def test_what_is_written_is_read_back(job):
    assert parse_jobs(format_job(job).encode(), source="s") == ([job], [])


def test_a_document_as_it_is_written():
    job = Job(
        key=JobKey("spool", "7"),
        state=JobState.RUNNING,
        name="a < b",
        nodes=("n1",),
        allocated_cpus=2,
        limits=Limits(wall_secs=60, memory_bytes=UNLIMITED),
        processes=frozenset({20, 10}),
    )
    assert format_job(job) == (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        "<Job>\n"
        "  <Id>7</Id>\n"
        "  <Name>a &lt; b</Name>\n"
        "  <State>Running</State>\n"
        '  <ResourceLimit name="MaxMemory">unlimited</ResourceLimit>\n'
        "  <Requested>\n"
        "    <Duration>60</Duration>\n"
        "  </Requested>\n"
        "  <Delivered>\n"
        "    <NodeCount>1</NodeCount>\n"
        '    <Node aggregation="List">n1</Node>\n'
        "    <Processors>2</Processors>\n"
        "  </Delivered>\n"
        "  <TaskGroup>\n"
        "    <Task><Process>10</Process></Task>\n"
        "    <Task><Process>20</Process></Task>\n"
        "  </TaskGroup>\n"
        "</Job>\n"
    )


@pytest.mark.parametrize(
    ("state", "read_back"),
    [
        (JobState.COMPLETING, JobState.RUNNING),
        (JobState.FAILED, JobState.COMPLETED),
        (JobState.TIMEOUT, JobState.COMPLETED),
        (JobState.PREEMPTED, JobState.COMPLETED),
    ],
)
def test_states_without_a_word_become_the_nearest_one(state, read_back):
    text = format_job(Job(key=JobKey("spool", "7"), state=state))
    assert parse_jobs(text.encode(), source="s")[0][0].state is read_back


def test_no_state_is_lost_on_the_way_into_whether_a_job_has_ended():
    for state in JobState:
        text = format_job(Job(key=JobKey("spool", "7"), state=state))
        again = parse_jobs(text.encode(), source="s")[0][0].state
        assert (again.is_finished, again.is_on_node) == (state.is_finished, state.is_on_node)


def test_an_unlimited_wall_time_cannot_be_said_and_is_left_out():
    job = Job(key=JobKey("spool", "7"), limits=Limits(wall_secs=UNLIMITED, swap_bytes=UNLIMITED))
    assert parse_jobs(format_job(job).encode(), source="s")[0][0].limits == Limits()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"key": JobKey("spool", "a b")}, "Id"),
        ({"name": "a\x07b"}, "Name"),
        ({"user": "a\nb"}, "User"),
        ({"account": "x" * 1025}, "Project"),
        ({"nodes": ("a,b",)}, "Node"),
        ({"nodes": (" ",)}, "Node"),
        ({"nodes": ("a\0",)}, "Node"),
    ],
)
def test_what_the_format_does_not_allow_is_not_written(changes, field):
    with pytest.raises(ParseError) as caught:
        format_job(replace(Job(key=JobKey("spool", "7")), **changes))
    assert caught.value.field == field


def test_long_node_lists_are_read_back():
    nodes = tuple(f"node{number:05}" for number in range(5000))
    text = format_job(Job(key=JobKey("spool", "7"), nodes=nodes))
    assert parse_jobs(text.encode(), source="s")[0][0].nodes == nodes
