"""condor_q and condor_status: captured answers, and constructed ones that HTCondor's library has printed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.htcondor.accounting import parse_record
from jobfeatures.batch.htcondor.evaluate import find_evaluator
from jobfeatures.batch.htcondor.fields import AdReadingOptions, Fields
from jobfeatures.batch.htcondor.jobad import QUEUE_ATTRIBUTES, VacateTime, parse_queue
from jobfeatures.batch.htcondor.machine import STATUS_ATTRIBUTES, parse_notice, parse_status
from jobfeatures.errors import ParseError
from jobfeatures.formats.classad.ad import ClassAd, name_of
from jobfeatures.records.model import ClusterNode, Job, JobKey, JobState, Limits, NodeNotice
from jobfeatures_exporter.cluster.sums import compute_cluster_sums, compute_queue_sums

FOLDER = Path(__file__).parents[3] / "fixtures" / "htcondor"
MIB = 2**20


def queue_of(text, **more):
    return parse_queue(text, AdReadingOptions(**more), taken_at_secs=1.0)


def fixture(name):
    return (FOLDER / name).read_text()


def by_id(table):
    return {key.job_id.removesuffix("@submit.example.org"): job for key, job in table.jobs.items()}


def test_a_running_job_has_what_it_was_given():
    table = queue_of(fixture("queue.json"))
    assert table.complete
    assert table.rejected == ()
    assert by_id(table)["4711.3"] == Job(
        key=JobKey("htcondor", "4711.3@submit.example.org"),
        schedd="submit.example.org",
        state=JobState.RUNNING,
        name="fit",
        user="alice",
        account="group_physics",
        submit_secs=1795245000,
        start_secs=1795246000,
        nodes=("wn1.example.org",),
        total_cpus=8,
        total_nodes=1,
        total_gpus=2,
        limits=Limits(wall_secs=7200, cpu_secs=57600, memory_bytes=2097152000, scratch_bytes=21474836480),
        array_job_id="4711",
        array_task_id="3",
        restarts=2,
        priority=-2,
    )


def test_a_pending_job_has_what_it_asks_for_where_that_has_a_value():
    pending = by_id(queue_of(fixture("queue.json")))["4712.0"]
    assert (pending.state, pending.start_secs, pending.nodes) == (JobState.PENDING, None, ())
    assert (pending.total_cpus, pending.limits.scratch_bytes) == (None, None)  # expressions
    assert pending.limits.memory_bytes == 3000 * MIB
    assert (pending.eligible_secs, pending.reason) == (None, None)


def test_the_library_knows_what_expressions_ask_for():
    pending = by_id(queue_of(fixture("queue.json"), evaluate=find_evaluator()))["4712.0"]
    assert (pending.total_cpus, pending.limits.scratch_bytes) == (4, None)


def test_a_captured_queue_of_23_9_6_has_what_each_kind_of_job_has():
    table = queue_of(fixture("queue-23.9.6.json"))
    assert (table.complete, table.rejected) == (True, ())
    jobs = {key.job_id: job for key, job in table.jobs.items()}
    assert {name: (job.state, job.reason) for name, job in jobs.items()} == {
        "2.0@schedd2@wn1.lab": (JobState.RUNNING, None),
        "3.0@schedd2@wn1.lab": (JobState.PENDING, None),
        "5.0@wn1.lab": (JobState.RUNNING, None),
        "5.1@wn1.lab": (JobState.RUNNING, None),
        "6.0@wn1.lab": (JobState.SUSPENDED, None),
        "7.0@wn1.lab": (JobState.PENDING, "Held"),
        "8.0@wn1.lab": (JobState.FAILED, None),
    }
    assert jobs["5.0@wn1.lab"] == Job(
        key=JobKey("htcondor", "5.0@wn1.lab"), schedd="wn1.lab", state=JobState.RUNNING, name='fit "2"', user="alice",
        account="group_physics", submit_secs=1795854031, start_secs=1795854033, nodes=("wn1.lab",), total_cpus=2,
        total_nodes=1, total_gpus=0, array_job_id="5", array_task_id="0", restarts=0, priority=-2,
        limits=Limits(wall_secs=3600, cpu_secs=7200, memory_bytes=256 * MIB, scratch_bytes=103424 * 1024),
    )  # fmt: skip
    site_limit, pending, failed = (
        jobs[each] for each in ("2.0@schedd2@wn1.lab", "3.0@schedd2@wn1.lab", "8.0@wn1.lab")
    )
    assert (site_limit.limits.wall_secs, site_limit.user) == (900, "bob")
    assert (pending.eligible_secs, pending.total_cpus, pending.limits.memory_bytes) == (1795854039, 64, None)
    assert (failed.end_secs, failed.nodes) == (1795854045, ())
    evaluated = queue_of(fixture("queue-23.9.6.json"), evaluate=find_evaluator()).jobs
    assert evaluated[pending.key].limits.memory_bytes == 128 * MIB


def test_a_captured_pool_of_23_9_6_is_one_node_of_its_dynamic_slots():
    cluster = parse_status(fixture("status-23.9.6.json"), taken_at_secs=1.0)
    assert cluster.rejected == ()
    assert cluster.nodes == (
        ClusterNode(
            name="wn1.lab", states=("MIXED",), cpus=8, allocated_cpus=6, memory_bytes=8000 * MIB,
            allocated_memory_bytes=768 * MIB, gpus=0, allocated_gpus=0,
        ),
    )  # fmt: skip


def test_held_failed_and_parallel_jobs():
    jobs = by_id(queue_of(fixture("queue.json")))
    held, failed, parallel = (jobs[each] for each in ("4713.0", "4714.0", "4715.0"))
    assert (held.state, held.reason, held.start_secs) == (JobState.PENDING, "Held", None)
    assert (failed.state, failed.end_secs, failed.nodes) == (JobState.FAILED, 1795245400, ())
    assert (parallel.total_nodes, parallel.total_cpus, parallel.limits.cpu_secs) == (3, 12, 1200)


@pytest.mark.parametrize(
    ("told", "state", "named"),
    [
        ('"ExitCode": 0', JobState.COMPLETED, []),
        ('"ExitCode": "0"', JobState.UNKNOWN, ["ExitCode"]),
        ('"ExitCode": 3.7', JobState.UNKNOWN, ["ExitCode"]),
        ('"ExitCode": 0, "ExitBySignal": 1', JobState.UNKNOWN, ["ExitBySignal"]),
        ('"ExitCode": 3, "JobSuccessExitCode": "3"', JobState.UNKNOWN, ["JobSuccessExitCode"]),
        ('"ExitCode": "9", "ExitBySignal": true', JobState.FAILED, ["ExitCode"]),
    ],
)
def test_a_job_of_the_queue_that_ended_in_an_unreadable_way_has_ended_nobody_knows_how(told, state, named):
    table = queue_of(
        f'[{{"ClusterId": 1, "ProcId": 0, "JobStatus": 4, "EnteredCurrentStatus": 900, {told}}}]'
    )
    job = by_id(table)["1.0"]
    assert (job.state, job.end_secs, job.has_ended) == (state, 900, True)
    assert [each.field for each in table.rejected] == named
    assert compute_queue_sums(table).jobs == {}


def test_a_status_that_is_no_whole_number_is_no_state():
    table = queue_of('[{"ClusterId": 1, "ProcId": 0, "JobStatus": 4.5, "EnteredCurrentStatus": 900}]')
    assert (by_id(table)["1.0"].state, by_id(table)["1.0"].end_secs) == (JobState.UNKNOWN, None)


@pytest.mark.parametrize(("status", "restarts"), [(1, 2), (2, 1), (5, 2), (4, 1)])
def test_a_pending_job_counts_all_its_runs_and_others_those_before(status, restarts):
    ad = f'{{"ClusterId": 1, "ProcId": 0, "JobStatus": {status}, "NumJobStarts": 2}}'
    assert by_id(queue_of(f"[{ad}]"))["1.0"].restarts == restarts


def test_jobs_of_two_schedds_with_one_number_are_two():
    ad = '{"ClusterId": 1, "ProcId": 0, "JobStatus": 1, "GlobalJobId": "%s#1.0#5"}'
    table = queue_of(f"[{ad % 'a'}]\n[{ad % 'b'}]\n")
    assert set(by_id(table)) == {"1.0@a", "1.0@b"}
    assert table.complete


def test_jobs_that_cannot_be_distinguished_leave_the_table_incomplete():
    table = queue_of('[{"ClusterId": 1, "ProcId": 0}, {"ClusterId": 1, "ProcId": 0}]')
    assert (len(table.jobs), table.complete) == (1, False)


def test_an_ad_without_an_id_costs_itself_only():
    table = queue_of('[{"ClusterId": 1, "ProcId": 0}, {"ClusterId": null, "ProcId": 0}]')
    assert (set(by_id(table)), table.complete, len(table.rejected)) == ({"1.0"}, False, 1)


def test_a_malformed_value_is_reported_and_the_job_stays():
    table = queue_of('[{"ClusterId": 1, "ProcId": 0, "RequestCpus": "many", "QDate": -5}]')
    assert by_id(table)["1.0"].total_cpus is None
    assert {(each.source, each.field) for each in table.rejected} == {
        ("condor_q 1.0", "RequestCpus"),
        ("condor_q 1.0", "QDate"),
    }


@pytest.mark.parametrize("text", ["", "[\n]\n", "All queues are empty\n"])
def test_an_empty_queue_is_complete(text):
    table = queue_of(text)
    assert (table.jobs, table.complete) == ({}, True)


@pytest.mark.parametrize("text", ["Error: cannot connect\n", fixture("queue.json")[:500], "\x00\x01"])
def test_half_an_answer_is_none(text):
    with pytest.raises(ParseError):
        queue_of(text)


def test_machines_are_summed_up_over_their_slots():
    cluster = parse_status(fixture("status.json"), taken_at_secs=1.0)
    assert cluster.rejected == ()
    assert cluster.nodes == (
        ClusterNode(
            name="wn1.example.org", states=("MIXED",), cpus=64, allocated_cpus=8, memory_bytes=256000 * MIB,
            allocated_memory_bytes=2048 * MIB, gpus=2, allocated_gpus=2,
        ),
        ClusterNode(
            name="wn2.example.org", states=("MIXED", "DRAIN"), cpus=8, allocated_cpus=4, memory_bytes=2000 * MIB,
            allocated_memory_bytes=1000 * MIB,
        ),
        ClusterNode(
            name="wn3.example.org", states=("DOWN", "POWERED_DOWN"), allocated_cpus=0, allocated_memory_bytes=0,
        ),
        ClusterNode(
            name="wn4.example.org", states=("ALLOCATED",), cpus=16, allocated_cpus=16, memory_bytes=64000 * MIB,
            allocated_memory_bytes=64000 * MIB,
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rating", "features"),
    [("0.00002", {}), ("0", {}), ("-1", {}), ("1e5", {}), ("10.5", {"hs23_per_core": "10.5"})],
)
def test_a_rating_that_rounds_to_0_is_unknown(rating, features):
    assert parse_notice(f'[{{"R": {rating}}}]', {"R": "hs23"}).node.features == features


def test_an_ad_without_a_machine_is_reported():
    cluster = parse_status('[{"Cpus": 1}, {"Name": "slot1@wn1"}]', taken_at_secs=1.0)
    assert [node.name for node in cluster.nodes] == ["wn1"]
    assert [each.field for each in cluster.rejected] == ["Machine"]


ONE, TWO, THREE, FOUR = (f"{number}.0@wn1.lab" for number in (1, 2, 3, 4))
VACATE = {
    ONE: VacateTime(15, 15),
    TWO: VacateTime(15, 15),
    THREE: VacateTime(15, 5000),  # gave up the retirement that it had left, 593 s
    FOUR: VacateTime(15, 2**40),
}


def slots_of(*slots):
    """Return an answer about slots that are claimed for job ONE unless told otherwise."""
    return json.dumps([{"State": "Claimed", "GlobalJobId": "wn1.lab#1.0#9", **each} for each in slots])


@pytest.mark.parametrize("text", ["", "[]"])
def test_without_slots_there_is_no_notice(text):
    assert parse_notice(text, {}) is None


@pytest.mark.parametrize(
    ("text", "notice", "ends"),
    [
        ('[{"Name": "slot1@h", "State": "Claimed"}]', NodeNotice(), {}),
        (
            fixture("direct-23.9.6.json"),
            NodeNotice(True, (1795952493 + 590,)),
            {ONE: 1795952493 + 49, TWO: 1795952493 + 590},
        ),
        (
            fixture("direct-vacating-23.9.6.json"),
            NodeNotice(True, (1795952278 + 559,)),
            {ONE: 1795952274 + 15, TWO: 1795952278 + 559, THREE: 1795952244 + 593},
        ),
        (  # who vacates does so also when the rest may stay
            fixture("direct-cancelled-23.9.6.json"),
            NodeNotice(),
            {ONE: 1795952274 + 15, THREE: 1795952244 + 593},
        ),
        (  # a peaceful shutdown waits for ever
            fixture("direct-peaceful-23.9.6.json"),
            NodeNotice(True),
            {ONE: 1795952274 + 15, THREE: 1795952244 + 593},
        ),
        ('[{"State": "Drained"}, {"State": "Unclaimed"}]', NodeNotice(True), {}),
        ('[{"Draining": "\\/Expr(X)\\/", "Start": "\\/Expr(X)\\/"}]', NodeNotice(), {}),
        ('[{"State": "Unclaimed", "Start": false}]', NodeNotice(True), {}),
        ('[{"State": "Unclaimed", "Start": false}, {"Start": true}]', NodeNotice(), {}),
        (  # a job that another one is preferred to, on a node that goes on
            slots_of(
                {"Activity": "Retiring", "MyCurrentTime": 1000, "RetirementTimeRemaining": 60, "Start": True}
            ),
            NodeNotice(),
            {ONE: 1060},
        ),
        (  # killed at once
            slots_of(
                {
                    "Activity": "Killing",
                    "Draining": True,
                    "EnteredCurrentActivity": 1000,
                    "MyCurrentTime": 1003,
                }
            ),
            NodeNotice(True, (1000,)),
            {ONE: 1000},
        ),
        (  # two slots of one job: it ends with the first
            slots_of(
                {"Activity": "Vacating", "Draining": True, "EnteredCurrentActivity": 1000},
                {"Activity": "Retiring", "MyCurrentTime": 1002, "RetirementTimeRemaining": 60},
            ),
            NodeNotice(True, (1015,)),
            {ONE: 1015},
        ),
    ],
)
def test_each_job_is_told_its_own_end_and_a_draining_node_that_of_its_last_job(text, notice, ends):
    assert parse_notice(text, {}, VACATE) == (notice, ends)


@pytest.mark.parametrize("later_secs", [0, 7, 30, 59])
def test_the_end_of_a_vacating_job_does_not_move_with_the_clock(later_secs):
    now_secs = 1000 + later_secs
    slot = {
        "Activity": "Vacating",
        "Draining": True,
        "EnteredCurrentActivity": 1000,
        "MyCurrentTime": now_secs,
    }
    slot["ExpectedMachineGracefulDrainingCompletion"] = now_secs + 60  # as HTCondor says
    found = parse_notice(slots_of(slot), {}, {ONE: VacateTime(60, 60)})
    assert found == (NodeNotice(True, (1060,)), {ONE: 1060})


@pytest.mark.parametrize(
    "slot",
    [
        {
            "Activity": "Vacating",
            "EnteredCurrentActivity": 1000,
            "GlobalJobId": "wn1.lab#9.0#9",
        },  # whose ad is not here
        {"Activity": "Suspended", "MyCurrentTime": 1000, "RetirementTimeRemaining": 9},
        {"Activity": "Retiring", "RetirementTimeRemaining": 9},
        {"Activity": "Retiring", "MyCurrentTime": 1000, "RetirementTimeRemaining": "x"},
        {"Activity": "Busy", "MyCurrentTime": 1000, "RetirementTimeRemaining": 9},
        # before the clock was set back
        {"Activity": "Vacating", "EnteredCurrentActivity": 4600, "MyCurrentTime": 1000},
        {"Activity": "Killing", "EnteredCurrentActivity": 4600, "MyCurrentTime": 1000},
        {"Activity": "Retiring", "MyCurrentTime": 1000, "RetirementTimeRemaining": 9, "GlobalJobId": "a b"},
        {"Activity": "Suspended", "GlobalJobId": None},
        {"Activity": "Retiring", "MyCurrentTime": 2**62, "RetirementTimeRemaining": 9},
        {"Activity": "Vacating", "EnteredCurrentActivity": 1e300},
        {  # as long as it runs, and as long as it likes
            "Activity": "Vacating",
            "EnteredCurrentActivity": 1000,
            "GlobalJobId": "wn1.lab#4.0#9",
            "RetirementTimeRemaining": 2**31 - 5,
        },
    ],
)
def test_an_end_that_is_not_known_leaves_the_node_s_unknown(slot):
    known = {"Activity": "Killing", "EnteredCurrentActivity": 5, "GlobalJobId": "wn1.lab#2.0#9"}
    assert parse_notice(slots_of(slot | {"Draining": True}, known), {}, VACATE) == (
        NodeNotice(True),
        {TWO: 5},
    )


@pytest.mark.parametrize("attributes", ['"Start": false', '"Activity": "Retiring"'])
def test_a_node_that_starts_no_more_jobs_drains_for_the_controller_too(attributes):
    [node] = parse_status(
        f'[{{"Machine": "wn1", "State": "Claimed", {attributes}}}]', taken_at_secs=1.0
    ).nodes
    assert "DRAIN" in node.states


@given(st.text() | st.text(alphabet='[]{},:"\n1-null ClusterIdProcMachineDraining', max_size=100))
def test_any_text_is_an_answer_or_a_parse_error(text):
    parsers = (
        queue_of,
        lambda text: parse_status(text, taken_at_secs=1.0),
        lambda text: parse_notice(text, {}),
    )
    for parse in parsers:
        try:
            parse(text)
        except ParseError:
            continue


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.just("/Expr(A)/")
)


@given(st.data())
def test_any_values_give_jobs_and_nodes(data):
    jobs = data.draw(st.lists(st.dictionaries(st.sampled_from(QUEUE_ATTRIBUTES), VALUES), max_size=3))
    slots = data.draw(st.lists(st.dictionaries(st.sampled_from(STATUS_ATTRIBUTES), VALUES), max_size=3))
    for parse, ads in ((queue_of, jobs), (lambda text: parse_status(text, taken_at_secs=1.0), slots)):
        parse(json.dumps(ads))


def test_a_job_waits_since_it_is_idle_and_not_while_it_is_held():
    ad = '{"ClusterId": 1, "ProcId": %d, "JobStatus": %d, "QDate": 5, "EnteredCurrentStatus": 9}'
    table = queue_of(f"[{ad % (0, 1)}, {ad % (1, 5)}]")
    assert by_id(table)["1.0"].eligible_secs == 9
    sums = compute_queue_sums(replace(table, taken_at_secs=10.0))
    assert (sums.waiting[""].jobs, sums.waiting[""].first_since_secs) == (1, 9)


@pytest.mark.parametrize("status", [1, 2])
@pytest.mark.parametrize(("universe", "takes"), [(5, True), (7, False), (9, False), (12, False), (11, True)])
def test_a_job_of_a_universe_without_slots_has_no_cpu_of_the_pool(universe, takes, status):
    """DAGMan's, local and grid jobs run on the submit machine, or elsewhere."""
    ad = {"ClusterId": 1, "ProcId": 0, "JobStatus": status, "JobUniverse": universe, "MaxHosts": 1}
    ad |= {"RequestCpus": 2, "RequestGPUs": 1, "RequestMemory": 128}
    table = queue_of(json.dumps([ad]))
    sums = compute_queue_sums(table)
    state = {1: "PENDING", 2: "RUNNING"}[status]
    assert sums.jobs == {("", state): 1}
    assert dict(sums.cpus) == ({("", state): 2} if takes else {})
    assert dict(sums.nodes) == ({("", state): 1} if takes else {})
    assert dict(sums.gpus) == ({("", state): 1} if takes else {})
    record = parse_record(Fields(ClassAd({name_of(name): value for name, value in ad.items()}), "history"))
    assert (record.requested_cpus, record.requested_nodes) == ((2, 1) if takes else (None, None))


