"""History files and condor_history: captured, and constructed ones that HTCondor's library has printed."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.htcondor.accounting import parse_record, read_records, recognise
from jobfeatures.batch.htcondor.fields import Fields
from jobfeatures.errors import Rejected
from jobfeatures.formats.classad.ad import ClassAd
from jobfeatures.formats.classad.longform import NOT_OF_A_JOB, parse_ad
from jobfeatures.joblogs.folding import fold_jobs
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.records.model import JobState

FOLDER = Path(__file__).parents[3] / "fixtures" / "htcondor"
HISTORY = (FOLDER / "history").read_text()
AS_JSON = (FOLDER / "history.json").read_text()
GOOD = "ClusterId = 1\nProcId = 0\nJobStatus = 4\n*** x\n"


def read(text, **more):
    return list(read_records(text.splitlines(keepends=True), source="history", **{"notes": Notes(), **more}))


FIRST = JobRecord(
    batch_system="htcondor",
    job_id="4711.3",
    state=JobState.COMPLETED,
    name="fit",
    user="alice",
    account="group_physics",
    executable="/home/alice/fit",
    priority=-2,
    submit_secs=1795245000,
    start_secs=1795246000,
    end_secs=1795249600,
    suspended_secs=12,
    restarts=1,
    exit_status=0,
    nodes=("wn1.example.org",),
    total_nodes=1,
    total_cpus=8,
    total_gpus=2,
    requested_nodes=1,
    requested_cpus=8,
    requested_gpus=2,
    requested_memory_bytes=2000 * 2**20,
    wall_limit_secs=7200,
    used_cpu_secs=20100.5,
    user_cpu_secs=20000.5,
    system_cpu_secs=100.0,
    used_memory_bytes=1412348 * 1024,
    array_job_id="4711",
    array_task_id="3",
)


@pytest.mark.parametrize("text", [HISTORY, AS_JSON], ids=["long", "json"])
def test_a_history_is_read(text):
    first, removed, killed = read(text)
    assert first == FIRST
    assert (removed.state, removed.start_secs, removed.end_secs) == (JobState.CANCELLED, None, 1795245060)
    assert (removed.total_cpus, removed.requested_memory_bytes, removed.exit_status) == (None, None, None)
    assert (killed.state, killed.exit_status, killed.exit_signal) == (JobState.FAILED, None, 9)
    assert (killed.start_secs, killed.used_memory_bytes, killed.used_cpu_secs) == (
        1795245010,
        3 * 2**20,
        None,
    )


def test_the_jobs_of_a_dag_are_one_workflow():
    first, removed, _ = read(
        HISTORY.replace("ClusterId = 4711\n", "ClusterId = 4711\nDAGManJobId = 4700\n", 1)
    )
    assert (first.workflow_id, removed.workflow_id) == ("4700", None)


def test_a_run_has_its_own_time_and_both_parts_of_its_cpu_time():
    record = read(HISTORY)[0]
    assert (record.user_cpu_secs, record.system_cpu_secs) == (20000.5, 100.0)
    assert record.run_secs is None  # RemoteWallClockTime adds up both runs
    once = read(HISTORY.replace("NumJobStarts = 2", "NumJobStarts = 1"))[0]
    assert once.run_secs == 4088


def test_a_job_that_waits_again_has_no_run():
    record = read(HISTORY.replace("JobStatus = 4", "JobStatus = 1"))[0]
    assert (record.state, record.restarts) == (JobState.PENDING, 2)  # it has started twice
    assert (record.start_secs, record.nodes, record.total_cpus) == (None, (), None)
    assert (record.run_secs, record.used_cpu_secs, record.user_cpu_secs) == (None, None, None)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (HISTORY[:4096], True),
        (AS_JSON[:4096], True),
        ("\n\nA = 1\nQDate=5\n", True),
        ('{"ClusterId":1}', True),
        ('[\n{"In": "/dev/null", "ToE": {"How": "{", "When": 1}, "Args": "25", "ClusterId": 1}', True),
        ("", False),
        ("; Version: 2.2\n1 0 0 5 1\n", False),
        ('{"jobs": [{"job_id": 5}]}', False),
        ('{"meta": {"ClusterId": 1}}', False),
        ("<Job><Id>1</Id></Job>", False),
        ("11/21/2026 00:00:00;E;1.server;user=alice QDate = 5\n", False),
        ("JobID|JobName\n1|ClusterId = 5\n", False),
        ("ClusterId == 5\n", False),
        ("\x00\x01ClusterId", False),
    ],
)
def test_a_history_is_recognised_by_its_beginning(head, expected):
    assert recognise(head) is expected


@pytest.mark.parametrize(
    "bad",
    [
        "ClusterId = 1\nnonsense\n",
        "ProcId = 1\n",
        'ClusterId = 1\nProcId = 0\nOwner = "open\n',
        "ClusterId = 1\nProcId = 0\nQDate = -1\n",
        'ClusterId = 1\nProcId = 0\nJobStatus = "x"\n',
        "ClusterId = 1\nProcId = 0\nClusterId = 2\n",
    ],
)
def test_a_bad_record_costs_itself_only(bad):
    text = f"{GOOD}{bad}*** y\n{GOOD}"
    found = read(text)
    assert [type(each) for each in found] == [JobRecord, Rejected, JobRecord]


def test_a_long_attribute_costs_a_record_nothing_but_itself():
    notes = Notes()
    text = GOOD.replace("*** ", f'Big = "{"x" * 2**20}"\nCmd = "{"y" * 2**20}"\n*** ', 1)
    [record] = read(text, notes=notes)
    assert isinstance(record, JobRecord)
    assert record.executable is None
    assert "Big" in notes.not_taken
    assert "Cmd, such as 'a long value'" in notes.unread


@pytest.mark.parametrize("name", ["history-23.9.6", "history-23.9.6.json"])
def test_a_captured_history_of_23_9_6_is_read(name):
    found = {each.job_id: each for each in read((FOLDER / name).read_text())}
    ends = {
        job_id: (each.state, each.exit_status, each.exit_signal, each.run_secs)
        for job_id, each in found.items()
    }
    of_bob = {"1.0@schedd2@wn1.lab": (JobState.FAILED, 3, None, 7)}
    assert ends == {
        "1.0@wn1.lab": (JobState.COMPLETED, 0, None, 9),
        "2.0@wn1.lab": (JobState.FAILED, None, 9, 6),
        "3.0@wn1.lab": (JobState.CANCELLED, None, None, None if name.endswith("json") else 1),
        "4.0@wn1.lab": (JobState.CANCELLED, None, None, None),
        **(of_bob if not name.endswith("json") else {}),  # the command tells those of one schedd
    }
    done, removed, never = (found[f"{number}.0@wn1.lab"] for number in (1, 3, 4))
    assert (done.name, done.total_cpus, done.nodes, done.restarts) == ("fit", 2, ("wn1.lab",), 0)
    assert (done.submit_secs, done.start_secs, done.end_secs) == (1795854014, 1795854015, 1795854024)
    assert (removed.start_secs, removed.end_secs, removed.used_memory_bytes) == (1795854029, 1795854030, None)
    assert (never.start_secs, never.end_secs, never.nodes) == (None, 1795854031, ())
    assert [each.used_memory_bytes for each in found.values() if each.exit_signal] == [280 * 1024]


def test_what_a_captured_history_has_that_is_not_taken_is_one_line():
    notes = Notes()
    read((FOLDER / "history-23.9.6").read_text(), notes=notes)
    [line] = notes.lines()
    assert line.startswith("not taken: 80 fields, 285 values: ")
    assert len([*notes.lines(in_full=True)]) == 80


RUN = "ClusterId = 1\nProcId = 0\nJobStatus = 2\nJobCurrentStartDate = 20\n"
RUN_ENDS = '*** {}ClusterId=1 ProcId=0 RunInstanceId=0 Owner="alice" CurrentTime=30\n'


@pytest.mark.parametrize("kind", ["", "EPOCH ", "SPAWN ", "INPUT "])
def test_a_run_of_an_epoch_history_is_no_job_that_still_runs(kind):
    good, run, _ = read(GOOD + RUN + RUN_ENDS.format(kind) + GOOD)
    assert isinstance(good, JobRecord)
    assert (run.reason, run.line) == (NOT_OF_A_JOB, 9)


def test_a_run_that_condor_history_printed_is_no_job():
    [run] = read(f"{RUN}EpochWriteDate = 30\n")
    assert run.reason == NOT_OF_A_JOB


def test_a_state_that_nobody_knows_has_its_end():
    [job] = read("ClusterId = 1\nProcId = 0\nJobStatus = 9\nCompletionDate = 20\n*** x\n")
    assert (job.state, job.end_secs) == (JobState.UNKNOWN, 20)


def test_a_fault_is_named_by_its_line():
    (fault,) = read("A = 1\n\nA = 1\nnonsense\n")[1:]
    assert (fault.source, fault.line) == ("history", 4)


def test_a_string_that_imitates_lines_makes_no_record():
    """A user's string with newlines in it, as the library writes it."""
    import classad2

    imitation = 'x\\"\\nClusterId = 99\\nProcId = 0\\n#'
    printed = classad2.ClassAd(f'[ ClusterId = 1; ProcId = 0; Note = "{imitation}" ]').printOld()
    assert "\nClusterId = 99\n" in printed
    found = read(printed)
    assert [type(each) for each in found] == [Rejected]


