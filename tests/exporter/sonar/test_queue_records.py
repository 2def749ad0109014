"""Jobs and cluster records."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.record import STATES
from jobfeatures.errors import ParseError
from jobfeatures.formats.sonar import CURRENT, SEED
from jobfeatures.formats.sonar.envelopes import Origin
from jobfeatures.formats.sonar.fields import fields_of
from jobfeatures.formats.sonar.joblog import read_records
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures.formats.sonar.writejobs import job_fields, job_state, jobs_document
from jobfeatures.joblogs.loggedjob import JobRecord, Notes, pairs
from jobfeatures.records.model import UNLIMITED, Cluster, ClusterNode, JobState, Limits, Partition
from jobfeatures_exporter.ingest.parse import parse_envelope
from jobfeatures_exporter.sonar.clusterdocuments import cluster_document, queue_records

RECORD = JobRecord(
    batch_system="slurm",
    job_id="1467074",
    name='weird | "name" ü\n',
    state=JobState.TIMEOUT,
    array_job_id="1467073",
    array_task_id="0",
    het_job_id="1467921",
    het_offset=1,
    user="alice",
    account="physics",
    partition="batch",
    reservation="course",
    nodes=("n1", "n2", "n3", "login"),
    submit_secs=1_795_246_159,
    start_secs=1_795_246_160,
    end_secs=1_795_246_760,
    run_secs=600,
    wall_limit_secs=20_160 * 60,
    priority=100,
    requested_cpus=4,
    requested_nodes=4,
    requested_memory_bytes=800 * 2**20,
    suspended_secs=7,
    exit_status=0,
    user_cpu_secs=500,
    system_cpu_secs=20,
    used_memory_bytes=5120,
    more=pairs(
        distribution="Block",
        requested_resources="cpu=4,mem=800M,node=4",
        allocated_resources="cpu=4,mem=800M,node=4,gres/gpu=2",
        min_cpu_secs=1,
        average_cpu_secs=2,
        average_read_bytes=2048,
        average_written_bytes=1023,
        average_resident_bytes=4096,
        average_virtual_bytes=8192,
        max_virtual_bytes=9216,
    ),
)


def faults(document, profile=CURRENT):
    return validate_envelope(document, profile=profile, strict=True)


def seed(origin):
    return replace(origin, profile=SEED)


def test_a_job_has_every_field_of_the_profile(origin):
    assert job_fields(origin, RECORD).keys() == fields_of("SlurmJob", CURRENT).keys()
    lacking = {"gres_detail", "minimum_cpus_per_node"}  # accounting does not say
    assert job_fields(seed(origin), RECORD).keys() == fields_of("SlurmJob", SEED).keys() - lacking
    assert job_fields(origin, RECORD)["sacct"].keys() == fields_of("SacctData").keys()


@pytest.mark.parametrize("profile", [CURRENT, SEED])
def test_both_profiles_are_valid(origin, profile):
    speaker = replace(origin, profile=profile)
    assert faults(jobs_document(speaker, [job_fields(speaker, RECORD)], 1_795_246_800), profile) == []


def test_values_are_as_the_format_has_them(origin):
    job = job_fields(origin, RECORD)
    assert (job["job_id"], job["array_job_id"], job["array_task_id"]) == (1467074, 1467073, 0)
    assert (job["het_job_id"], job["het_job_offset"]) == (1467921, 1)
    assert job["submit_time"] == "2026-11-21T08:29:19+01:00"
    assert job["nodes"] == ["login", "n[1-3]"]
    assert job["requested_memory_per_node"] == 819_200  # of the whole job, as ReqMem
    assert job["priority"] == 102
    assert (job["suspend_time"], job["exit_code"]) == (7, 0)
    assert (job["sacct"]["AveDiskRead"], job["sacct"]["AveDiskWrite"], job["sacct"]["MaxRSS"]) == (2, 0, 5)


@pytest.mark.parametrize(
    ("limit_secs", "current", "text"),
    [(20_160 * 60, 1_209_602, 20_162), (UNLIMITED, 1, 1), (None, None, None), (90, 92, 4), (0, 2, 2)],
)
def test_the_time_limit_is_seconds_in_one_profile_and_minutes_in_the_other(origin, limit_secs, current, text):
    record = replace(RECORD, wall_limit_secs=limit_secs)
    assert job_fields(origin, record).get("time_limit") == current
    assert job_fields(seed(origin), record).get("time_limit") == text


def test_average_traffic_is_bytes_where_the_text_says_so(origin):
    """Average number of bytes read by all tasks in job."""
    record = replace(RECORD, more=pairs(average_read_bytes=1_048_576, average_written_bytes=1023))
    of_text = job_fields(seed(origin), record)
    assert (of_text["sacct"]["AveDiskRead"], of_text["sacct"]["AveDiskWrite"]) == (1_048_576, 1023)
    assert job_fields(origin, record)["sacct"]["AveDiskRead"] == 1024
    [read] = read_records([json.dumps(jobs_document(seed(origin), [of_text], 0))], source="", notes=Notes())
    assert dict(read.more) == {"average_read_bytes": 1_048_576, "average_written_bytes": 1023}


@pytest.mark.parametrize("profile", [CURRENT, SEED])
def test_our_own_reader_reads_what_was_meant(origin, profile):
    speaker = replace(origin, profile=profile)
    record = parse_envelope(jobs_document(speaker, [job_fields(speaker, RECORD)], 1_795_246_800))
    assert record.rejected == ()
    [read] = record.jobs
    assert (read.job.key, read.job.state, read.job.name) == (RECORD.key, JobState.TIMEOUT, RECORD.name)
    assert read.job.limits.wall_secs == RECORD.wall_limit_secs
    assert (read.job.start_secs, read.job.end_secs) == (RECORD.start_secs, RECORD.end_secs)
    assert set(read.job.nodes) == set(RECORD.nodes)
    assert (read.job.total_gpus, read.job.priority) == (2, 100)


def test_the_tag_is_that_of_the_profile(origin):
    assert jobs_document(origin, [], 0)["data"]["type"] == "job"
    assert jobs_document(seed(origin), [], 0)["data"]["type"] == "jobs"


def test_no_jobs_are_a_sign_of_life(origin):
    document = jobs_document(origin, [], 1_795_246_800)
    assert document["data"]["attributes"]["slurm_jobs"] == []
    assert faults(document) == []


def test_what_is_not_known_is_left_out(origin):
    bare = JobRecord(batch_system="slurm", job_id="7", step="batch", state=JobState.RUNNING)
    assert job_fields(origin, bare) == {
        "job_id": 7,
        "job_step": "batch",
        "job_name": "",
        "job_state": "RUNNING",
    }


@pytest.mark.parametrize("state", sorted(STATES))
def test_every_state_of_slurm_has_a_word_in_the_format(origin, state):
    job = job_fields(origin, replace(RECORD, state_word=state))
    assert job["job_state"] == job_state(state)
    assert faults(jobs_document(origin, [job], 0)) == []


@pytest.mark.parametrize("state", sorted(STATES))
def test_every_state_of_slurm_has_one_of_the_texts_eight_words(origin, state):
    """All-uppercase from PENDING, RUNNING, CANCELLED, COMPLETED, DEADLINE, FAILED, OUT_OF_MEMORY, TIMEOUT."""
    job = job_fields(seed(origin), replace(RECORD, state_word=state))
    assert job["job_state"] in {
        *("PENDING", "RUNNING", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT")
    }
    assert faults(jobs_document(seed(origin), [job], 0), SEED) == []


def test_a_state_that_nobody_knows_is_refused(origin):
    with pytest.raises(ParseError, match="not a state"):
        job_fields(origin, replace(RECORD, state_word="DREAMING"))


def test_the_queue_stands_in_for_accounting(origin, make_job, make_table):
    table = make_table(
        make_job(
            state=JobState.PENDING,
            array_job_id="12",
            array_task_id="2-5,9%2",
            limits=Limits(wall_secs=600),
            total_cpus=2,
            total_nodes=1,
            priority=0,
        ),
        make_job("13", state=JobState.UNKNOWN),
        make_job("14", array_job_id="12", array_task_id="1", nodes=("n1",), start_secs=1_795_246_160),
    )
    jobs = [job_fields(origin, each) for each in queue_records(table)]
    assert [each["job_id"] for each in jobs] == [12, 14]
    assert (jobs[0]["time_limit"], jobs[0]["requested_cpus"], jobs[0]["priority"]) == (602, 2, 2)
    assert "array_task_id" not in jobs[0]
    assert (jobs[1]["array_task_id"], jobs[1]["nodes"]) == (1, ["n1"])
    assert faults(jobs_document(origin, jobs, 0)) == []


def test_nodes_in_the_same_states_stand_together(origin):
    nodes = [ClusterNode(name=f"c{number}", states=("IDLE", "drain")) for number in (1, 2, 3, 5)]
    cluster = Cluster(
        source="slurm",
        taken_at_secs=1_795_246_800,
        partitions=(Partition(name="batch", nodes=("c1", "c2", "login-1")), Partition(name="empty")),
        nodes=(*nodes, ClusterNode(name="c4", states=("DOWN",))),
    )
    document = cluster_document(origin, cluster)
    assert faults(document) == []
    assert document["data"]["attributes"] == {
        "time": "2026-11-21T08:40:00+01:00",
        "cluster": "hpc.example.org",
        "slurm": True,
        "partitions": [{"name": "batch", "nodes": ["c[1-2]", "login-1"]}, {"name": "empty", "nodes": []}],
        "nodes": [
            {"names": ["c4"], "states": ["DOWN"]},
            {"names": ["c[1-3,5]"], "states": ["IDLE", "DRAIN"]},
        ],
    }


names = st.text(max_size=20)
counts = st.none() | st.integers(0, 2**40)


@given(names, names, counts, counts, st.sampled_from([CURRENT, SEED]))
def test_whatever_users_write_the_document_is_valid(name, user, number, size, profile):
    speaker = Origin(cluster="c", node="n", profile=profile)
    record = replace(
        RECORD, name=name, user=user, priority=number, wall_limit_secs=number, used_memory_bytes=size
    )
    assert faults(jobs_document(speaker, [job_fields(speaker, record)], 0), profile) == []


@pytest.mark.parametrize(("job_id", "number"), [("12", 12), ("123.pbs1", 123), ("4294967296", 2**32)])
def test_a_job_goes_by_its_number(origin, job_id, number):
    fields = job_fields(origin, replace(RECORD, batch_system="x", job_id=job_id))
    assert fields["job_id"] == number


@pytest.mark.parametrize("job_id", ["4711.3", "7[3]", "", "x", "１２"])
def test_a_job_without_a_number_is_an_error_and_takes_nothing_down(origin, job_id):
    with pytest.raises(ParseError) as caught:
        job_fields(origin, replace(RECORD, batch_system="x", job_id=job_id))
    assert caught.value.field == "job_id"