def startd(name, cpus, memory, slots):
    """Return the ads of a startd: a partitionable slot and these dynamic ones, by CPUs."""
    whole = {"Machine": "wn1", "TotalCpus": cpus, "TotalMemory": memory, "TotalGPUs": 1}
    free = {
        "Name": f"slot1@{name}",
        "PartitionableSlot": True,
        "State": "Unclaimed",
        "Cpus": cpus - sum(slots),
    }
    claimed = (
        {"Name": f"slot1_{number}@{name}", "State": "Claimed", "Cpus": each, "Memory": 100 * each, "GPUs": 0}
        for number, each in enumerate(slots, 1)
    )
    return [{**whole, **each} for each in (free, *claimed)]


def node_of(*startds):
    text = json.dumps([ad for each in startds for ad in each])
    [node] = parse_status(text, taken_at_secs=1.0).nodes
    return node


def slot_of(startd: str, number: str, **more: Any) -> dict[str, Any]:
    values = {"State": "Unclaimed", "Activity": "Idle", "Cpus": 1, "TotalCpus": 4.0, "Start": True}
    return {"Name": f"slot{number}@{startd}", "Machine": "wn1", **values, **more}


def pilot(name: str, *, used: int, **more: Any) -> list[dict[str, Any]]:
    busy = {"State": "Claimed", "Activity": "Busy", "Cpus": used, "TotalCpus": 8, **more}
    left = {"PartitionableSlot": True, "Cpus": 8 - used, "TotalCpus": 8, **more}
    return [slot_of(f"{name}@wn1", "1", **left), slot_of(f"{name}@wn1", "1_1", **busy)]


