"""The queue and the hosts, captured from Son of Grid Engine 8.1.9 and constructed after that."""

from datetime import UTC, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.gridengine.answers import QueueInstance
from jobfeatures.batch.gridengine.cluster import compute_slots, compute_states, parse_cluster
from jobfeatures.batch.gridengine.queue import count_tasks, parse_queue, parse_state, reason_of
from jobfeatures.errors import ParseError
from jobfeatures.records.model import UNLIMITED, ClusterNode, Job, JobKey, JobState, Limits, Partition
from jobfeatures_exporter.cluster.sums import compute_cluster_sums

FIXTURES = Path(__file__).parents[3] / "fixtures/gridengine"
QUEUE = (FIXTURES / "qstat.xml").read_bytes()
HOSTS = (FIXTURES / "qhost-q.xml").read_bytes()


def key(job_id: str) -> JobKey:
    return JobKey("gridengine", job_id)


def row(**values: str) -> str:
    """Return a constructed row of the queue, in the shape of the captured ones."""
    values = {"JB_job_number": "7", "JB_owner": "bob", "state": "r", "slots": "1", **values}
    return "".join(f"<{name}>{value}</{name}>" for name, value in values.items())


def table(*rows: str, **more):
    lists = "".join(f'<job_list state="running">{each}</job_list>' for each in rows)
    data = f"<?xml version='1.0'?><job_info><queue_info>{lists}</queue_info></job_info>"
    return parse_queue(data.encode(), taken_at_secs=1.0, **more)


def test_a_captured_queue():
    found = parse_queue(QUEUE, taken_at_secs=1.0, tz=UTC)
    assert found.complete
    assert found.rejected == ()
    states = {job.key.job_id: job.state for job in found.jobs.values()}
    assert states == {
        "10": JobState.RUNNING,
        "11.4": JobState.RUNNING,
        "11": JobState.PENDING,
        "12": JobState.PENDING,
        **dict.fromkeys(("1", "2", "3", "4", "6", "7", "8", "9"), JobState.COMPLETED),
    }
    assert found.jobs[key("10")] == Job(
        key=key("10"),
        state=JobState.RUNNING,
        name="par",
        user="alice",
        partition="all.q",
        start_secs=1795268001,
        nodes=("vm",),
        total_nodes=1,
        total_cpus=2,
        limits=Limits(wall_secs=1000, cpu_secs=3600),
        priority=1024,
    )
    waiting = found.jobs[key("11")]
    assert (waiting.tasks, waiting.array_job_id, waiting.start_secs) == (2, "11", None)
    assert waiting.submit_secs == 1795268001
    assert found.jobs[key("12")].reason == "Held"


def test_a_parallel_job_s_rows_tell_its_hosts():
    master = row(slots="1", queue_name="a.q@n1", master="MASTER") + '<granted_pe name="mpi">3</granted_pe>'
    slaves = [
        row(slots="1", queue_name=queue, master="SLAVE") + '<granted_pe name="mpi">3</granted_pe>'
        for queue in ("b.q@n2", "b.q@n2")
    ]
    job = table(*slaves, master).jobs[key("7")]
    assert (job.partition, job.nodes, job.total_cpus, job.total_nodes) == ("a.q", ("n2", "n1"), 3, 2)


def test_times_are_of_a_zone_or_stamps():
    rows = [
        row(JAT_start_time="2026-11-21T13:33:21"),
        row(JB_job_number="8", JAT_start_time="2026-11-21T13:33:21.500"),
        row(JB_job_number="9", JAT_start_time="1795268001000"),
        row(JB_job_number="10", JAT_start_time="0"),
    ]
    found = table(*rows, tz=timezone(timedelta(hours=1)))
    starts = [job.start_secs for job in found.jobs.values()]
    assert starts == [1795264401, 1795264401, 1795268001, None]


