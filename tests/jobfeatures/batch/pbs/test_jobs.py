"""Records → jobs, nodes and queues. The fixtures are constructed."""

from __future__ import annotations

import calendar
import contextlib
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.pbs.accounting import read_records
from jobfeatures.batch.pbs.cluster import (
    compute_states,
    count_slots,
    find_node,
    make_cluster,
    make_node,
    make_notice,
)
from jobfeatures.batch.pbs.commands import DIALECTS
from jobfeatures.batch.pbs.jobs import count_cards, count_ppn, make_job, parse_time, state_of_exit
from jobfeatures.batch.pbs.records import Record, Records, parse_json, parse_text, parse_xml
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.loggedjob import Notes
from jobfeatures.records.model import Job, JobKey, JobState, Limits, Partition
from jobfeatures_exporter.cluster.sums import compute_cluster_sums, starts_jobs

FIXTURES = Path(__file__).parents[3] / "fixtures"
PBS, TORQUE = FIXTURES / "pbs", FIXTURES / "torque"
MORNING = calendar.timegm((2026, 11, 21, 10, 0, 0))  # what the fixtures call ten o'clock, in UTC
STATES = {"pbs": DIALECTS["pbs"].states, "torque": DIALECTS["torque"].states}


def job_of(
    record: Record,
    node_name: str | None = "n1",
    system: str = "pbs",
    notes: list | None = None,
    now_secs: float = MORNING,
) -> Job:
    kept = [] if notes is None else notes
    return make_job(
        record,
        batch_system=system,
        states=STATES[system],
        node_name=node_name,
        now_secs=now_secs,
        note=kept.append,
    )


def pbs_job(attributes: dict[str, str], **arguments) -> Job:
    return job_of(Record("1.head", {"job_state": "R", **attributes}), **arguments)


@pytest.fixture(scope="module")
def pbs() -> dict[str, Record]:
    return dict(parse_json((PBS / "qstat-jobs.json").read_text(), member="Jobs", source="qstat").found)


@pytest.fixture(scope="module")
def torque() -> dict[str, Record]:
    return dict(parse_xml((TORQUE / "qstat.xml").read_bytes(), kind="Job", source="qstat").found)


def test_a_running_job_of_pbs_on_two_nodes(pbs) -> None:
    notes: list[Rejected] = []
    assert job_of(pbs["123.head"], notes=notes) == Job(
        key=JobKey("pbs", "123"),
        state=JobState.RUNNING,
        name="train model",
        user="alice",
        account="physics",
        partition="workq",
        submit_secs=MORNING + 1,
        start_secs=MORNING + 300,
        nodes=("n1", "n2"),
        total_cpus=6,
        allocated_cpus=4,
        limits=Limits(wall_secs=10800, cpu_secs=6 * 10800, memory_bytes=8 * 2**30),
        restarts=1,
        allocated_gpus=1,
        total_nodes=2,
        total_gpus=1,
        priority=0,
        sessions=frozenset({4711}),
    )
    assert notes == []


def test_the_other_node_has_its_own_share_and_not_the_session(pbs) -> None:
    job = job_of(pbs["123.head"], "n2")
    assert (job.allocated_cpus, job.limits.memory_bytes, job.allocated_gpus) == (2, 4 * 2**30, None)
    assert job.sessions == frozenset()


def test_a_job_of_an_array(pbs) -> None:
    job = job_of(pbs["124[7].head"])
    assert (job.key.job_id, job.array_job_id, job.array_task_id) == ("124[7]", "124", "7")
    assert job.limits == Limits(wall_secs=None, cpu_secs=1800, memory_bytes=2 * 2**30)
    assert job.user == "bob"
    assert job.restarts == 0


def test_a_held_job(pbs) -> None:
    job = job_of(pbs["125.head"])
    assert (job.state, job.reason, job.start_secs, job.nodes) == (JobState.PENDING, "JobHeld", None, ())
    assert (job.total_cpus, job.total_nodes, job.limits.cpu_secs) == (8, 1, 8 * 86400)
    assert job.eligible_secs == MORNING