@pytest.mark.parametrize("mark", ["#", "*** x"])
def test_a_mark_that_ends_a_string_is_refused(mark):
    assert [type(each) for each in read(f'ClusterId = 1\nNote = "x\\"\nProcId = 0\n{mark}"\n\n{GOOD}')] == [
        Rejected,
        JobRecord,
    ]


def test_a_file_that_ends_within_an_ad_keeps_what_was_whole():
    assert [type(each) for each in read(AS_JSON[: AS_JSON.rindex("{") + 20])] == [
        JobRecord,
        JobRecord,
        Rejected,
    ]


def test_empty_files_hold_nothing():
    assert read("") == read("\n\n") == []


@given(st.text() | st.text(alphabet='ClusterIdProc =1"\n*#{}[]<>/', max_size=100))
def test_any_text_gives_records_and_faults(text):
    recognise(text[:4096])
    for each in read(text):
        assert isinstance(each, JobRecord | Rejected)


@pytest.mark.parametrize(
    ("told", "state", "status", "unread"),
    [
        ("ExitCode = 3.0", JobState.FAILED, 3, ()),
        ("ExitCode = 3.7", JobState.UNKNOWN, None, ("ExitCode",)),
        ("ExitCode = 0.5", JobState.UNKNOWN, None, ("ExitCode",)),
        ('ExitCode = "3"', JobState.UNKNOWN, None, ("ExitCode",)),
        ("ExitCode = true", JobState.UNKNOWN, None, ("ExitCode",)),
        ("ExitCode = error", JobState.UNKNOWN, None, ()),
        ("ExitCode = undefined", JobState.COMPLETED, None, ()),
        ('ExitCode = 3\nJobSuccessExitCode = "3"', JobState.UNKNOWN, 3, ("JobSuccessExitCode",)),
        ("ExitCode = 0\nExitBySignal = 1", JobState.UNKNOWN, 0, ("ExitBySignal",)),
        ('ExitCode = "x"\nExitBySignal = true\nExitSignal = 9', JobState.FAILED, None, ("ExitCode",)),
    ],
)
def test_how_a_job_ended_is_unknown_where_what_tells_it_is_of_another_type(told, state, status, unread):
    notes = Notes()
    [record] = read(
        f"ClusterId = 1\nProcId = 0\nJobStatus = 4\nCompletionDate = 1400\n{told}\n*** x\n", notes=notes
    )
    assert (record.state, record.exit_status, record.end_secs) == (state, status, 1400)
    assert tuple(name.partition(",")[0] for name in notes.unread) == unread


