"""Whether a job has its node to itself: what is counted by node is only then the job's."""

from dataclasses import replace

import pytest

from jobfeatures.batch.source import KeeperStatus
from jobfeatures.features.machine import Machine
from jobfeatures.records.model import Alias, Job, JobKey, JobState, JobTable, NodeNotice
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.ended import EndedJob
from jobfeatures_exporter.model.snapshot import FigureSource, JobSample, Snapshot
from jobfeatures_exporter.scrape.collectors import COLLECTORS
from tests.exporter.seriestext import labelled

ONE, TWO = JobKey("slurm", "1"), JobKey("slurm", "2")
TABLE = JobTable(source="slurm", jobs={}, taken_at_secs=0, complete=True)


def job(key=ONE, cpus=16, state=JobState.RUNNING):
    return Job(key=key, state=state, allocated_cpus=cpus)


def node_with(*jobs, told=16, machine_cpus=None, stated=False, **more):
    origins = {"total_cpu": "machine.total_cpu"} if stated else {}
    return Context(
        now_secs=0,
        jobs={each.key: each for each in jobs},
        sources=(KeeperStatus("slurm", replace(TABLE, node=NodeNotice(cpus=told))),),
        machine=Machine(total_cpus=machine_cpus, origins=origins),
        **more,
    )


def only(of, collector, name):
    [family] = [each for each in COLLECTORS[collector].families(of) if each.metric.sample_name == name]
    return labelled(family)


def whole(of):
    return {text.split('"')[3]: value for text, value in only(of, "allocation", "batch_job_whole_node")}


def empty_groups(of):
    [(_, value)] = only(of, "features", "batch_node_empty_job_groups")
    return value


@pytest.mark.parametrize(
    ("cpus", "told", "machine_cpus", "stated", "value"),
    [
        (16, 16, None, False, 1),
        (16, 16, 32, False, 1),  # threads that Slurm gives out with their cores
        (16, 16, 32, True, 1),  # the batch system knows better what it gives out
        (15, 16, 16, False, 0),
        (16, None, 16, False, 1),  # nobody can be given more than there is
        (8, None, 16, False, None),  # perhaps its slots are cores, and these are all
        (8, None, 8, True, 1),
        (7, None, 8, True, 0),
        (None, 16, 16, False, None),
        (16, None, None, False, None),
    ],
)
def test_a_job_has_the_node_to_itself_with_all_cpus_that_are_given_out(
    cpus, told, machine_cpus, stated, value
):
    found = whole(node_with(job(cpus=cpus), told=told, machine_cpus=machine_cpus, stated=stated))
    assert found == ({} if value is None else {"1": value})


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING])
def test_of_two_jobs_on_a_node_neither_has_it_whoever_has_how_many_cpus(state):
    assert whole(node_with(job(), job(TWO, 16, state))) == {"1": 0, "2": 0}
    assert whole(node_with(job(), job(TWO, None, state))) == {"1": 0, "2": 0}


def test_a_job_that_waits_or_has_ended_takes_nothing_of_the_node(node_that_shows):
    waiting = job(TWO, 16, JobState.PENDING)
    assert whole(node_with(job(), waiting)) == {"1": 1}
    assert whole(node_with(job(), job(TWO, 16, JobState.COMPLETED))) == {"1": 1}
    left = node_that_shows(TWO, job(), leftovers={TWO: 5.0})
    assert whole(left) == {"1": 0}, "processes that are left may go on transferring"


def test_a_job_that_only_the_kernel_shows_is_one_too(node_that_shows):
    assert whole(node_that_shows(TWO, job())) == {"1": 0, "2": 0}


@pytest.mark.parametrize(
    "known", [(), (job(TWO, state=JobState.COMPLETED),), (job(TWO, state=JobState.PENDING),)]
)
def test_an_empty_control_group_is_no_job_where_the_batch_system_says_that_there_is_none(
    node_that_shows, known
):
    node = node_that_shows(TWO, job(), *known, processes=0)
    assert whole(node) == {"1": 1}
    assert set(node.shown_jobs) == {ONE}
    assert empty_groups(node) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"table": None},
        {"last_error": "timed out"},
        {"table": replace(TABLE, complete=False)},
        {"table": replace(TABLE, gone={})},
    ],
)
def test_an_empty_control_group_may_be_a_job_s_while_the_batch_system_does_not_say(node_that_shows, changes):
    node = node_that_shows(TWO, job(), processes=0)
    node = replace(node, sources=(replace(node.sources[0], **changes),))
    assert set(node.jobs_here) == {ONE, TWO}
    assert empty_groups(node) == 0