def test_a_bad_row_costs_itself_only():
    found = table(
        row(),
        row(JB_job_number="x"),
        row(JB_job_number="8", JAT_start_time="yesterday"),
        row(JB_job_number="9"),
    )
    assert found.jobs.keys() == {key("7"), key("9")}
    assert not found.complete
    assert [each.field for each in found.rejected] == ["JB_job_number", "JAT_start_time"]


def test_a_priority_below_the_usual_is_a_number_of_its_own():
    found = table(row(JB_priority="-5"), row(JB_job_number="8", JB_priority="high"))
    assert [job.priority for job in found.jobs.values()] == [1019, None]


def test_a_limit_asked_for_as_infinity_is_none():
    found = table(row() + '<hard_request name="h_rt">INFINITY</hard_request>')
    assert found.jobs[key("7")].limits == Limits(wall_secs=UNLIMITED)


@pytest.mark.parametrize(
    ("letters", "state"),
    [
        *((each, JobState.PENDING) for each in ("qw", "Rq", "hqw", "hRwq", "Eqw", "Ehqw", "EhRqw", "dqw")),
        *((each, JobState.RUNNING) for each in ("r", "hr", "t", "Rr", "Rt")),
        *((each, JobState.SUSPENDED) for each in ("s", "ts", "S", "tS", "T", "tT", "Rs", "Rts", "RS", "RtT")),
        *((each, JobState.COMPLETING) for each in ("dr", "dt", "dRr", "dRt", "ds", "dS", "dT", "dRs", "dRT")),
        ("z", JobState.COMPLETED),
        *((each, JobState.UNKNOWN) for each in ("", "x", "r!", "E", "h", "d")),
    ],
)
def test_letters_of_a_job(letters, state):
    """Every combination of sge_status(5)."""
    assert parse_state(letters) is state


def test_why_a_job_waits():
    assert [reason_of(each) for each in ("qw", "hqw", "Eqw", "Ehqw")] == [None, "Held", "Error", "Error"]


@pytest.mark.parametrize(("text", "count"), [("4", 1), ("1-3:1", 3), ("6,8", 2), ("1-9:2,15", 6), ("2-3", 2)])
def test_tasks_are_counted(text, count):
    assert count_tasks(text) == count


HOST = """<?xml version='1.0'?><qhost><host name='n1'><hostvalue name='num_proc'>64</hostvalue>
<hostvalue name='load_avg'>1.0</hostvalue>%s</host></qhost>"""
QUEUE_HERE = """<queue name='{0}'><queuevalue qname='{0}' name='slots'>{1}</queuevalue>
<queuevalue qname='{0}' name='slots_used'>{2}</queuevalue>
<queuevalue qname='{0}' name='state_string'>{3}</queuevalue></queue>"""


@pytest.mark.parametrize(
    ("first", "second", "cpus", "idle", "states"),
    [
        ("", "", 64, 60, ("MIXED",)),
        ("d", "", 8, 4, ("MIXED",)),
        ("E", "", 8, 4, ("MIXED",)),
        ("a", "", 64, 60, ("MIXED",)),  # an overload is brief
        ("d", "E", 64, 0, ("MIXED", "BLOCKED")),
        ("s", "S", 64, 0, ("MIXED", "BLOCKED")),
        ("d", "D", 64, 0, ("MIXED", "DRAIN")),
        ("d", "u", 64, 0, ("DOWN", "NOT_RESPONDING")),
    ],
)
def test_what_closed_queues_have_free_is_not_idle(first, second, cpus, idle, states):
    queues = QUEUE_HERE.format("all.q", 64, 4, first) + QUEUE_HERE.format("short.q", 4, 0, second)
    found = parse_cluster((HOST % queues).encode(), taken_at_secs=1.0)
    assert (found.nodes[0].cpus, found.nodes[0].states) == (cpus, states)
    assert compute_cluster_sums(found).cpus.get(("all.q", "idle"), 0) == idle


@pytest.mark.parametrize("text", ["", "x", "3-1", "1-2:0", "1--2", "1-9999999999:1"])
def test_what_are_no_tasks_is_an_error(text):
    with pytest.raises(ParseError):
        count_tasks(text)