@given(st.dictionaries(st.sampled_from(["Owner", "QDate", "ExitCode", "RemoteUserCpu", "MaxHosts", "RequestCpus"]), st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text()))  # fmt: skip
def test_any_values_give_a_record_or_a_fault(values):
    lowered = {name.lower(): value for name, value in values.items()}
    ad = ClassAd({**parse_ad("ClusterId = 1\nProcId = 0\nJobStatus = 4\n").values, **lowered})
    parse_record(Fields(ad, "x"))


# ---------------------------------------------------------------- public files

DATA = os.environ.get("JOBFEATURES_DATA")
PUBLIC = pytest.mark.skipif(DATA is None, reason="JOBFEATURES_DATA names no folder of public logs")


@PUBLIC
def test_public_files_of_shortened_ads_are_no_history():
    folder = Path(DATA) / "batch" / "lapis" / "lapis_tests" / "data"
    if not folder.exists():
        pytest.skip(f"{folder} is not there")
    text = (folder / "job_list_minimal.json").read_text()
    found = read(text)
    assert recognise(text[:4096])
    assert [(type(each), each.field) for each in found] == [(Rejected, "ClusterId")] * text.count('"QDate"')
    assert not recognise((folder / "htcondor_jobs.csv").read_text()[:4096])


def test_a_history_beside_the_queue_tells_of_one_job_and_its_runs():
    """Constructed: a job in the queue, once more after it began again, and in the history."""
    waits = 'ClusterId = 5\nProcId = 0\nOwner = "ann"\nQDate = 1000\nRequestCpus = 2\nNumJobStarts = 0\nJobStatus = 1\n'
    runs = waits.replace("NumJobStarts = 0\nJobStatus = 1", "NumJobStarts = 1\nJobStatus = 2")
    runs += "JobCurrentStartDate = 1100\n"
    again = runs.replace("NumJobStarts = 1", "NumJobStarts = 2").replace("1100", "1300")
    ended = again.replace("JobStatus = 2", "JobStatus = 4") + "CompletionDate = 1400\nExitCode = 0\n"
    for ads, restarts in (((waits, runs), 0), ((runs, waits, ended), 1), ((ended, again, waits), 1)):
        jobs = list(fold_jobs(read("\n".join(ads)), lambda _: None))
        assert [(each.restarts, each.user, each.submit_secs) for each in jobs] == [(restarts, "ann", 1000)]
    assert (jobs[0].state, jobs[0].start_secs, jobs[0].end_secs) == (JobState.COMPLETED, 1300, 1400)


