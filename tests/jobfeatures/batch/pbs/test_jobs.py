"""Records → jobs, nodes and queues. The fixtures are constructed."""

from __future__ import annotations

import calendar
import contextlib
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.pbs.cluster import (
    compute_states,
    count_slots,
    find_node,
    make_cluster,
    make_node,
    make_notice,
)
from jobfeatures.batch.pbs.commands import DIALECTS
from jobfeatures.batch.pbs.jobs import count_ppn, make_job, parse_time, state_of_exit
from jobfeatures.batch.pbs.records import Record, Records, parse_json, parse_text, parse_xml
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.records.model import Job, JobKey, JobState, Limits, Partition

FIXTURES = Path(__file__).parents[3] / "fixtures"
PBS, TORQUE = FIXTURES / "pbs", FIXTURES / "torque"
MORNING = calendar.timegm((2026, 11, 21, 10, 0, 0))  # what the fixtures call ten o'clock, in UTC
STATES = {"pbs": DIALECTS["pbs"].states, "torque": DIALECTS["torque"].states}


def job_of(
    record: Record, node_name: str | None = "n1", system: str = "pbs", notes: list | None = None
) -> Job:
    kept = [] if notes is None else notes
    return make_job(
        record,
        batch_system=system,
        states=STATES[system],
        node_name=node_name,
        note=kept.append,
        source="qstat",
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
        ("x y", None),
    ],
)
def test_cpus_that_nodes_ask_for(text: str, cpus: int | None) -> None:
    assert count_ppn(text) == cpus


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
