import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.jobs.jobrecords import PrologRecord, format_record, parse_record
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState, Limits

texts = st.text(min_size=1, max_size=20)
numbers = st.none() | st.integers(0, 2**63 - 1)
limits = st.builds(
    Limits,
    wall_secs=numbers | st.just(UNLIMITED),
    cpu_secs=numbers | st.just(UNLIMITED),
    memory_bytes=numbers,
    swap_bytes=numbers,
    scratch_bytes=numbers,
)
jobs = st.builds(
    Job,
    key=st.builds(JobKey, texts, texts),
    state=st.sampled_from(JobState),
    name=st.none() | texts,
    user=st.none() | texts,
    account=st.none() | texts,
    uid=numbers,
    start_secs=numbers,
    allocated_cpus=numbers,
    allocated_gpus=numbers,
    restarts=numbers,
    sluid=st.none() | texts,
    nodes=st.lists(texts, max_size=3).map(tuple),
    gpus=st.lists(texts, max_size=3).map(tuple),
    gpu_devices=st.lists(texts, max_size=3).map(tuple),
    limits=limits,
)


@given(jobs, st.none() | st.integers(0, 2**33).map(lambda n: n / 8))
def test_a_record_comes_back(job, reported_at_secs):
    text = format_record(job, reported_at_secs=reported_at_secs)
    assert parse_record(text) == PrologRecord(job, reported_at_secs)


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_text_is_a_job_or_a_parse_error(text):
    with pytest.raises(ParseError):
        parse_record(text)


@given(
    st.dictionaries(
        st.sampled_from(["batch_system", "job_id", "uid", "limits", "nodes", "state", "user"]),
        st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers()),
    )
)
def test_any_object_is_a_job_or_a_parse_error(document):
    try:
        assert isinstance(parse_record(json.dumps(document)), PrologRecord)
    except ParseError:
        pass


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"job_id": ""}, "job_id"),
        ({"uid": -1}, "uid"),
        ({"uid": True}, "uid"),
        ({"start_secs": 1.5}, "start_secs"),
        ({"limits": {"wall_secs": "soon"}}, "wall_secs"),
        ({"limits": 3}, "limits"),
        ({"nodes": "n1"}, "nodes"),
        ({"gpus": [1]}, "gpus"),
        ({"user": 5}, "user"),
        ({"sluid": 7}, "sluid"),
        ({"told_at_secs": "now"}, "told_at_secs"),
        ({"told_at_secs": True}, "told_at_secs"),
        ({"told_at_secs": -1}, "told_at_secs"),
        ({"told_at_secs": float("nan")}, "told_at_secs"),
    ],
)
def test_a_bad_field_is_named(changes, field):
    document = {"batch_system": "slurm", "job_id": "1", **changes}
    with pytest.raises(ParseError) as caught:
        parse_record(json.dumps(document), source="records/slurm-1.json")
    assert field in str(caught.value)
    assert "records/slurm-1.json" in str(caught.value)


def test_an_unknown_state_is_unknown_not_an_error():
    assert parse_record('{"batch_system": "s", "job_id": "1", "state": "NEW"}').job.state is JobState.UNKNOWN