@pytest.mark.parametrize(
    ("starts", "walls", "end"),
    [
        (1, "RemoteWallClockTime = 3600.0\n", 1767000100 + 3600),
        (2, "RemoteWallClockTime = 7200.0\nLastRemoteWallClockTime = 3600.0\n", 1767000100 + 3600),
        (2, "RemoteWallClockTime = 7200.0\n", None),
    ],
)
@pytest.mark.parametrize("last", [1, 5])
def test_the_run_of_a_job_that_was_held_and_removed_later_ended_when_it_left_its_machine(
    starts, walls, end, last
):
    [job] = read(
        f"ClusterId = 9\nProcId = 0\nJobStatus = 3\nLastJobStatus = {last}\nJobCurrentStartDate = 1767000100\n"
        f"CompletionDate = 0\nEnteredCurrentStatus = 1767094000\nNumJobStarts = {starts}\n{walls}*** x\n"
    )
    assert (job.state, job.end_secs) == (JobState.CANCELLED, end)
    assert job.run_secs == (None if end is None else 3600)


@pytest.mark.parametrize(
    "more", ["LastJobStatus = 2\nJobCurrentStartDate = 1767000100\n", "LastJobStatus = 5\n"]
)
def test_a_job_that_is_removed_while_it_runs_or_before_it_has_run_ends_then(more):
    [job] = read(
        f"ClusterId = 9\nProcId = 0\nJobStatus = 3\n{more}EnteredCurrentStatus = 1767094000\n*** x\n"
    )
    assert job.end_secs == 1767094000


