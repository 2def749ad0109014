"""Documents of jobs, made of accounting and queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobfeatures.errors import SourceError
from jobfeatures.formats.sonar import CURRENT, SEED
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures.joblogs.loggedjob import Accounting, JobRecord
from jobfeatures.records.model import JobState
from jobfeatures_exporter.sonar import clusterdocuments
from jobfeatures_exporter.sonar.clusterdocuments import MAX_HISTORY_SECS, JobsDocuments
from jobfeatures_exporter.sonar.jobchanges import JobChanges


class StandIn:
    """Accounting whose records are set by the test; an exception is raised."""

    name = "slurm"

    def __init__(self, clock):
        self.clock = clock
        self.records = [JobRecord(batch_system="slurm", job_id="12", state=JobState.RUNNING)]
        self.asked = []

    def poll_accounting(self, since_secs):
        self.asked.append(self.clock.now - since_secs)
        if isinstance(self.records, Exception):
            raise self.records
        return Accounting(source="slurm", records=tuple(self.records), taken_at_secs=self.clock.now)


@pytest.fixture
def source(clock):
    return StandIn(clock)


def documents(origin, source, clock, table=None, **more):
    return JobsDocuments(origin, source, clock, history_secs=3600, queue=lambda: table, **more)


def ids(made):
    return [[job["job_id"] for job in each["data"]["attributes"]["slurm_jobs"]] for each in made]


def test_jobs_that_accounting_does_not_know_yet_come_from_the_queue(
    origin, source, clock, make_job, make_table
):
    table = make_table(make_job("12", state=JobState.PENDING), make_job("13", state=JobState.PENDING))
    [made] = documents(origin, source, clock, table).make()
    assert [(job["job_id"], job["job_state"]) for job in made["data"]["attributes"]["slurm_jobs"]] == [
        (12, "RUNNING"),
        (13, "PENDING"),
    ]


def test_without_accounting_the_queue_is_all_there_is(origin, source, clock, make_job, make_table, caplog):
    source.records = SourceError("accounting is disabled")
    made = documents(origin, source, clock, make_table(make_job("13")))
    assert [ids(made.make()) for _ in range(3)] == [[[13]]] * 3
    assert len([each for each in caplog.records if "accounting cannot be read" in each.message]) == 1
    with pytest.raises(SourceError):
        documents(origin, source, clock).make()


def test_without_accounting_an_empty_queue_does_not_mean_that_there_are_no_jobs(
    origin, source, clock, make_table
):
    source.records = SourceError("accounting is away")
    with pytest.raises(SourceError, match="accounting is away"):
        documents(origin, source, clock, make_table()).make_one()


def test_a_question_looks_back_to_the_last_answer(origin, source, clock):
    made = documents(origin, source, clock)
    made.make()
    clock.advance(300)
    source.records, good = SourceError("away"), source.records
    with pytest.raises(SourceError):
        made.make()
    clock.advance(300)
    source.records = good
    made.make()
    clock.advance(30 * 86400)
    made.make()
    assert source.asked == [3600, 900, 1200, MAX_HISTORY_SECS]


def test_stateful_or_stateless(origin, source, clock):
    stateless = documents(origin, source, clock)
    assert [ids(stateless.make()) for _ in range(2)] == [[[12]], [[12]]]
    stateful = documents(origin, source, clock, changes=JobChanges())
    assert [ids(stateful.make()) for _ in range(2)] == [[[12]], [[]]]


def test_many_jobs_are_many_documents_and_one_where_one_is_asked_for(origin, source, clock, monkeypatch):
    monkeypatch.setattr(clusterdocuments, "RECORDS_PER_DOCUMENT", 2)
    source.records = [
        JobRecord(batch_system="slurm", job_id=str(each), state=JobState.RUNNING) for each in range(1, 6)
    ]
    made = documents(origin, source, clock)
    assert ids(made.make()) == [[1, 2], [3, 4], [5]]
    assert ids([made.make_one()]) == [[1, 2, 3, 4, 5]]


def test_a_job_that_the_format_cannot_hold_costs_itself_only(origin, source, clock, caplog):
    source.records = [
        JobRecord(batch_system="slurm", job_id="1", state_word="DREAMING"),
        JobRecord(batch_system="slurm", job_id="2", state=JobState.RUNNING, nodes=("not a node",)),
        JobRecord(batch_system="slurm", job_id="3", state=JobState.RUNNING),
        JobRecord(batch_system="htcondor", job_id="4711.3", state=JobState.RUNNING),
    ]
    assert ids(documents(origin, source, clock).make()) == [[3]]
    assert [each.message.partition(":")[0] for each in caplog.records] == [
        "job is left out of the document",
        "3 jobs of this answer are left out of the document",
    ]


# "slurm: JOB_INFO.gres_detail", "slurm: JOB_INFO.minimum_cpus_per_node", where accounting is "TBD".
@pytest.mark.parametrize("has_accounting", [True, False])
def test_what_the_queue_alone_knows_stands_beside_what_accounting_tells(
    origin, source, clock, make_job, make_table, has_accounting
):
    job = make_job("12", gres_detail=("gpu:2(IDX:0-1)", "gpu:1(IDX:3)"), min_cpus_per_node=4)
    if not has_accounting:
        source.records = SourceError("none")
    seed = replace(origin, profile=SEED)
    [made] = documents(seed, source, clock, make_table(job)).make()
    [told] = made["data"]["attributes"]["slurm_jobs"]
    assert (told["gres_detail"], told["minimum_cpus_per_node"]) == (["gpu:2(IDX:0-1)", "gpu:1(IDX:3)"], 4)
    assert validate_envelope(made, profile=SEED, strict=True) == []
    [newer] = documents(origin, source, clock, make_table(job)).make()
    assert validate_envelope(newer, profile=CURRENT, strict=True) == []
