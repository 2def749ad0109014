"""Records of ``scontrol show job``."""

from __future__ import annotations

from datetime import timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.record import STATES, parse_scontrol_job
from jobfeatures.errors import ParseError
from jobfeatures.features.job import job_features
from jobfeatures.features.machine import Machine
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState, Limits

FIXTURES = Path(__file__).parents[3] / "fixtures" / "slurm"
UTC = timezone.utc  # noqa: UP017  # reads like the other zones below
MIB = 2**20


def captured(name: str, job_id: int) -> str:
    """Return one record of a captured text."""
    lines = (FIXTURES / name).read_text().split("\n")
    return next(line for line in lines if line.startswith(f"JobId={job_id} "))


def record(**changes: str) -> str:
    """Return a small record with some values replaced."""
    values = {
        "JobName": "ok",
        "UserId": "alice(6001)",
        "Account": "physics",
        "JobState": "RUNNING",
        "Restarts": "0",
        "TimeLimit": "00:10:00",
        "SubmitTime": "1795246159",
        "StartTime": "1795246160",
        "EndTime": "1795246760",
        "Partition": "batch",
        "NodeList": "n1",
        "NumCPUs": "2",
        "MinMemoryCPU": "100M",
        "MinTmpDiskNode": "0",
        "Features": "(null)",
        "Comment": "none",
        **changes,
    }
    return "JobId=1 " + " ".join(f"{name}={value}" for name, value in values.items() if value != "-")


def test_a_finished_job() -> None:
    assert parse_scontrol_job(captured("answers-plain.stdout.txt", 1), node_name="lab1", tz=UTC) == Job(
        key=JobKey("slurm", "1"),
        state=JobState.COMPLETED,
        name="done",
        user="alice",
        uid=6001,
        account="physics",
        partition="batch",
        submit_secs=1795250629,
        start_secs=1795250630,
        end_secs=1795250630,
        nodes=("lab1",),
        total_cpus=1,
        allocated_cpus=1,
        limits=Limits(wall_secs=600, cpu_secs=600, memory_bytes=20 * MIB),
        restarts=0,
    )


def test_a_job_on_two_nodes_has_a_share_on_each() -> None:
    line = captured("answers-plain.stdout.txt", 2)
    expected = Job(
        key=JobKey("slurm", "2"),
        state=JobState.RUNNING,
        name="uneven",
        user="alice",
        uid=6001,
        account="physics",
        partition="long",
        submit_secs=1795250632,
        start_secs=1795250633,
        limit_end_secs=1795250633 + 10800,
        nodes=("lab1", "lab2"),
        total_cpus=3,
        allocated_cpus=2,
        limits=Limits(wall_secs=10800, cpu_secs=32400, memory_bytes=60 * MIB, scratch_bytes=100 * MIB),
        restarts=0,
    )
    assert parse_scontrol_job(line, node_name="lab1", tz=UTC) == expected
    second = parse_scontrol_job(line, node_name="lab2", tz=UTC)
    assert (second.allocated_cpus, second.limits.memory_bytes) == (1, 30 * MIB)
    elsewhere = parse_scontrol_job(line, node_name="lab3", tz=UTC)
    assert (elsewhere.allocated_cpus, elsewhere.limits.memory_bytes) == (None, None)
    unknown = parse_scontrol_job(line, node_name=None, tz=UTC)
    assert (unknown.allocated_cpus, unknown.limits.memory_bytes) == (None, None)


def test_no_limit_is_distinguished_from_an_unknown_one() -> None:
    job = parse_scontrol_job(captured("answers-plain.stdout.txt", 3), node_name="lab2", tz=UTC)
    assert job.limits == Limits(wall_secs=UNLIMITED, cpu_secs=UNLIMITED, memory_bytes=2**30)
    assert job.end_limit_secs is None


def test_many_cpus_and_broken_gibibytes() -> None:
    job = parse_scontrol_job(captured("answers-2048.stdout.txt", 1), node_name="lab1", tz=UTC)
    assert (job.total_cpus, job.allocated_cpus, job.account) == (2048, 2048, None)
    assert job.limits.memory_bytes == 1536 * MIB
    assert job.limits.cpu_secs == 600 * 2048