def test_a_suspension_is_no_part_of_the_run():
    text = "ClusterId = 9\nProcId = 0\nJobStatus = 4\nRemoteWallClockTime = 90.0\nCumulativeSuspensionTime = 30\n"
    assert [job.run_secs for job in read(f"{text}NumJobStarts = 1\n*** x\n")] == [60]


@pytest.mark.parametrize("status", [2, 6, 7])
@pytest.mark.parametrize(
    "earlier", ["RemoteWallClockTime = 0.0\nNumJobStarts = 1\n", "LastRemoteWallClockTime = 5000.0\n"]
)
def test_a_job_that_runs_has_not_the_run_time_of_the_run_before(status, earlier):
    text = (
        f"ClusterId = 9\nProcId = 0\nJobStatus = {status}\nJobCurrentStartDate = 1767000000\n{earlier}*** x\n"
    )
    [job] = read(text)
    assert (job.start_secs, job.run_secs, job.end_secs) == (1767000000, None, None)


def test_the_time_of_a_machine_that_the_input_did_not_reach_is_no_part_of_the_run():
    """The shadow started twice, the job once: RemoteWallClockTime adds up both (versions without Last…)."""
    text = (
        "ClusterId = 9\nProcId = 0\nJobStatus = 4\nNumJobStarts = 1\nNumShadowStarts = 2\n"
        "JobStartDate = 1767000000\n{}CompletionDate = 1767010000\nRemoteWallClockTime = 9000.0\n*** x\n"
    )
    [job] = read(text.format("JobCurrentStartDate = 1767006400\n"))
    assert (job.start_secs, job.run_secs) == (1767006400, None)
    [job] = read(text.format(""))
    assert (job.start_secs, job.run_secs) == (None, None)  # JobStartDate is that of the first machine
    [job] = read(text.format("LastRemoteWallClockTime = 3600.0\n"))
    assert job.run_secs == 3600


@pytest.mark.parametrize(
    ("status", "committed", "run_secs", "suspended_secs"),
    [
        (4, "CommittedSuspensionTime = 0\n", 3600, 0),
        (4, "CommittedSuspensionTime = 600\n", 3000, 600),
        (4, "", None, None),
        (3, "CommittedSuspensionTime = 0\n", None, None),  # what a removal ends is not committed
    ],
)
def test_suspensions_of_earlier_runs_are_no_part_of_the_last_one(status, committed, run_secs, suspended_secs):
    text = (
        f"ClusterId = 9\nProcId = 0\nJobStatus = {status}\nNumJobStarts = 2\nRemoteWallClockTime = 9000.0\n"
        "LastRemoteWallClockTime = 3600.0\nCumulativeSuspensionTime = 3000\nTotalSuspensions = 1\n"
    )
    [job] = read(f"{text}{committed}*** x\n")
    assert (job.run_secs, job.suspended_secs) == (run_secs, suspended_secs)


@pytest.mark.parametrize("cumulative", ["CumulativeSuspensionTime = 0\n", ""])
def test_of_a_job_that_was_held_while_suspended_and_then_removed_neither_suspension_nor_run_time_is_known(
    cumulative,
):
    """HTCondor adds a suspension when the job goes on: one of 35 s that a hold ended left 0 (23.9.6)."""
    text = f"ClusterId = 9\nProcId = 0\nJobStatus = 3\nLastJobStatus = 5\nRemoteWallClockTime = 90.0\nNumJobStarts = 1\n{cumulative}"
    [removed] = read(f"{text}TotalSuspensions = 1\n*** x\n")
    assert (removed.suspended_secs, removed.run_secs) == (None, None)
    [never] = read(f"{text}TotalSuspensions = 0\n*** x\n")
    assert never.run_secs == 90