@pytest.mark.parametrize(
    ("slots", "cpus", "idle", "states"),
    [
        ([slot_of("wn1", str(n)) for n in range(1, 5)], 4, 4, ("IDLE",)),
        ([slot_of("wn1", str(n), Start=n < 4) for n in range(1, 5)], 3, 3, ("IDLE",)),
        ([slot_of("wn1", str(n), Start=False) for n in range(1, 5)], 4, 0, ("IDLE", "DRAIN")),
        (pilot("old", used=2) + pilot("new", used=4), 16, 10, ("MIXED",)),
        (pilot("old", used=2, Start=False) + pilot("new", used=4), 10, 4, ("MIXED",)),
        (pilot("old", used=2, Draining=True) + pilot("new", used=4), 10, 4, ("MIXED",)),
        (pilot("old", used=2, Draining=True) + pilot("new", used=4, Start=False), 16, 0, ("MIXED", "DRAIN")),
    ],
)
def test_what_slots_and_pilots_that_start_nothing_have_free_is_not_idle(slots, cpus, idle, states):
    found = parse_status(json.dumps(slots), taken_at_secs=1.0)
    assert (found.nodes[0].cpus, found.nodes[0].states) == (cpus, states)
    assert compute_cluster_sums(found).cpus.get(("", "idle"), 0) == idle