@pytest.mark.parametrize(
    ("job_id", "name", "sluid"),
    [(9, "oom", "sA79M8D10WG200"), (24, "arr", "sA79M8D1923R00"), (18, "held", "sA79M8D183G300")],
)
def test_the_sluid_is_not_part_of_the_name(job_id: int, name: str, sluid: str) -> None:
    job = parse_scontrol_job(captured("scontrol-26.05.txt", job_id), node_name="n1", tz=UTC)
    assert (job.name, job.sluid) == (name, sluid)


@pytest.mark.parametrize(
    ("printed", "name", "sluid"),
    [
        ("b SLUID=s4JNM8D0X4VF00 SLUID=sA79M8D1923R00", "b SLUID=s4JNM8D0X4VF00", "sA79M8D1923R00"),
        ("b SLUID=s4JNM8D0X4VF SLUID=sA79M8D1923R00", "b SLUID=s4JNM8D0X4VF", "sA79M8D1923R00"),
        ("b SLUID=sA79M8D1923R0U", "b SLUID=sA79M8D1923R0U", None),
        ("a\nb SLUID=sA79M8D1923R00", "a\nb", "sA79M8D1923R00"),
        (" SLUID=sA79M8D1923R00", "", "sA79M8D1923R00"),
    ],
)
def test_only_the_last_sluid_is_cut_off_a_name(printed: str, name: str, sluid: str | None) -> None:
    later = record(JobName=printed, Licenses="(null)", LicensesAlloc="(null)")
    job = parse_scontrol_job(later, node_name="n1", tz=UTC)
    assert (job.name, job.sluid) == (name, sluid)


def test_a_name_that_ends_like_a_sluid_is_whole_where_slurm_prints_none() -> None:
    job = parse_scontrol_job(captured("scontrol-24.11.txt", 14), node_name="lab1", tz=UTC)
    assert (job.name, job.sluid, job.limits.memory_bytes) == ("run SLUID=s5K1KKYAYG5D00", None, 40 * MIB)


@pytest.mark.parametrize(
    "printed",
    ["x SLUID=sA79M8D1923R00 HetJobIdSet=1-2", "x HetJobIdSet=1-2 SLUID=sA79M8D1923R00"],
)
def test_a_heterogeneous_job_has_its_set_and_its_sluid_behind_the_name(printed: str) -> None:
    line = record(JobName=printed, Licenses="(null)", LicensesAlloc="(null)").replace(
        "JobName", "HetJobId=1 HetJobOffset=0 JobName", 1
    )
    job = parse_scontrol_job(line, node_name="n1", tz=UTC)
    assert (job.name, job.sluid, job.het_job_id) == ("x", "sA79M8D1923R00", "1")


def test_a_newer_record_with_node_ranges_and_gpus() -> None:
    line = (FIXTURES / "scontrol-newer.txt").read_text().rstrip("\n")
    job = parse_scontrol_job(line, node_name="gpu02", tz=UTC)
    assert job == Job(
        key=JobKey("slurm", "3385"),
        state=JobState.RUNNING,
        name="train",
        user="alice",
        uid=6001,
        account="physics",
        partition="gpu",
        submit_secs=1795240000,
        start_secs=1795246429,
        limit_end_secs=1795246429 + 86400,
        nodes=("gpu01", "gpu02", "gpu03"),
        total_cpus=72,
        allocated_cpus=32,
        limits=Limits(wall_secs=86400, cpu_secs=6220800, memory_bytes=32 * 2**30, scratch_bytes=20 * 2**30),
        sluid="s5K1KKYAYG5D00",
        array_job_id="3380",
        array_task_id="5",
        restarts=1,
        gpus=("0", "1"),
        allocated_gpus=2,
    )
    third = parse_scontrol_job(line, node_name="gpu03", tz=UTC)
    assert (third.allocated_cpus, third.gpus, third.allocated_gpus) == (8, ("2", "3"), 2)
    elsewhere = parse_scontrol_job(line, node_name="gpu04", tz=UTC)
    assert (elsewhere.gpus, elsewhere.allocated_gpus) == ((), None)


