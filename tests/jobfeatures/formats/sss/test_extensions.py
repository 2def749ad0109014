"""Jobs in documents: what the format has an element for, and what stands in Extensions."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.extensions import FIELDS
from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState, Limits
from tests.jobfeatures.formats.sss.documents import as_bytes, documents, parse_jobs
from tests.jobfeatures.formats.sss.jobwriter import format_job

PRINTABLE = st.characters(exclude_categories=["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"])
WORD = st.text(PRINTABLE, min_size=1, max_size=20)
TEXT = st.lists(WORD, min_size=1, max_size=3).map(" ".join)
NUMBER = st.one_of(st.integers(0, 100), st.integers(0, 2**63 - 1))
PROCESSES = st.frozensets(st.integers(2, 2**22), max_size=4)


@st.composite
def jobs(draw):
    """Draw jobs of which a document can say everything."""
    state = draw(st.sampled_from(JobState))
    nodes = tuple(draw(st.lists(WORD.filter(lambda name: "," not in name), unique=True, max_size=3)))
    cpus = draw(st.none() | NUMBER)
    total_nodes = draw(st.none() | NUMBER)
    allocated = draw(st.none() | NUMBER)
    if cpus is None and len(nodes) == 1:
        cpus = allocated  # which is what a reader concludes
    return Job(
        key=JobKey("spool", draw(WORD)),
        state=state,
        name=draw(st.none() | TEXT),
        user=draw(st.none() | TEXT),
        account=draw(st.none() | TEXT),
        partition=draw(st.none() | TEXT),
        submit_secs=draw(st.none() | NUMBER),
        start_secs=draw(st.none() | NUMBER),
        end_secs=draw(st.none() | NUMBER) if state.is_finished else None,
        nodes=nodes,
        total_cpus=cpus,
        total_nodes=total_nodes,
        allocated_cpus=allocated,
        limits=Limits(
            wall_secs=draw(st.none() | NUMBER | st.just(UNLIMITED)),
            cpu_secs=draw(st.none() | NUMBER | st.just(UNLIMITED)),
            memory_bytes=draw(st.none() | NUMBER | st.just(UNLIMITED)),
            swap_bytes=draw(st.none() | NUMBER | st.just(UNLIMITED)),
            scratch_bytes=draw(st.none() | NUMBER | st.just(UNLIMITED)),
        ),
        processes=draw(PROCESSES),
        sessions=draw(PROCESSES),
        uid=draw(st.none() | NUMBER),
        restarts=draw(st.none() | st.integers(0, 2**62)),
        allocated_gpus=draw(st.none() | NUMBER),
        total_gpus=draw(st.none() | NUMBER),
        gpus=tuple(draw(st.lists(WORD.filter(lambda name: "," not in name), max_size=3))),
        tasks=draw(st.integers(1, 1000)),
        het_offset=draw(st.none() | NUMBER),
        priority=draw(st.none() | st.integers(-(2**63) + 1, 2**63 - 1)),
        eligible_secs=draw(st.none() | NUMBER),
        deadline_secs=draw(st.none() | NUMBER),
        **{
            name: draw(st.none() | TEXT)
            for name in ("array_job_id", "array_task_id", "het_job_id", "sluid", "reason", "reservation")
        },
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
        '    <Node aggregation="List">n1</Node>\n'
        "    <Processors>2</Processors>\n"
        "  </Delivered>\n"
        "  <TaskGroup>\n"
        "    <Task>\n"
        "      <Process>10</Process>\n"
        "    </Task>\n"
        "    <Task>\n"
        "      <Process>20</Process>\n"
        "    </Task>\n"
        "  </TaskGroup>\n"
        "</Job>\n"
    )


def test_what_has_no_element_is_an_extension_and_every_field_has_its_place():
    job = Job(
        key=JobKey("spool", "7"),
        state=JobState.TIMEOUT,
        nodes=("n1", "n2"),
        total_cpus=8,
        allocated_cpus=4,
        uid=6001,
        gpus=("0", "1"),
    )
    text = format_job(job)
    assert "<State>Completed</State>" in text
    assert '<Extension name="state" type="jobfeatures">TIMEOUT</Extension>' in text
    assert '<Extension name="allocated_cpus" type="jobfeatures">4</Extension>' in text
    assert '<Extension name="gpus" type="jobfeatures">0,1</Extension>' in text
    assert parse_jobs(text.encode(), source="s") == ([job], [])
    known = {each.name for each in (*fields(Job), *fields(JobRecord))}
    assert {name for name in FIELDS if name not in {"gid", "exit_signal", "think_secs"}} <= known


def test_an_extension_does_not_contradict_the_state():
    for said in ("RUNNING", "NONSENSE", ""):
        data = f'<Job><Id>1</Id><State>Completed</State><Extension name="state" type="jobfeatures">{said}</Extension></Job>'
        assert parse_jobs(data.encode(), source="s")[0][0].state is JobState.COMPLETED


def test_extensions_of_others_are_theirs():
    data = b'<Job><Id>1</Id><Extension name="uid" type="other">7</Extension><Extension name="uid">8</Extension></Job>'
    assert parse_jobs(data, source="s") == ([Job(key=JobKey("spool", "1"))], [])


def test_no_state_is_lost():
    for state in JobState:
        text = format_job(Job(key=JobKey("spool", "7"), state=state))
        assert parse_jobs(text.encode(), source="s")[0][0].state is state


def test_limits_that_do_not_exist_are_said():
    limits = Limits(**dict.fromkeys([each.name for each in fields(Limits)], UNLIMITED))
    text = format_job(Job(key=JobKey("spool", "7"), limits=limits))
    assert text.count(">unlimited<") == 5
    assert parse_jobs(text.encode(), source="s")[0][0].limits == limits


@given(documents())
def test_a_job_that_is_read_is_written_and_read_the_same(document):
    try:
        jobs, _ = parse_jobs(as_bytes(document), source="s")
    except ParseError:
        return
    for job in jobs:
        assert parse_jobs(format_job(job).encode(), source="s") == ([job], [])


@pytest.mark.parametrize("nodes", [("a,b",), ("a,b", "c")])
def test_a_comma_in_the_name_of_a_node_makes_it_no_two(nodes):
    job = Job(key=JobKey("spool", "7"), nodes=nodes)
    [read], _ = parse_jobs(format_job(job).encode(), source="s")
    assert read.nodes == nodes


def test_long_node_lists_are_read_back():
    nodes = tuple(f"node{number:05}" for number in range(5000))
    text = format_job(Job(key=JobKey("spool", "7"), nodes=nodes))
    assert parse_jobs(text.encode(), source="s")[0][0].nodes == nodes