def test_a_running_job_of_torque(torque) -> None:
    job = job_of(torque["123.batch.example.org"], system="torque")
    assert job.key == JobKey("torque", "123")
    assert (job.nodes, job.total_cpus, job.allocated_cpus) == (("n1.example.org", "n2.example.org"), 6, 4)
    assert job.limits == Limits(wall_secs=3600, cpu_secs=6 * 3600, memory_bytes=4 * 2**30)
    assert (job.submit_secs, job.start_secs, job.restarts) == (1795255201, 1795255500, 0)
    assert (job.user, job.name, job.sessions) == ("alice", "a & b", frozenset({4711}))


def test_a_job_of_torque_that_has_ended(torque) -> None:
    job = job_of(torque["124[4].batch.example.org"], system="torque")
    assert (job.state, job.end_secs, job.sessions) == (JobState.TIMEOUT, 1795259100, frozenset())
    assert (job.allocated_cpus, job.limits.cpu_secs) == (2, 7200)
    assert job.limits.memory_bytes == 512 * 2**20 * 8


@pytest.mark.parametrize("letter", "BEFHMQRSTUWX")
def test_each_state_of_pbs_is_known(letter: str) -> None:
    assert pbs_job({"job_state": letter}).state is not JobState.UNKNOWN


@pytest.mark.parametrize("letter", "CEHQRSTW")
def test_each_state_of_torque_is_known(letter: str) -> None:
    assert job_of(Record("1.s", {"job_state": letter}), system="torque").state is not JobState.UNKNOWN


def test_a_state_that_nobody_knows_proves_nothing() -> None:
    assert pbs_job({"job_state": "?"}).state is JobState.UNKNOWN


@pytest.mark.parametrize(
    ("system", "exit_status", "substate", "state"),
    [
        ("pbs", 0, "92", JobState.COMPLETED),
        ("pbs", 1, "93", JobState.FAILED),
        ("pbs", 271, "91", JobState.CANCELLED),
        ("pbs", None, "91", JobState.CANCELLED),
        ("pbs", None, None, JobState.CANCELLED),
        ("pbs", -27, None, JobState.OUT_OF_MEMORY),
        ("pbs", -28, None, JobState.TIMEOUT),
        ("pbs", -29, None, JobState.TIMEOUT),
        ("pbs", -11, None, JobState.FAILED),
        ("pbs", 265, None, JobState.FAILED),
        ("torque", -10, None, JobState.OUT_OF_MEMORY),
        ("torque", -11, None, JobState.TIMEOUT),
        ("torque", -29, None, JobState.FAILED),
    ],
)
def test_how_a_job_ended(system: str, exit_status: int | None, substate: str | None, state: JobState) -> None:
    assert state_of_exit(system, exit_status, substate) is state


@pytest.mark.parametrize(
    ("system", "ends", "used", "state"),
    [
        ("pbs", {"job_state": "F", "Exit_status": "271", "substate": "93"}, "1:00:30", JobState.TIMEOUT),
        ("pbs", {"job_state": "F", "Exit_status": "271", "substate": "91"}, "1:00:30", JobState.CANCELLED),
        ("pbs", {"job_state": "F", "Exit_status": "271"}, "0:59:59", JobState.FAILED),
        ("torque", {"job_state": "C", "exit_status": "271"}, "1:00:30", JobState.TIMEOUT),
        ("torque", {"job_state": "C", "exit_status": "1"}, "1:00:30", JobState.FAILED),
    ],
)
def test_a_job_that_was_killed_at_its_limit_has_run_into_it(system, ends, used, state) -> None:
    times = {"Resource_List.walltime": "1:00:00", "resources_used.walltime": used}
    assert pbs_job({**ends, **times}, system=system).state is state