@pytest.mark.parametrize(
    ("name", "kind"),
    [("s000000000000A", "sluid"), ("slot1_1@n1", "slot")],
)
def test_an_empty_control_group_that_names_no_job_is_none_beside_those_that_are_told(
    node_that_shows, name, kind
):
    key = JobKey("slurm", name)
    told = Job(key=key)  # nothing can be asked about it
    table = replace(TABLE, jobs={key: told})

    def node(table, **more):
        found = node_that_shows(key, job(), told, alias=Alias(kind, name), **more)
        return replace(found, sources=(replace(found.sources[0], table=table),))

    empty = node(table, processes=0)
    assert set(empty.jobs_here) == {ONE}
    assert empty_groups(empty) == 1
    assert set(node(table).jobs_here) == {ONE, key}
    assert set(node(replace(table, complete=False), processes=0).jobs_here) == {ONE, key}


def test_an_empty_control_group_of_a_job_that_runs_is_its_own(node_that_shows):
    node = node_that_shows(ONE, job(), processes=0)
    assert set(node.jobs_here) == {ONE}
    assert empty_groups(node) == 0


def test_nobody_is_said_to_be_alone_before_all_batch_systems_have_answered():
    silent = node_with(job())
    silent = replace(silent, sources=(*silent.sources, KeeperStatus("htcondor")))
    assert whole(silent) == {}
    assert whole(replace(silent, jobs={ONE: job(cpus=2)})) == {"1": 0}


@pytest.fixture
def node_that_shows(context):
    def made(seen, *jobs, processes=1, alias=None, **more):
        sample = JobSample(
            key=seen, accounting=FigureSource.CGROUP, processes=processes, in_group=True, alias=alias
        )
        found = replace(context.snapshot, jobs={seen: sample}, job_gpus=())
        return node_with(*jobs, snapshot=found, **more)

    return made


@pytest.mark.parametrize("told", [None, "slot1_1", "slot1_1@h"])
def test_the_slot_that_the_batch_system_names_stands_from_the_first_look_to_the_last(told):
    seen = JobSample(
        key=ONE, accounting=FigureSource.PROCESSES, processes=1, alias=told and Alias("slot", told)
    )
    node = Context(
        now_secs=0,
        snapshot=Snapshot(taken_at_secs=0, duration_secs=0, node=None, jobs={ONE: seen}),
        jobs={ONE: Job(key=ONE, state=JobState.RUNNING, slot="slot1_1@h")},
    )
    assert ['slot="slot1_1@h"' in text for text, _ in only(node, "allocation", "batch_job_info")] == [True]


@pytest.mark.parametrize("ended", [True, False])
def test_whoever_has_figures_has_a_name_also_when_only_an_empty_control_group_is_left(ended):
    last = JobSample(
        key=ONE,
        accounting=FigureSource.CGROUP,
        user_cpu_secs=5.0,
        in_group=True,
        alias=Alias("slot", "slot1_1@h"),
    )
    known = Job(key=ONE, state=JobState.UNKNOWN, user="alice")
    node = Context(
        now_secs=0,
        snapshot=Snapshot(taken_at_secs=0, duration_secs=0, node=None, jobs={ONE: last}),
        sources=(KeeperStatus("slurm", TABLE),),
        ended={ONE: EndedJob(last, known, 1.0)} if ended else {},
    )
    expected = int(ended)
    assert len(only(node, "jobs", "batch_job_cpu_seconds_total")) == expected
    assert len(only(node, "allocation", "batch_job_state")) == expected
    info = only(node, "allocation", "batch_job_info")
    assert [('user="alice"' in text, 'slot="slot1_1@h"' in text) for text, _ in info] == [
        (True, True)
    ] * expected
    assert empty_groups(node) == 1