@pytest.mark.parametrize(
    ("details", "gpus", "count"),
    [
        ("Nodes=n1 CPU_IDs=0-1 Mem=1 GRES=gpu:a100:2(IDX:0,3)", ("0", "3"), 2),
        ("Nodes=n1 CPU_IDs=0-1 Mem=1 GRES=gpu:47gb:0(IDX:),gpu:a100:2(IDX:0-1)", ("0", "1"), 2),
        ("Nodes=n1 CPU_IDs=0-1 Mem=1 GRES=gpu:a100:0(IDX:N/A)", (), None),
        ("Nodes=n1 CPU_IDs=0-1 Mem=1 GRES= TRES=cpu=2,gres/gpu=4,gres/gpu:a100=4", (), 4),
        ("Nodes=n1 CPU_IDs=0-1 Mem=1 GRES= TRES=cpu=2,gres/gpu:a100=1,gres/gpu:h100=2", (), 3),
        ("Nodes=n1 CPU_IDs=0-1 Mem=1 GRES=shard:4(0/4,4/4) TRES=cpu=2,gres/gpu=1", (), None),
        ("TRES=cpu=2,mem=200M,node=1", (), None),
    ],
)
def test_the_gpus_of_a_job_on_this_node(details: str, gpus: tuple[str, ...], count: int | None) -> None:
    job = parse_scontrol_job(record(NumCPUs=f"2   {details}"), node_name="n1", tz=UTC)
    assert (job.gpus, job.allocated_gpus) == (gpus, count)


def test_a_malformed_gpu_index_rejects_the_record() -> None:
    line = record(NumCPUs="2   Nodes=n1 CPU_IDs=0-1 Mem=1 GRES=gpu:2(IDX:3-1)")
    with pytest.raises(ParseError, match="not a range of GPUs"):
        parse_scontrol_job(line, node_name="n1", tz=UTC)


def test_an_array_task_names_its_array() -> None:
    job = parse_scontrol_job(captured("scontrol-jobs.txt", 15), node_name="n2", tz=UTC)
    assert (job.key, job.array_job_id, job.array_task_id) == (JobKey("slurm", "15"), "6", "1")


def test_tasks_not_yet_split_off_are_no_task() -> None:
    job = parse_scontrol_job(captured("scontrol-jobs.txt", 6), node_name="n2", tz=UTC)
    assert (job.state, job.array_job_id, job.array_task_id) == (JobState.PENDING, "6", None)


def test_a_heterogeneous_part_names_its_leader_and_keeps_its_name() -> None:
    job = parse_scontrol_job(captured("scontrol-jobs.txt", 8), node_name="n2", tz=UTC)
    assert (job.name, job.het_job_id, job.het_offset, job.limits.wall_secs) == ("het", "7", 1, UNLIMITED)


def test_a_pending_job_has_no_start_although_one_is_guessed() -> None:
    line = captured("scontrol-jobs.txt", 7)
    assert "StartTime=2026-" in line
    job = parse_scontrol_job(line, node_name="n2", tz=UTC)
    assert (job.start_secs, job.end_secs, job.nodes, job.allocated_cpus) == (None, None, (), None)


def test_a_running_job_has_no_end_although_one_is_planned() -> None:
    line = captured("scontrol-jobs.txt", 4)
    assert "EndTime=2026-" in line
    job = parse_scontrol_job(line, node_name="n2", tz=UTC)
    assert (job.start_secs, job.end_secs, job.end_limit_secs) == (1795246160, None, 1795246220)


def test_without_details_the_only_node_has_all_cpus() -> None:
    job = parse_scontrol_job(captured("scontrol-jobs.txt", 1), node_name="n1", tz=UTC)
    assert (job.total_cpus, job.allocated_cpus, job.limits.memory_bytes) == (2, 2, 200 * MIB)
    assert parse_scontrol_job(captured("scontrol-jobs.txt", 1), node_name="n2", tz=UTC).allocated_cpus is None


def test_a_name_keeps_its_blanks_and_quotes() -> None:
    assert parse_scontrol_job(captured("scontrol-jobs.txt", 14), node_name=None, tz=UTC).name == (
        'weird | name,"q" ü'
    )