@pytest.mark.parametrize(
    ("system", "letter", "told", "state", "end"),
    [
        ("pbs", "F", {"Exit_status": "x", "obittime": "1795246000"}, JobState.UNKNOWN, 1795246000),
        ("pbs", "F", {"Exit_status": "0.5", "substate": "91"}, JobState.CANCELLED, None),
        ("pbs", "F", {"Exit_status": ""}, JobState.CANCELLED, None),
        ("torque", "C", {"exit_status": "1e0", "comp_time": "1795246000"}, JobState.UNKNOWN, 1795246000),
    ],
)
def test_a_job_with_an_unreadable_exit_status_was_not_deleted_before_it_ran(
    system: str, letter: str, told: dict[str, str], state: JobState, end: int | None
) -> None:
    notes: list[Rejected] = []
    record = Record("1.s", {"job_state": letter, "exec_host": "n1/0", "stime": "1795245000", **told})
    job = job_of(record, system=system, notes=notes)
    assert (job.state, job.end_secs, job.start_secs, job.nodes) == (state, end, 1795245000, ("n1",))
    assert [each.field.lower() for each in notes] == ["exit_status"] * any(
        told[each] for each in told if "xit" in each
    )


def test_a_job_that_may_run_as_another_is_not_its_owners() -> None:
    owner = {"Job_Owner": "alice@login1"}
    assert pbs_job(owner).user == "alice"
    assert pbs_job({**owner, "User_List": "bob@n1"}).user is None
    assert pbs_job({**owner, "User_List": "bob@n1", "euser": "bob"}).user == "bob"


def test_a_job_without_limits_is_told_none() -> None:
    assert pbs_job({"exec_host": "n1/0"}).limits == Limits()


def test_virtual_memory_and_time_of_a_process_are_no_limits_of_a_job() -> None:
    limits = {
        "Resource_List.vmem": "1gb",
        "Resource_List.pvmem": "1gb",
        "Resource_List.pcput": "10",
        "Resource_List.file": "1gb",
    }
    assert pbs_job({"exec_host": "n1/0", **limits}).limits == Limits()


def test_memory_of_all_nodes_is_no_limit_on_one() -> None:
    both = {"exec_host": "n1/0+n2/0", "Resource_List.mem": "4gb"}
    assert pbs_job(both).limits.memory_bytes is None
    assert pbs_job({**both, "exec_host": "n1/0"}).limits.memory_bytes == 2**32
    assert pbs_job({**both, "Resource_List.pmem": "1gb"}).limits.memory_bytes == 2**30


def test_cards_of_torque_are_those_of_this_node() -> None:
    attributes = {"job_state": "R", "exec_host": "n1/0+n2/0", "exec_gpus": "n1-gpu/1+n1-gpu/0+n2-gpu/3"}
    notes: list[Rejected] = []
    job = job_of(Record("1.s", attributes), system="torque", notes=notes)
    assert (job.gpus, job.allocated_gpus) == (("1", "0"), 2)
    attributes["exec_gpus"] = "n1/0"
    job = job_of(Record("1.s", attributes), system="torque", notes=notes)
    assert (job.gpus, job.allocated_gpus, [each.field for each in notes]) == ((), None, ["exec_gpus"])


def test_a_malformed_value_is_told_and_stays_unknown() -> None:
    notes: list[Rejected] = []
    job = pbs_job({"exec_host": "n1/0", "Resource_List.walltime": "soon", "stime": "now"}, notes=notes)
    assert (job.limits.wall_secs, job.start_secs, job.allocated_cpus) == (None, None, 1)
    assert {each.field for each in notes} == {"Resource_List.walltime", "stime"}


