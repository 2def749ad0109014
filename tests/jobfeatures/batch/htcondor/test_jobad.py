"""Job and machine ads: captured, and constructed ones that HTCondor's library has printed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.htcondor import HTCondorSettings
from jobfeatures.batch.htcondor.evaluate import find_evaluator
from jobfeatures.batch.htcondor.fields import SITE_LIMITS, AdReadingOptions, Fields, is_plain_id
from jobfeatures.batch.htcondor.jobad import job_from_ads, state_of, vacate_time
from jobfeatures.errors import ParseError
from jobfeatures.formats.classad.ad import ClassAd, Expression, Special
from jobfeatures.formats.classad.longform import parse_ad
from jobfeatures.records.model import Job, JobKey, JobState, Limits

FOLDER = Path(__file__).parents[3] / "fixtures" / "htcondor"
IDS = "ClusterId = 12\nProcId = 0\n"


@pytest.fixture
def ads():
    return tuple(parse_ad((FOLDER / name).read_text(), source=name) for name in ("job.ad", "machine.ad"))


def job_of(text, machine="", **more):
    notes = []
    job = job_from_ads(
        parse_ad(IDS + text), parse_ad(machine), AdReadingOptions(notes.append, **more), node_name="wn1"
    )
    return job, [(note.field, note.reason) for note in notes]


def test_the_ads_of_a_slot_have_all_fields_of_a_job(ads):
    assert job_from_ads(*ads, node_name="wn1") == Job(
        key=JobKey("htcondor", "4711.3@submit.example.org"),
        schedd="submit.example.org",
        slot="slot1_3@wn1.example.org",
        state=JobState.RUNNING,
        name='fit "2"',
        user="alice",
        account="group_physics",
        submit_secs=1795245000,
        start_secs=1795246000,
        nodes=("wn1",),
        total_cpus=8,
        total_nodes=1,
        allocated_cpus=8,
        limits=Limits(wall_secs=3600, cpu_secs=28800, memory_bytes=2097152000, scratch_bytes=21474836480),
        array_job_id="4711",
        array_task_id="3",
        restarts=1,
        gpus=("GPU-c4a646d7", "GPU-1d2ef3a0"),
        allocated_gpus=2,
        priority=-2,
    )


def test_the_captured_ads_of_a_slot_of_23_9_6_have_all_but_gpus():
    told = (parse_ad((FOLDER / f"{name}-23.9.6.ad").read_text()) for name in ("job", "machine"))
    assert job_from_ads(*told, node_name="wn1") == Job(
        key=JobKey("htcondor", "5.0@wn1.lab"), schedd="wn1.lab", slot="slot1_2@wn1.lab", state=JobState.RUNNING,
        name='fit "2"', user="alice", account="group_physics", submit_secs=1795854031, start_secs=1795854033, nodes=("wn1",),
        total_cpus=2, total_nodes=1, allocated_cpus=2, array_job_id="5", array_task_id="0", restarts=0, allocated_gpus=0,
        limits=Limits(wall_secs=3600, cpu_secs=7200, memory_bytes=256 * 2**20, scratch_bytes=103424 * 1024), priority=-2,
        grace_secs=15,
    )  # fmt: skip


def test_the_machine_ad_stands_in_for_what_the_job_ad_lacks():
    job, notes = job_of("", "Cpus = 4\nMemory = 2000\nDisk = 20971520\nGPUs = 1\n")
    assert (job.allocated_cpus, job.allocated_gpus) == (4, 1)
    assert job.limits == Limits(memory_bytes=2097152000, scratch_bytes=21474836480)
    assert notes == []


def test_what_is_absent_or_undefined_or_an_expression_is_unknown_and_never_zero():
    for text in ("", "CpusProvisioned = undefined\n", "CpusProvisioned = 2 * X\nMemoryProvisioned = error\n"):
        job, notes = job_of(text, evaluate=find_evaluator())
        assert job == Job(
            key=JobKey("htcondor", "12.0"), state=JobState.RUNNING, nodes=("wn1",), total_nodes=1
        )
        assert notes == []


@pytest.mark.parametrize(
    ("job", "machine", "least", "with_retirement"),
    [
        ("", "MachineMaxVacateTime = 10 * 60\n", 600, 600),  # HTCondor's own default, an expression
        ("", "MachineMaxVacateTime = 2 * (60 * 60)\n", 7200, 7200),  # 2 * $(HOUR)
        ("JobMaxVacateTime = 20\n", "MachineMaxVacateTime = 600\n", 20, 20),
        ("KillSigTimeout = 20\n", "MachineMaxVacateTime = 600\n", 20, 20),
        ("JobMaxVacateTime = 0\n", "MachineMaxVacateTime = 600\n", 0, 0),
        ("JobMaxVacateTime = 30\n", "MachineMaxVacateTime = 15\n", 15, 30),
        ("JobMaxVacateTime = 5000\n", "MachineMaxVacateTime = 15\n", 15, 593),
        ("JobMaxVacateTime = X + 1\n", "MachineMaxVacateTime = 15\n", None, None),
        ("JobMaxVacateTime = 20\n", "MachineMaxVacateTime = Y + 1\n", None, None),
        ("", "", None, None),
        ("", f"MachineMaxVacateTime = {10**8} * {10**8} * {10**8}\n", None, None),
    ],
)
def test_a_job_s_notice_is_what_machine_and_job_let_it_vacate(job, machine, least, with_retirement):
    found, _ = job_of(job, machine, evaluate=None)
    assert found.grace_secs == least
    ads = (Fields(parse_ad(text)) for text in (job, machine))
    assert vacate_time(*ads).after_retirement(593) == with_retirement


def test_a_job_without_a_cpu_has_no_limit_of_cpu_time():
    """HTCondor gives `request_cpus = 0` a slot of 0 CPUs; its CPU time is not limited."""
    job, notes = job_of("CpusProvisioned = 0\nAllowedJobDuration = 3600\n", "Cpus = 0\n")
    assert (job.allocated_cpus, job.limits.wall_secs, job.limits.cpu_secs, notes) == (0, 3600, None, [])


def test_a_zero_is_a_zero():
    job, _ = job_of("CpusProvisioned = 0\nMemoryProvisioned = 0\nNumJobStarts = 0\n", "Cpus = 4\n")
    assert (job.allocated_cpus, job.limits.memory_bytes, job.restarts) == (0, 0, 0)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('CpusProvisioned = "8"\n', "CpusProvisioned"),
        ("MemoryProvisioned = -1\n", "MemoryProvisioned"),
        ("QDate = true\n", "QDate"),
        ("Owner = 5\n", "Owner"),
    ],
)
def test_a_malformed_value_is_reported_and_stays_unknown(text, field):
    job, notes = job_of(text)
    assert [name for name, _ in notes] == [field]
    assert (job.allocated_cpus, job.limits.memory_bytes, job.submit_secs, job.user) == (None,) * 4


@pytest.mark.parametrize(
    ("text", "wall"),
    [
        ("AllowedJobDuration = 100\nMaxRuntime = 5\n", 100),
        ("AllowedExecuteDuration = 90\nMaxRuntime = 5\n", 90),
        ("AllowedJobDuration = 100\nAllowedExecuteDuration = 120\n", 100),
        ("MaxRuntime = 50\n", 50),
        ("MaxRuntime = 50.9\n", 50),
        ("Walltime = 60\n", 60),
        ("Walltime = 60\nMaxRuntime = 50\n", 50),
        ('MaxRuntime = "1h"\nWalltime = 60\n', 60),
        ("", None),
    ],
)
def test_what_htcondor_enforces_beats_a_site_s_own_limits(text, wall):
    job, _ = job_of(text + "CpusProvisioned = 2\n", site_limits=("MaxRuntime", "Walltime"))
    assert job.limits.wall_secs == wall
    assert job.limits.cpu_secs == (None if wall is None else 2 * wall)


def test_the_limit_that_htcondor_ce_sets_counts_without_a_setting():
    assert job_of("MaxRuntime = 50\nBatchRuntime = 259200\n")[0].limits.wall_secs == 259_200
    assert HTCondorSettings().wall_limit_attributes.split(", ") == list(SITE_LIMITS)


def test_a_job_of_the_parallel_universe_may_be_on_other_nodes_too():
    job, _ = job_of("JobUniverse = 11\nCpusProvisioned = 4\n")
    assert (job.allocated_cpus, job.total_cpus, job.total_nodes, job.nodes) == (4, None, None, ())


def test_indices_of_cuda_name_no_gpu():
    job, _ = job_of("", 'AssignedGPUs = "CUDA0,CUDA1"\n')
    assert (job.gpus, job.allocated_gpus) == ((), 2)


def test_a_job_that_was_submitted_alone_is_no_array():
    job, _ = job_of("TotalSubmitProcs = 1\n")
    assert (job.array_job_id, job.array_task_id) == (None, None)


def test_without_an_id_there_is_no_job():
    with pytest.raises(ParseError):
        job_from_ads(parse_ad("ClusterId = 1\n"), ClassAd(), node_name=None)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("JobStatus = 1\n", JobState.PENDING),
        ("JobStatus = 2\n", JobState.RUNNING),
        ("JobStatus = 3\n", JobState.CANCELLED),
        ("JobStatus = 4\nExitCode = 0\n", JobState.COMPLETED),
        ("JobStatus = 4\nExitCode = 2\n", JobState.FAILED),
        ("JobStatus = 4\nExitBySignal = true\n", JobState.FAILED),
        ("JobStatus = 4\nExitCode = 3\nJobSuccessExitCode = 3\n", JobState.COMPLETED),
        ("JobStatus = 4\nExitCode = 0\nJobSuccessExitCode = 3\n", JobState.FAILED),
        ("JobStatus = 4\nExitCode = 3\nJobSuccessExitCode = undefined\n", JobState.FAILED),
        ("JobStatus = 4\nExitBySignal = true\nJobSuccessExitCode = 9\n", JobState.FAILED),
        ("JobStatus = 4\nJobSuccessExitCode = 3\n", JobState.COMPLETED),
        ("JobStatus = 5\n", JobState.PENDING),
        ("JobStatus = 6\n", JobState.COMPLETING),
        ("JobStatus = 7\n", JobState.SUSPENDED),
        ("JobStatus = 0\n", JobState.UNKNOWN),
        ("JobStatus = 8\n", JobState.UNKNOWN),
        ("", JobState.UNKNOWN),
    ],
)
def test_states(text, state):
    assert state_of(Fields(parse_ad(text))) is state


@pytest.mark.parametrize(
    ("text", "is_id"),
    [
        ("12.0", True),
        ("1.10", True),
        ("12", False),
        ("0.1", False),
        ("1.01", False),
        ("slot1_1@h", False),
        ("1.2\n", False),
    ],
)
def test_an_id_is_cluster_and_process(text, is_id):
    assert is_plain_id(text) is is_id


VALUES = (
    st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.text()
    | st.sampled_from([*Special, Expression("A + 1")])
)  # fmt: skip
NAMES = [
    "Owner", "CpusProvisioned", "MemoryProvisioned", "DiskProvisioned", "QDate", "JobCurrentStartDate", "MaxRuntime",
    "AllowedJobDuration", "TotalSubmitProcs", "NumJobStarts", "AssignedGPUs", "JobPrio", "JobUniverse", "JobBatchName",
]  # fmt: skip


@given(st.dictionaries(st.sampled_from([name.lower() for name in NAMES]), VALUES))
def test_any_values_give_a_job(values):
    job = job_from_ads(ClassAd({"clusterid": 1, "procid": 0, **values}), ClassAd(values), node_name="n")
    numbers = (
        job.allocated_cpus,
        job.limits.wall_secs,
        job.limits.memory_bytes,
        job.start_secs,
        job.restarts,
    )
    assert all(number is None or number >= 0 for number in numbers)


# ---------------------------------------------------------------- expressions


@pytest.fixture
def evaluate():
    return find_evaluator()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A + 1", 6),
        ("MY.A * 2", 10),
        ("ifThenElse(Nothing is undefined, 3, Nothing)", 3),
        ('strcat("A", B)', "Ax"),
        ("A / 2.0", 2.5),
        ("A > 3", True),
        ("TARGET.A", Special.UNDEFINED),
        ("C + 1", Special.UNDEFINED),  # an expression itself
        ("jobfeatures_wanted + 1", Special.UNDEFINED),
        ("A +", Special.UNDEFINED),
        ("1; D = 2", Special.UNDEFINED),
        ("error", Special.UNDEFINED),
        ("{ 1, 2 }", Special.UNDEFINED),
        ("[ a = 1 ]", Special.UNDEFINED),
        ("1.0 / 0", Special.UNDEFINED),
        ("(" * 50 + "1" + ")" * 50, 1),
        ("1 + " * 1000 + "1", Special.UNDEFINED),
        ("B + 1", Special.UNDEFINED),
        ("ifThenElse(isUndefined(D), floor(A / 2.0), 1)", 2),
        ('strcat(B, "[eval(1)")', "x[eval(1)"),
        # These can crash HTCondor 25.10 and earlier.
        ('eval("[a=1]")', Special.UNDEFINED),
        ("EVAL (A)", Special.UNDEFINED),
        ("my.eval(A)", Special.UNDEFINED),
        ("A[0]", Special.UNDEFINED),
        ("""'"' + eval("[a=1]") + '"'""", Special.UNDEFINED),
        ('1 /* " */ + eval("1") /* " */', Special.UNDEFINED),
        ('1 // "\neval("[a=1]")"', Special.UNDEFINED),
        ('"a" + "', Special.UNDEFINED),
    ],
)
def test_the_library_evaluates_what_names_literals(evaluate, text, value):
    ad = parse_ad('A = 5\nB = "x"\nC = A + 1\n')
    assert evaluate(Expression(text), ad) == value


def test_expressions_have_values_where_the_library_is(evaluate):
    job, _ = job_of("CpusProvisioned = RequestCpus\nRequestCpus = 4\n", evaluate=evaluate)
    assert job.allocated_cpus == 4


def test_a_tower_of_attributes_takes_no_time(evaluate):
    tower = "".join(f"A{level} = A{level - 1} + A{level - 1}\n" for level in range(1, 100))
    job, _ = job_of(f"A0 = 1\n{tower}CpusProvisioned = A99\n", evaluate=evaluate)
    assert job.allocated_cpus is None


def test_without_the_library_expressions_have_no_value(monkeypatch):
    monkeypatch.setattr("jobfeatures.batch.htcondor.evaluate._LIBRARY", "no_such_library")
    find_evaluator.cache_clear()
    try:
        assert find_evaluator() is None
    finally:
        find_evaluator.cache_clear()
    job, _ = job_of("CpusProvisioned = 2 + 2\n", evaluate=None)
    assert job.allocated_cpus is None


@given(st.text() | st.text(alphabet='AB+*-/()[]{};"= .1?:', max_size=60))
def test_any_expression_has_a_value_or_none(text):
    value = find_evaluator()(Expression(text), parse_ad('A = 5\nB = "x"\n'))
    assert isinstance(value, str | int | float | Special)
