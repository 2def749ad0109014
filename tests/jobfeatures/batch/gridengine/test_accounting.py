"""Accounting files: captured from Son of Grid Engine 8.1.9, and constructed after accounting(5) of others."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.gridengine.accounting import (
    LATE_TASK,
    RESERVED,
    compute_state,
    read_records,
    recognise,
)
from jobfeatures.batch.gridengine.colonlines import FIELDS
from jobfeatures.errors import Rejected
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.records.model import UNLIMITED, JobState

TEXT = (Path(__file__).parents[3] / "fixtures/gridengine/accounting").read_text()
LINE = TEXT.splitlines()[-1]


def read(*lines: str, **more):
    return list(read_records(lines, source="accounting", **{"notes": Notes(), **more}))


def changed(line: str = LINE, more: str = "", **values: str) -> str:
    fields = dict(zip(FIELDS, line.split(":"), strict=True))
    return ":".join({**fields, **values}.values()) + more


def one(**values: str) -> JobRecord:
    [record] = read(changed(**values))
    assert isinstance(record, JobRecord), record
    return record


def test_a_captured_file():
    records = read(*TEXT.splitlines(keepends=True))
    assert [each.job_id for each in records] == ["1", "6", "2.1", "2.2", "2.3", "7", "9", "8", "11.4", "10"]
    assert records[-1] == JobRecord(
        batch_system="gridengine",
        job_id="10",
        state=JobState.FAILED,
        name="par",
        user="alice",
        group="alice",
        account="myacct",
        queue="all.q",
        submit_secs=1795268001,
        start_secs=1795268001,
        end_secs=1795268013,
        restarts=0,
        exit_status=3,
        total_cpus=2,
        requested_cpus=2,
        requested_memory_bytes=2 * 2**30,
        wall_limit_secs=1000,
        cpu_limit_secs=3600,
        run_secs=12.0,
        used_cpu_secs=0.006625,
        user_cpu_secs=0.000856,
        system_cpu_secs=0.005769,
        used_memory_bytes=4584 * 1024,
    )


def test_a_job_that_was_deleted_and_one_that_never_started():
    deleted, unstarted = read(*TEXT.splitlines())[:2]
    assert (deleted.state, deleted.exit_status, deleted.exit_signal) == (JobState.FAILED, 137, 9)
    assert deleted.name == "we<ird&name"
    assert (unstarted.state, unstarted.start_secs, unstarted.end_secs) == (JobState.FAILED, None, None)
    assert unstarted.exit_status is None
    assert unstarted.submit_secs == 1795267823


@pytest.mark.parametrize(
    ("failed", "status", "elapsed", "wall", "state"),
    [
        (0, 0, 5, None, JobState.COMPLETED),
        (0, 3, 5, None, JobState.FAILED),
        (100, 137, 5, 60, JobState.FAILED),
        (100, 137, 61, 60, JobState.TIMEOUT),
        (37, 137, 60, 60, JobState.TIMEOUT),
        (37, 137, 10, 60, JobState.FAILED),
        (100, 137, 61, UNLIMITED, JobState.FAILED),
        (25, 0, 5, None, JobState.PREEMPTED),
        (24, 0, 5, None, JobState.PREEMPTED),
        (19, 0, 5, None, JobState.NODE_FAIL),
        (28, 0, None, None, JobState.FAILED),
        (0, None, 5, None, JobState.UNKNOWN),
        (37, None, 5, None, JobState.FAILED),
    ],
)
def test_how_a_run_ended(failed, status, elapsed, wall, state):
    assert compute_state(failed, status, elapsed, wall) is state


def test_runs_before_are_counted():
    rerun = changed(failed="25")
    counts = [each.restarts for each in read(rerun, changed(job_number="11", failed="25"), rerun, LINE)]
    assert counts == [0, 0, 1, 2]


def test_a_task_of_a_parallel_job_is_a_step():
    record = one(pe_taskid="1.node7", submission_time="0")
    assert (record.step, record.submit_secs) == ("1.node7", None)
    assert one(pe_taskid="").step is None


PARALLEL = {"granted_pe": "mpi", "slots": "16"}


def test_a_parallel_job_used_what_its_tasks_did():
    tasks = [changed(pe_taskid=f"1.n{n}", cpu="2000.0", ru_utime="1990.0", **PARALLEL) for n in (2, 3)]
    job = changed(cpu="105.0", ru_utime="100.0", **PARALLEL)
    notes = Notes()
    *steps, record = read(*tasks, job, notes=notes)
    assert [each.used_cpu_secs for each in steps] == [2000.0, 2000.0]
    assert (record.used_cpu_secs, record.user_cpu_secs) == (4105.0, 4080.0)
    assert record.used_memory_bytes == 3 * 4584 * 1024
    assert not notes.doubtful
    assert read(*tasks, job, job)[-1].used_cpu_secs == 105.0  # the next run's are its own


def test_a_parallel_job_is_doubtful_if_a_task_s_line_follows_its_own():
    notes = Notes()
    first, _ = read(changed(**PARALLEL), changed(pe_taskid="1.n2", **PARALLEL), notes=notes)
    assert first.used_cpu_secs == 0.006625
    assert notes.doubtful == {LATE_TASK: 1}


def test_cpu_time_that_was_reserved_is_not_what_a_job_used():
    """With ACCT_RESERVED_USAGE=true among execd_params, cpu is (end - start) * slots."""
    times = {"start_time": "1795268001", "end_time": "1795268013", "ru_wallclock": "12"}
    notes = Notes()
    [record] = read(
        changed(**times, **PARALLEL, cpu="192.000000", ru_utime="3.5", ru_stime="0.25"), notes=notes
    )
    assert (record.used_cpu_secs, record.user_cpu_secs) == (None, 3.5)
    assert notes.not_taken[RESERVED] == 1
    assert one(**times, **PARALLEL, cpu="191.987", ru_utime="3.5").used_cpu_secs == 191.987
    assert one(**times, **PARALLEL, cpu="192.0", ru_utime="191.5", ru_stime="0.5").used_cpu_secs == 192


def test_a_run_time_of_0_beside_a_start_and_an_end_was_never_measured():
    """As the master writes of a job whose host it has lost."""
    times = {"start_time": "1795268001", "ru_wallclock": "0", "failed": "21"}
    assert one(**times, end_time="1795268061").run_secs is None
    assert one(**times, end_time="1795268001").run_secs == 0


def test_colons_of_a_request_that_univa_wrote_as_a_byte_are_colons():
    """As published of 8.6.2: in this field every colon is the byte 255."""
    line = changed(category="-l h_rt=48:00:00,h_vmem=1G -pe smp 2").replace("48:00:00", "48\ufffd00\ufffd00")
    [record] = read(line)
    assert record.wall_limit_secs == 172800


def test_a_soft_request_is_no_limit():
    record = one(category="-l h_vmem=1G -soft -l h_rt=60,h_vmem=8G -pe smp 2", slots="2")
    assert (record.wall_limit_secs, record.requested_memory_bytes) == (None, 2 * 2**30)


def test_an_array_s_task_has_its_own_id():
    record = one(task_number="4")
    assert (record.job_id, record.array_job_id, record.array_task_id) == ("10.4", "10", "4")


def test_an_older_line_ends_sooner_and_univas_goes_on():
    [record] = read(":".join(LINE.split(":")[: FIELDS.index("iow")]))
    assert record.used_cpu_secs == 0.006625
    assert record.step is None
    [record] = read(
        changed(
            more=":NONE:alice@node1:123456789:0:node1:/home/alice:qsub a.sh:12.5:3\n",
            submission_time="1488840615805",
            start_time="1488840615805",
            end_time="1488840619845",
        )
    )
    assert record.start_secs == 1488840615.805
    assert record.used_memory_bytes == 123456789
    assert record.state is JobState.CANCELLED


def test_a_reservation_and_a_project_are_told():
    record = one(arid="12", project="lhc")
    assert (record.reservation, record.account) == ("12", "lhc")
    assert one(account="sge").account is None


OCS = {
    "job_number": 7,
    "task_number": 0,
    "start_time": 1725898197965334,
    "end_time": 1725898298874079,
    "owner": "alice",
    "group": "users",
    "account": "sge",
    "qname": "all.q",
    "hostname": "node1",
    "department": "defaultdepartment",
    "slots": 1,
    "job_name": "sleep: now",
    "priority": 0,
    "submission_time": 1725898190122999,
    "category": "-l h_rt=200",
    "failed": 0,
    "exit_status": 0,
    "usage": {
        "rusage": {"ru_wallclock": 100, "ru_maxrss": 17428},
        "usage": {"wallclock": 100.9, "cpu": 0.198098, "maxvmem": 222384128.0, "maxrss": 950272.0},
    },
}


def test_one_object_a_line():
    """Constructed after sge_accounting(5) of Open Cluster Scheduler 9."""
    [record] = read(json.dumps(OCS) + "\n")
    assert record == JobRecord(
        batch_system="gridengine",
        job_id="7",
        state=JobState.COMPLETED,
        name="sleep: now",
        user="alice",
        group="users",
        queue="all.q",
        submit_secs=1725898190.122999,
        start_secs=1725898197.965334,
        end_secs=1725898298.874079,
        restarts=0,
        exit_status=0,
        nodes=("node1",),
        total_nodes=1,
        total_cpus=1,
        requested_cpus=1,
        wall_limit_secs=200,
        run_secs=100.0,
        used_cpu_secs=0.198098,
        used_memory_bytes=950272,
    )
    [task] = read(json.dumps({**OCS, "task_number": 3, "pe_task_id": "1.node2", "arid": 5}))
    assert (task.job_id, task.step, task.reservation) == ("7.3", "1.node2", "5")


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        LINE[:60],
        changed(job_number="ten"),
        changed(start_time="-1"),
        changed(failed="no"),
        changed(slots="many"),
        "x" * 70000,
        "{x",
        "{}",
        '{"job_number": 7, "start_time": NaN}',
        '{"job_number": 1e99}',
        "\ufffd\ufffd\0\0",
    ],
)
def test_a_bad_line_costs_itself_only(line):
    good, bad, also_good = read(LINE, line, LINE)
    assert good == also_good
    assert isinstance(bad, Rejected)
    assert (bad.source, bad.line) == ("accounting", 2)


def test_comments_and_empty_lines_are_passed_over():
    assert read("# Version: 8.1.9\n", "\n", " \n", "x\n") == []


def test_both_forms_are_recognised_and_others_are_not():
    assert recognise(TEXT[:4096])
    assert recognise(LINE)
    assert recognise(json.dumps(OCS)[:4096])
    others = [
        "",
        "# Version: 8.1.9\n",
        "; Version: 2.2\n1 0 5 100\n",
        "JobID|State\n1|COMPLETED\n",
        "{}",
        "a:b:c\n",
    ]
    assert not any(recognise(each) for each in others)
    pbs = (
        "04/16/2026 00:00:01;E;1.server;user=alice group=users queue=workq ctime=1 qtime=1 etime=1 start=1\n"
    )
    assert not recognise(pbs)


def test_a_run_has_its_own_time():
    [record] = read(json.dumps(OCS))
    assert (record.start_secs, record.run_secs) == (1725898197.965334, 100)


@given(st.text(max_size=200), st.integers(0, len(LINE)))
def test_damaged_lines_are_records_or_rejected(noise, place):
    damaged = [noise, LINE[:place] + noise + LINE[place:], LINE[:place], "{" + noise, json.dumps(OCS)[:place]]
    lines = [each.replace("\n", " ") for each in damaged]
    assert all(isinstance(each, (JobRecord, Rejected)) for each in read(*lines))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(OCS)), inner, max_size=5)
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_object_is_a_record_or_rejected(document):
    assert len(read(json.dumps(document))) <= 1