def test_a_captured_host_of_23_9_6_with_two_startds_and_backfill_slots_is_one_node():
    """Three jobs of 4 CPUs: two have the 8 of the first startd, the third a backfill slot beside them."""
    [node] = parse_status(fixture("status-two-startds-23.9.6.json"), taken_at_secs=1.0).nodes
    assert (node.name, node.cpus, node.allocated_cpus, node.states) == ("wn1.lab", 12, 8, ("MIXED",))
    assert (node.memory_bytes, node.allocated_memory_bytes) == (12000 * MIB, 3 * 128 * MIB)


def test_several_startds_of_a_host_have_its_cpus_together():
    """Two pilots on one machine, or a split host."""
    node = node_of(startd("glidein_1@wn1", 8, 8000, [4, 4]), startd("glidein_2@wn1", 8, 4000, [4]))
    assert (node.cpus, node.allocated_cpus, node.states) == (16, 12, ("MIXED",))
    assert (node.memory_bytes, node.allocated_memory_bytes) == (12000 * MIB, 1200 * MIB)
    assert (node.gpus, node.allocated_gpus) == (2, 0)


def test_what_one_startd_has_is_unknown_of_all_if_it_is_of_one():
    silent = [{"Machine": "wn1", "Name": "slot1@b@wn1", "State": "Unclaimed", "Cpus": 1}]
    node = node_of(startd("a@wn1", 8, 8000, [4]), silent)
    assert (node.cpus, node.memory_bytes, node.allocated_cpus) == (None, None, 4)


def test_backfill_slots_take_what_others_leave():
    """They may still be claimed for a moment when what they have is claimed by others."""
    backfill = [
        {"Machine": "wn1", "Name": f"slot2_{number}@wn1", "State": "Claimed", "Cpus": 2, "TotalCpus": 8}
        for number in (1, 2)
    ]
    node = node_of(startd("wn1", 8, 8000, [2, 2, 2, 2]), backfill)
    assert (node.cpus, node.allocated_cpus, node.states) == (8, 8, ("ALLOCATED",))
    node = node_of(startd("wn1", 8, 8000, [2]), backfill)
    assert (node.cpus, node.allocated_cpus, node.states) == (8, 6, ("MIXED",))