# --- hosts ----------------------------------------------------------------------------


def test_captured_hosts():
    found = parse_cluster(HOSTS, taken_at_secs=1.0)
    assert found.partitions == (Partition(name="all.q", nodes=("vm",), state="UP"),)
    assert found.nodes == (
        ClusterNode(
            name="vm",
            states=("MIXED",),
            cpus=4,
            allocated_cpus=3,
            memory_bytes=int(23.5 * 2**30),
            address="vm",
        ),
    )
    assert found.rejected == ()


def queue(states="", slots=4, used=0, name="a.q") -> QueueInstance:
    return QueueInstance(name, "n1", states, slots, used)


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ([queue()], ("IDLE",)),
        ([queue(used=1)], ("MIXED",)),
        ([queue(used=4)], ("ALLOCATED",)),
        ([queue("d", used=4)], ("ALLOCATED", "DRAIN")),
        ([queue("d"), queue()], ("IDLE",)),
        ([queue("D"), queue("o")], ("IDLE", "DRAIN")),
        ([queue("au")], ("DOWN", "NOT_RESPONDING")),
        ([queue("adu")], ("DOWN", "NOT_RESPONDING", "DRAIN")),
        ([queue("E")], ("ERROR",)),
        ([queue("E"), queue()], ("IDLE",)),
        ([], ("IDLE",)),
    ],
)
def test_words_for_a_host(queues, words):
    assert compute_states(queues, is_silent=False) == words


def test_a_host_without_load_does_not_answer():
    data = HOSTS.replace(b"'load_avg'>0.87<", b"'load_avg'>-<")
    assert data != HOSTS
    assert parse_cluster(data, taken_at_secs=1.0).nodes[0].states == ("DOWN", "NOT_RESPONDING")


@pytest.mark.parametrize(
    ("slots", "processors", "found"),
    [
        ([4], 2, 4),
        ([32], 64, 32),
        ([64, 64], 64, 64),  # queues that share the processors
        ([32, 32], 64, 64),  # queues that divide them
        ([8, 4], 4, 8),
        ([], 4, 4),
        ([None], 4, 4),
        ([], None, None),
    ],
)
def test_slots_of_a_host(slots, processors, found):
    assert compute_slots([queue(slots=each) for each in slots], processors) == found


@pytest.mark.parametrize(
    ("states", "state"), [("", "UP"), ("a", "UP"), ("d", "DOWN"), ("s", "DOWN"), ("au", "DOWN")]
)
def test_a_queue_is_up_while_it_starts_jobs(states, state):
    data = HOSTS.replace(b"name='state_string'><", f"name='state_string'>{states}<".encode())
    assert parse_cluster(data, taken_at_secs=1.0).partitions[0].state == state


def test_a_bad_host_costs_itself_only():
    bad = b"<host name='n/2'></host><host name='n3'><hostvalue name='num_proc'>two</hostvalue></host>"
    found = parse_cluster(HOSTS.replace(b"</qhost>", bad + b"</qhost>"), taken_at_secs=1.0)
    assert [each.name for each in found.nodes] == ["vm"]
    assert len(found.rejected) == 2


@given(st.binary(max_size=100), st.integers(0, len(QUEUE)), st.sampled_from([QUEUE, HOSTS]))
def test_damaged_answers_are_answers_or_parse_errors(noise, place, data):
    for parse in (parse_queue, parse_cluster):
        for damaged in (noise, data[:place] + noise + data[place:], data[:place]):
            try:
                parse(damaged, taken_at_secs=1.0)
            except ParseError:
                pass


@given(
    st.dictionaries(
        st.sampled_from(["state", "slots", "tasks", "queue_name", "JAT_start_time", "JB_priority"]),
        st.text("qwhrdEsSTtR0123456789-:,@.xT", max_size=12),
    )
)
def test_any_row_is_a_job_or_rejected(values):
    found = table(row(**values))
    assert len(found.jobs) + len(found.rejected) == 1