def test_every_captured_record_parses() -> None:
    lines = (FIXTURES / "scontrol-jobs.txt").read_text().splitlines()
    jobs = [parse_scontrol_job(line, node_name="n1", tz=UTC) for line in lines]
    assert len(jobs) == 17
    assert JobState.UNKNOWN not in {job.state for job in jobs}


@pytest.mark.parametrize(
    ("cpus", "limit", "wall", "cpu"),
    [
        ("24", "03:00:00", 10800, 259200),
        ("24", "4-03:00:00", 356400, 8553600),
        ("10", "30:00", 1800, 18000),
        ("1", "1-02:04:00", 93840, 93840),
        ("2", "UNLIMITED", UNLIMITED, UNLIMITED),
        ("2", "Partition_Limit", None, None),
        ("2", "INVALID", None, None),
        ("2-4", "00:10:00", 600, None),
        ("2-2", "00:10:00", 600, 1200),
    ],
)
def test_limits_by_time(cpus: str, limit: str, wall: object, cpu: object) -> None:
    job = parse_scontrol_job(record(NumCPUs=cpus, TimeLimit=limit), node_name="n1")
    assert (job.limits.wall_secs, job.limits.cpu_secs) == (wall, cpu)


@pytest.mark.parametrize(
    ("changes", "memory"),
    [
        ({"MinMemoryCPU": "100M"}, 200 * MIB),
        ({"MinMemoryCPU": "0"}, None),
        ({"MinMemoryCPU": "-", "MinTmpDiskNode": "0 MinMemoryNode=0"}, None),
        ({"MinMemoryCPU": "-", "MinTmpDiskNode": "0 MinMemoryNode=4G"}, 4 * 2**30),
        ({"NumCPUs": "2   Nodes=n1 CPU_IDs=0-1 Mem=150 GRES="}, 150 * MIB),
        ({"NumCPUs": "2   Nodes=n1 CPU_IDs=0-1 Mem=0 GRES="}, 200 * MIB),
    ],
)
def test_limits_by_memory(changes: dict[str, str], memory: int | None) -> None:
    assert parse_scontrol_job(record(**changes), node_name="n1").limits.memory_bytes == memory


def test_local_times_need_a_zone_and_epochs_do_not() -> None:
    east = timezone(timedelta(hours=2))
    line = record(StartTime="2026-11-21T07:29:20", SubmitTime="1795246159")
    job = parse_scontrol_job(line, node_name="n1", tz=east)
    assert (job.start_secs, job.submit_secs) == (1795246160 - 7200, 1795246159)


@pytest.mark.parametrize("text", ["Unknown", "None", "N/A", "0"])
def test_an_unknown_time_is_none(text: str) -> None:
    assert parse_scontrol_job(record(StartTime=text), node_name="n1").start_secs is None


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("CONFIGURING", JobState.RUNNING),
        ("SIGNALING", JobState.RUNNING),
        ("RESIZING", JobState.RUNNING),
        ("STOPPED", JobState.SUSPENDED),
        ("COMPLETING", JobState.COMPLETING),
        ("REQUEUED", JobState.COMPLETING),
        ("SPECIAL_EXIT", JobState.PENDING),
        ("REVOKED", JobState.CANCELLED),
        ("BOOT_FAIL", JobState.NODE_FAIL),
        ("DEADLINE", JobState.TIMEOUT),
        ("OUT_OF_MEMORY", JobState.OUT_OF_MEMORY),
        ("UNKNOWN", JobState.UNKNOWN),
        ("MOONWALKING", JobState.UNKNOWN),
        ("", JobState.UNKNOWN),
    ],
)
def test_states(text: str, state: JobState) -> None:
    assert parse_scontrol_job(record(JobState=text), node_name="n1").state is state