def test_hosts_tell_where_vnodes_cannot_be_read() -> None:
    notes: list[Rejected] = []
    job = pbs_job({"exec_host": "n1/0*4", "exec_vnode": "(n1:ncpus"}, notes=notes)
    assert (job.allocated_cpus, len(notes)) == (4, 1)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("2:ppn=4", 8),
        ("2:ppn=4+n7:ppn=1:fast", 9),
        ("n1+n2", 2),
        ("3", 3),
        ("1:gpus=1:ppn=2", 2),
    ],
)
def test_cpus_that_nodes_ask_for(text: str, cpus: int) -> None:
    assert count_ppn(text) == cpus


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x y", "must be a request for nodes"),
        ("2:ppn=2K", "ppn= must be a number of CPUs"),
        ("2:ppn=22:ppn=2", "ppn= occurs twice"),
    ],
)
def test_cpus_that_cannot_be_read_are_named(text: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        count_ppn(text)


@given(st.integers(0, 4_000_000_000))
def test_times_are_those_of_ctime_in_utc(secs: int) -> None:
    assert parse_time(time.asctime(time.gmtime(secs))) == parse_time(str(secs)) == secs


@pytest.mark.parametrize(
    "text",
    [
        "Sat Foo 21 10:00:00 2026",
        "Sat Nov 31 10:00:00 2026",
        "Sat Nov 21 24:00:00 2026",
        "Sat Nov 0 10:00:00 2026",
    ],
)
def test_other_texts_are_no_times(text: str) -> None:
    with pytest.raises(ParseError):
        parse_time(text)


_WORDS = st.sampled_from(
    ["R", "F", "n1/0*4", "(n1:ncpus=1)", "01:00:00", "8gb", "-1", "9" * 30, "", "x\ny", "[]"]
)
_FIELDS = st.sampled_from(
    (
        *("job_state", "exec_host", "exec_vnode", "Resource_List.walltime", "Resource_List.mem", "stime"),
        *("Resource_List.nodes", "qtime", "run_count", "session_id", "Exit_status", "Job_Owner", "Priority"),
    )
)


@given(st.text(max_size=8), st.dictionaries(_FIELDS, _WORDS | st.text(max_size=12)))
def test_any_record_is_a_job_or_refused(name: str, attributes: dict[str, str]) -> None:
    for record in (Record(name, attributes), Record("1.s", {"job_state": "R", **attributes})):
        for system in STATES:
            with contextlib.suppress(ParseError):
                assert job_of(record, system=system).key.batch_system == system


# ---------------------------------------------------------------- nodes and queues


@pytest.fixture(scope="module")
def pbs_nodes() -> Records:
    return parse_json((PBS / "pbsnodes.json").read_text(), member="nodes", source="pbsnodes")


@pytest.fixture(scope="module")
def torque_nodes() -> Records:
    return parse_xml((TORQUE / "pbsnodes.xml").read_bytes(), kind="Node", source="pbsnodes")


def test_nodes_of_pbs(pbs_nodes: Records) -> None:
    one, two, three = (make_node(pbs_nodes.found[name]) for name in ("n1", "n2", "n3"))
    assert (one.states, one.cpus, one.allocated_cpus) == (("MIXED",), 8, 5)
    assert (one.memory_bytes, one.allocated_memory_bytes) == (2**34, 2**33)
    assert (one.gpus, one.allocated_gpus, one.address) == (2, 1, "n1.example.org")
    assert two.states == ("ALLOCATED", "DRAIN")
    assert three.states == ("DOWN", "UNKNOWN")


def test_nodes_of_torque(torque_nodes: Records) -> None:
    one = make_node(torque_nodes.found["n1.example.org"])
    assert (one.states, one.cpus, one.allocated_cpus, one.gpus) == (("MIXED",), 8, 6, 2)
    assert one.memory_bytes == 2**34
    assert make_node(torque_nodes.found["n2.example.org"]).states == ("ALLOCATED", "DRAIN")


def test_an_offline_node_drains(pbs_nodes: Records, torque_nodes: Records) -> None:
    assert not make_notice(pbs_nodes.found["n1"]).draining
    assert make_notice(pbs_nodes.found["n2"]).draining
    assert not make_notice(pbs_nodes.found["n3"]).draining
    found = find_node(torque_nodes.found, "n2")
    assert found is not None
    assert make_notice(found).draining
    assert find_node(torque_nodes.found, "n3") is None


def test_a_node_without_a_state_is_refused() -> None:
    for make in (make_notice, make_node):
        with pytest.raises(ParseError, match="state"):
            make(Record("n1", {}))


def test_a_state_that_nobody_knows_stands_for_itself() -> None:
    assert compute_states(("free", "on-fire"), 4, 0) == ("IDLE", "ON_FIRE")


@pytest.mark.parametrize(
    ("text", "slots"), [("", 0), ("0/1.s, 1/1.s", 2), ("0-3,6/1.s,4/2.s", 6), ("0/1.s,1/1.s", 2)]
)
def test_slots_of_jobs_on_a_node(text: str, slots: int) -> None:
    assert count_slots(text) == slots


def test_queues_of_pbs(pbs_nodes: Records) -> None:
    queues = parse_json((PBS / "qstat-queues.json").read_text(), member="Queue", source="qstat")
    cluster = make_cluster(pbs_nodes, queues, source="pbs", taken_at_secs=1.0)
    assert cluster.partitions == (
        Partition(name="workq", nodes=("n1", "n3"), state="UP"),
        Partition(name="special", nodes=("n2",), state="DOWN"),
    )
    assert cluster.rejected == ()


def test_queues_of_torque(torque_nodes: Records) -> None:
    queues = parse_text((TORQUE / "qstat-queues.txt").read_text(), kind="queue", source="qstat")
    cluster = make_cluster(torque_nodes, queues, source="torque", taken_at_secs=1.0)
    assert cluster.partitions == (
        Partition(name="batch", nodes=("n1.example.org",), state="UP"),
        Partition(name="fast", nodes=("n1.example.org", "n2.example.org"), state="DRAIN"),
    )


def test_a_bad_node_costs_itself_only() -> None:
    nodes = {
        "n1": Record("n1", {"state": "free", "np": "x"}),
        "n2": Record("n2", {"state": "free", "np": "2"}),
    }
    cluster = make_cluster(Records(nodes), Records({}), source="torque", taken_at_secs=1.0)
    assert [node.name for node in cluster.nodes] == ["n2"]
    assert [each.field for each in cluster.rejected] == ["np"]


@given(st.text(alphabet="0123456789-,/. s\n", max_size=40))
def test_any_list_of_jobs_is_counted_or_refused(text: str) -> None:
    with contextlib.suppress(ParseError):
        assert count_slots(text) >= 0


# ---------------------------------------------------------------- nodes given whole, vnodes


def pbs_node(name: str, state: str = "free", assigned: int = 0, ncpus: int = 64, **more: str) -> Record:
    """Return a node with 4 GPUs and 256 GB, of which an equal part is assigned as of its CPUs."""
    return Record(
        name,
        {
            "state": state,
            "resources_available.ncpus": str(ncpus),
            "resources_available.ngpus": "4" if ncpus else "0",
            "resources_available.mem": "256gb" if ncpus else "0kb",
            "resources_assigned.ncpus": str(assigned),
            "resources_assigned.ngpus": str(assigned // 16),
            "resources_assigned.mem": f"{assigned * 4}gb",
            **more,
        },
    )


def cluster_of(*nodes: Record, queues: dict[str, Record] | None = None, source: str = "pbs", **more):
    records = Records({each.name: each for each in nodes})
    return make_cluster(records, Records(queues or {}), source=source, taken_at_secs=1.0, **more)


@pytest.mark.parametrize("state", ["job-exclusive", "resv-exclusive"])
def test_a_node_given_as_a_whole_has_nothing_left_whatever_is_used_of_it(state: str) -> None:
    """A job placed exclusively has asked for one CPU of each, and nobody else gets the others."""
    [node] = cluster_of(pbs_node("x1", state, 1)).nodes
    assert (node.cpus, node.allocated_cpus, node.gpus, node.allocated_gpus) == (64, 64, 4, 4)
    assert node.memory_bytes == node.allocated_memory_bytes == 256 * 2**30
    assert node.states[0] == "ALLOCATED"
    sums = compute_cluster_sums(cluster_of(pbs_node("x1", state, 1), pbs_node("x2", state), pbs_node("x3")))
    assert sums.cpus == {("", "allocated"): 128, ("", "idle"): 64}
    assert sums.gpus == {("", "allocated"): 8, ("", "idle"): 4}


def test_vnodes_of_a_host_are_one_node() -> None:
    host = {"resources_available.host": "n1"}
    queue = Record("workq", {"queue_type": "Execution", "enabled": "True", "started": "True"})
    cluster = cluster_of(
        pbs_node("n1", ncpus=0, Mom="n1.example.org", **host),
        pbs_node("n1[0]", "job-busy", 64, **host),
        pbs_node("n1[1]", **host),
        pbs_node("gpu01", "offline", **{"resources_available.host": "gpu01"}),
        queues={"workq": queue},
    )
    assert [(node.name, node.states) for node in cluster.nodes] == [
        ("n1", ("MIXED",)),
        ("gpu01", ("IDLE", "DRAIN")),
    ]
    one = cluster.nodes[0]
    assert (one.cpus, one.allocated_cpus, one.gpus, one.allocated_gpus) == (128, 64, 8, 4)
    assert (one.memory_bytes, one.allocated_memory_bytes) == (512 * 2**30, 256 * 2**30)
    assert one.address == "n1.example.org"
    assert cluster.partitions == (Partition(name="workq", nodes=("n1", "gpu01"), state="UP"),)
    sums = compute_cluster_sums(cluster)
    assert sums.states == {("workq", "MIXED"): 1, ("workq", "IDLE"): 1}
    assert sums.cpus == {("workq", "allocated"): 64, ("workq", "idle"): 64, ("workq", "other"): 64}


@pytest.mark.parametrize("state", ["offline", "down", "state-unknown,down", "stale", "maintenance"])
def test_what_a_vnode_that_starts_no_job_has_free_no_job_can_get(state: str) -> None:
    host = {"resources_available.host": "n1"}
    [node] = cluster_of(pbs_node("n1[0]", state, 16, **host), pbs_node("n1[1]", **host)).nodes
    assert (node.cpus, node.allocated_cpus, node.states) == (64 + 16, 16, ("MIXED",))
    [node] = cluster_of(pbs_node("n1[0]", state, **host), pbs_node("n1[1]", state, **host)).nodes
    assert node.cpus == 128
    assert not starts_jobs(node)


# ---------------------------------------------------------------- Torque's counts and GPUs


@pytest.mark.parametrize(
    ("exec_host", "nodes", "cpus"),
    [
        ("n1/16", "1:ppn=16", {"n1": 16}),  # of the branch develop
        ("n1/4+n2/4", "2:ppn=4", {"n1": 4, "n2": 4}),
        ("n1/4+n2/1", "n1:ppn=4+n2:ppn=1", {"n1": 4, "n2": 1}),
        ("n1/16", "1:ppn=1", {"n1": 1}),  # slot 16
        ("n1/1+n2/1", "2:ppn=1", {"n1": 1, "n2": 1}),
        ("n1/0-3", "1:ppn=4", {"n1": 4}),
        ("n1/3+n1/1", "1:ppn=2", {"n1": 2}),
        ("n1/2+n2/0", "2:ppn=1", {"n1": 1, "n2": 1}),
        ("n1/2+n2/0", "2", {"n1": 1, "n2": 1}),
    ],
)
def test_a_number_of_slots_is_none_of_a_slot(exec_host: str, nodes: str, cpus: dict[str, int]) -> None:
    attributes = {"exec_host": exec_host, "Resource_List.nodes": nodes}
    job = pbs_job({**attributes, "Resource_List.walltime": "1:00:00"}, system="torque")
    assert (job.total_cpus, job.allocated_cpus) == (sum(cpus.values()), cpus["n1"])
    assert job.limits.cpu_secs == 3600 * sum(cpus.values())
    line = f"11/21/2026 10:00:00;E;1.s;user=a exec_host={exec_host} Resource_List.nodes={nodes} start=5 end=9"
    [record] = read_records([line], source="x", notes=Notes())
    assert record.total_cpus == sum(cpus.values())


@pytest.mark.parametrize(
    ("asked", "cpus"),
    [
        ({"nodes": "4", "ncpus": "1"}, 4),  # the 1 is the server's default
        ({"nodes": "n1+n2:fast"}, 2),
        ({"procs": "16", "ncpus": "1", "nodes": "1"}, 16),
        ({"nodes": "1", "ncpus": "8"}, 8),
        ({"nodes": "1", "ncpus": "1"}, 1),
        ({"nodes": "2:ppn=4", "ncpus": "1"}, 8),
        ({"nodes": "2:ppn=4:cpp=2", "ncpus": "16", "select": "2:ncpus=8:mpiprocs=4"}, 16),  # PBS
    ],
)
def test_what_a_job_requests_is_not_a_default_beside_it(asked: dict[str, str], cpus: int) -> None:
    resources = {f"Resource_List.{name}": text for name, text in asked.items()}
    job = pbs_job({"job_state": "Q", **resources, "Resource_List.walltime": "1:00"}, system="torque")
    assert (job.total_cpus, job.limits.cpu_secs) == (cpus, 60 * cpus)
    pairs = " ".join(f"{name}={text}" for name, text in resources.items())
    [record] = read_records([f"11/21/2026 10:00:00;E;1.s;{pairs} start=5 end=9"], source="x", notes=Notes())
    assert record.requested_cpus == cpus


def test_a_node_with_too_high_a_load_is_not_idle() -> None:
    for more in (
        {"np": "64", "jobs": ""},
        {"resources_available.ncpus": "64", "resources_assigned.ncpus": "0"},
    ):
        node = make_node(Record("n1", {"state": "busy", **more}))
        assert (node.states, node.allocated_cpus, starts_jobs(node)) == (("IDLE", "BLOCKED"), 0, False)


def test_of_two_different_requests_neither_is_taken() -> None:
    notes: list[Rejected] = []
    attributes = {"job_state": "Q", "Resource_List.nodes": "4", "Resource_List.ncpus": "8"}
    assert job_of(Record("1.head", attributes), system="torque", notes=notes).total_cpus is None
    assert [(each.field, each.text) for each in notes] == [("Resource_List.nodes", "4")]


def torque_node(name: str, jobs: str, **more: str) -> Record:
    return Record(name, {"state": "free", "np": "16", "jobs": jobs, **more})


def test_a_server_that_writes_numbers_of_slots_is_known_by_one_that_no_node_has() -> None:
    counts = cluster_of(torque_node("n1", "16/11.s"), torque_node("n2", "4/12.s, 8/13.s"), source="torque")
    assert [node.allocated_cpus for node in counts.nodes] == [16, 12]
    slots = cluster_of(torque_node("n1", "15/11.s"), torque_node("n2", "4/12.s, 8/13.s"), source="torque")
    assert [node.allocated_cpus for node in slots.nodes] == [1, 2]


def test_gpus_of_torque_s_jobs_count_in_the_queue_on_the_nodes_and_in_accounting() -> None:
    running = {"exec_host": "n1/0-3", "exec_gpus": "n1-gpu/0+n1-gpu/1", "job_state": "R"}
    job = pbs_job({**running, "Resource_List.nodes": "1:ppn=4:gpus=2"}, node_name=None, system="torque")
    assert (job.total_gpus, job.gpus) == (2, ())
    pending = pbs_job({"job_state": "Q", "Resource_List.nodes": "2:ppn=4:gpus=2"}, system="torque")
    assert pending.total_gpus == 4
    assert pbs_job({"job_state": "Q", "Resource_List.nodes": "2:ppn=4"}, system="torque").total_gpus is None
    ended = Record("3.s", {"exec_gpus": "n1-gpu/1", "job_state": "C"})
    cards = count_cards([Record("1.s", running), Record("2.s", {"job_state": "Q"}), ended])
    nodes = (torque_node("n1", "0-3/1.s", gpus="2"), torque_node("n2.example.org", "", gpus="3"))
    found = cluster_of(*nodes, source="torque", cards=cards).nodes
    assert [(node.gpus, node.allocated_gpus) for node in found] == [(2, 2), (3, 0)]
    unknown = cluster_of(*nodes, source="torque").nodes
    assert [node.allocated_gpus for node in unknown] == [None, None], "the queue is not known yet"
    line = "11/21/2026 10:00:00;E;1.s;user=a exec_host=n1/0-3+n2/0-3 Resource_List.nodes=2:ppn=4:gpus=2 "
    [record] = read_records([f"{line}unique_node_count=2 start=5 end=9"], source="x", notes=Notes())
    assert (record.total_gpus, record.requested_gpus) == (4, 4)


def test_a_time_with_its_date_behind_it_is_a_time() -> None:
    assert parse_time("1649348639 (Thu Apr 07 12:23:59 EDT 2022)") == 1649348639
    for text in ("1649348639 (Thu", "(Thu Apr 07 12:23:59 EDT 2022)", "1649348639 Thu)"):
        with pytest.raises(ParseError):
            parse_time(text)


HOUR = 3600


def remaining(letter: str, used: str, after_secs: int, start: str = "stime", **arguments) -> float | None:
    now_secs = MORNING + after_secs
    attributes = {
        "job_state": letter,
        start: str(MORNING),
        "Resource_List.walltime": "03:00:00",
        "resources_used.walltime": used,
    }
    end_secs = pbs_job(attributes, now_secs=now_secs, **arguments).end_limit_at(now_secs)
    return None if end_secs is None else end_secs - now_secs


@pytest.mark.parametrize("letter", ["S", "U"])
def test_a_suspended_job_has_left_what_it_had_when_it_was_suspended(letter: str) -> None:
    """pbs_mom stops the walltime at a suspension (stop_walltime in OpenPBS 23's requests.c)."""
    assert remaining(letter, "01:00:00", 9 * HOUR) == 2 * HOUR


@pytest.mark.parametrize(("system", "start"), [("pbs", "stime"), ("torque", "start_time")])
def test_time_for_which_a_job_was_suspended_is_not_of_its_walltime(system: str, start: str) -> None:
    """An hour, then a night suspended, then a half; the server knows of that up to ten minutes late."""
    left = remaining("R", "01:30:00", 10 * HOUR, start, system=system)
    assert left == 1.5 * HOUR - 600
    assert remaining("R", "01:25:00", 10 * HOUR, start, system=system) == left + 300


@pytest.mark.parametrize("used", ["00:30:00", "00:21:00", "00:31:00"])
def test_what_the_server_knows_late_is_no_suspension(used: str) -> None:
    assert remaining("R", used, HOUR // 2) == 2.5 * HOUR


def test_a_job_whose_use_is_not_known_yet_has_its_limit_from_its_start() -> None:
    job = pbs_job({"stime": str(MORNING), "Resource_List.walltime": "03:00:00"}, now_secs=MORNING + HOUR)
    assert (job.limit_end_secs, job.end_limit_secs) == (None, MORNING + 3 * HOUR)