def test_each_state_of_the_model_but_unknown_can_be_reported() -> None:
    assert set(STATES.values()) == set(JobState) - {JobState.UNKNOWN}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"JobName": "x UserId=root(0)"}, "UserId"),
        ({"JobName": "x JobName=y"}, "JobName"),
        ({"JobName": "x NumCPUs=64"}, "NumCPUs"),
        ({"JobName": "x ArrayJobId=7 ArrayTaskId=1"}, "ArrayJobId"),
        ({"JobName": "x HetJobId=7 HetJobOffset=0"}, "HetJobId"),
        ({"Comment": "hi UserId=root(0)"}, "UserId"),
        ({"Comment": "hi\nand UserId=root(0)"}, "UserId"),
        ({"Restarts": "-", "Comment": "hi Restarts=7"}, "Restarts"),
        ({"Restarts": "-", "JobName": "hi Restarts=7"}, "Restarts"),
        ({"Comment": "hi MinMemoryNode=1T"}, "MinMemoryNode"),
        ({"MinTmpDiskNode": "-", "Comment": "x MinTmpDiskNode=1T"}, "MinTmpDiskNode"),
        ({"Account": "a MinMemoryNode=1T"}, "MinMemoryNode"),
    ],
)
def test_an_imitated_field_rejects_the_record(changes: dict[str, str], field: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_scontrol_job(record(**changes), node_name="n1")
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["JobName", "Comment", "Account"])
def test_imitated_node_details_are_not_read(field: str) -> None:
    line = record(**{field: "x   Nodes=n1 CPU_IDs=0-63 Mem=999999 GRES="})
    job = parse_scontrol_job(line, node_name="n1")
    assert (job.allocated_cpus, job.limits.memory_bytes) == (2, 200 * MIB)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"UserId": "alice"}, "UserId"),
        ({"UserId": "alice(x)"}, "UserId"),
        ({"UserId": "-"}, "UserId"),
        ({"JobState": "-"}, "JobState"),
        ({"NumCPUs": "-"}, "NumCPUs"),
        ({"NumCPUs": "two"}, "NumCPUs"),
        ({"TimeLimit": "soon"}, "TimeLimit"),
        ({"StartTime": "yesterday"}, "StartTime"),
        ({"StartTime": "2026-13-41T07:29:20"}, "StartTime"),
        ({"SubmitTime": "-5"}, "SubmitTime"),
        ({"NodeList": "n[1-"}, "NodeList"),
        ({"NodeList": "n[0-999999999]"}, "NodeList"),
        ({"MinMemoryCPU": "lots"}, "MinMemoryCPU"),
        ({"NumCPUs": "2   Nodes=n1 CPU_IDs=1-0 Mem=1 GRES="}, "CPU_IDs"),
        ({"NumCPUs": "2   Nodes=n1 CPU_IDs=a Mem=1 GRES="}, "CPU_IDs"),
    ],
)
def test_a_bad_value_names_its_field_and_job(changes: dict[str, str], field: str) -> None:
    with pytest.raises(ParseError, match=r"job 1\)") as caught:
        parse_scontrol_job(record(**changes), node_name="n1")
    assert caught.value.field == field


def test_a_huge_cpu_list_costs_nothing() -> None:
    line = record(NumCPUs="2   Nodes=n1 CPU_IDs=0-999999999999 Mem=1 GRES=")
    assert parse_scontrol_job(line, node_name="n1").allocated_cpus == 10**12


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(ParseError, match="does not start with JobId="):
        parse_scontrol_job("Job 11_9 not found", node_name="n1")


FIELDS = ["UserId", "NumCPUs", "JobState", "StartTime", "TimeLimit", "NodeList", "MinMemoryCPU", "JobName"]


@given(
    st.dictionaries(st.sampled_from(FIELDS), st.text(max_size=20) | st.from_regex(r"[0-9,:()a-zKMG=\[\]-]*")),
    st.none() | st.sampled_from(["n1", "n2"]),
)
def test_any_values_give_a_job_or_a_parse_error(changes: dict[str, str], node: str | None) -> None:
    try:
        job = parse_scontrol_job(record(**changes), node_name=node, tz=UTC)
    except ParseError:
        return
    assert job.key == JobKey("slurm", "1")


@given(st.text(max_size=200) | st.text(alphabet="JobId=1 NameUsr()CPUSta\n", max_size=200))
def test_any_text_gives_a_job_or_a_parse_error(text: str) -> None:
    try:
        parse_scontrol_job(text, node_name="n1")
    except ParseError:
        return


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_no_name_changes_another_field(name: str) -> None:
    honest = parse_scontrol_job(record(), node_name="n1")
    try:
        job = parse_scontrol_job(record(JobName=name), node_name="n1")
    except ParseError:
        return
    assert job.name == name
    assert (job.uid, job.limits, job.total_cpus) == (honest.uid, honest.limits, honest.total_cpus)


# Captured from Slurm 22.05.8: a job of ten minutes, suspended after 3 s and resumed 5 s later.
SUSPENDED = (
    "JobId=1 JobName=wrap UserId=root(0) JobState=SUSPENDED Restarts=0 TimeLimit=00:10:00 "
    "StartTime=1795349507 EndTime=1795350107 Deadline=N/A SuspendTime=1795349510 SecsPreSuspend=3 "
    "Partition=batch NodeList=evi1 NumCPUs=1 Features=(null)"
)
RESUMED = (
    SUSPENDED.replace("=SUSPENDED", "=RUNNING")
    .replace("EndTime=1795350107", "EndTime=1795350112")
    .replace("SuspendTime=1795349510", "SuspendTime=1795349515")
)


def test_the_rest_of_a_suspended_and_resumed_job_is_slurm_s() -> None:
    """``squeue -o %L`` said 9:57 at 1795349515, while it was suspended, and 9:55 at 1795349517, resumed."""
    suspended = parse_scontrol_job(SUSPENDED, node_name="evi1", tz=UTC)
    assert suspended.end_limit_at(1795349515) == 1795349515 + 597
    resumed = parse_scontrol_job(RESUMED, node_name="evi1", tz=UTC)
    assert resumed.end_limit_at(1795349517) == 1795349517 + 595
    assert (resumed.wall_limit_from_start_secs, resumed.limits.wall_secs) == (605, 600)


# Captured from Slurm 22.05.8: a job of half an hour, in its partition's grace of 60 s before it is requeued.
PREEMPTED = (
    "JobId=1 JobName=wrap UserId=alice(6001) JobState=RUNNING Restarts=0 TimeLimit=00:30:00 SubmitTime=1795953965 "
    "StartTime=1795953965 EndTime=1795954028 Deadline=N/A PreemptEligibleTime=1795953965 PreemptTime=1795953968 "
    "SuspendTime=None SecsPreSuspend=0 Partition=low NodeList=drn1 NumCPUs=2 Features=(null)"
)


def test_the_end_of_a_preempted_job_s_grace_is_its_deadline_and_its_limit_stays():
    job = parse_scontrol_job(PREEMPTED, node_name="drn1", tz=UTC)
    assert (job.deadline_secs, job.limits.wall_secs, job.limit_end_secs) == (1795953968 + 60, 1800, None)
    assert job.wall_limit_from_start_secs == 1800
    told = job_features(job, Machine())
    assert (told["shutdowntime_job"], told["wall_limit_secs"]) == ("1795954028", "1800")
    unlimited = PREEMPTED.replace("TimeLimit=00:30:00", "TimeLimit=UNLIMITED")
    assert parse_scontrol_job(unlimited, node_name="drn1", tz=UTC).deadline_secs == 1795954028


def test_a_preempted_job_that_had_been_suspended_ends_when_slurm_says_after_start_and_limit():
    later = str(1795953965 + 1800 + 100)
    job = parse_scontrol_job(PREEMPTED.replace("1795954028", later), node_name="drn1", tz=UTC)
    assert (job.deadline_secs, job.end_limit_secs) == (int(later), int(later))


@pytest.mark.parametrize(
    "line",
    [
        PREEMPTED.replace("PreemptTime=1795953968", "PreemptTime=None"),  # an administrator moved its end
        PREEMPTED.replace(" PreemptTime=1795953968", ""),
        PREEMPTED.replace(
            "EndTime=1795954028", "EndTime=1795955765"
        ),  # its limit comes before the grace's end
        PREEMPTED.replace("=RUNNING", "=COMPLETING"),
        PREEMPTED.replace("EndTime=1795954028", "EndTime=Unknown"),
    ],
)
def test_a_job_without_grace_has_no_deadline(line):
    assert parse_scontrol_job(line, node_name="drn1", tz=UTC).deadline_secs is None
