"""The environment of a Prolog."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.prolog import job_from_prolog
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.records.model import Job, JobKey, JobState, Limits

FIXTURES = Path(__file__).parents[3] / "fixtures" / "slurm"


def environment(name: str, **changes: str) -> dict[str, str]:
    lines = (FIXTURES / name).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines) | changes


def test_a_captured_prolog() -> None:
    assert job_from_prolog(environment("prolog.env"), node_name=None) == Job(
        key=JobKey("slurm", "3"),
        state=JobState.RUNNING,
        user="bob",
        uid=6002,
        cluster="hpclab",
        account="atlas",
        partition="batch",
        nodes=("n2",),
        total_cpus=1,
        allocated_cpus=1,
        restarts=0,
    )


def test_a_captured_prolog_of_a_job_on_two_nodes() -> None:
    job = job_from_prolog(environment("prolog-uneven.env"), node_name="other")
    assert (job.nodes, job.total_cpus, job.allocated_cpus) == (("lab1", "lab2"), 3, 2)


def test_a_newer_prolog_knows_times_and_arrays() -> None:
    notes: list[Rejected] = []
    assert job_from_prolog(environment("prolog-newer.env"), node_name=None, note=notes.append) == Job(
        key=JobKey("slurm", "4017"),
        state=JobState.RUNNING,
        name="train model",
        user="alice",
        uid=6001,
        cluster="constructed",
        account="physics",
        partition="gpu",
        start_secs=1795246429,
        nodes=("gpu01", "gpu02", "gpu03"),
        total_cpus=72,
        allocated_cpus=8,
        limits=Limits(wall_secs=10800, cpu_secs=10800 * 72),
        array_job_id="4000",
        array_task_id="17",
        het_job_id="4010",
        het_offset=1,
        restarts=2,
    )
    assert notes == []


@pytest.mark.parametrize(
    ("cpus", "nodes", "here", "total", "share"),
    [
        ("4", "n1", "n1", 4, 4),
        ("4", "n1", "elsewhere", 4, 4),
        ("2(x3),1", "n[1-4]", "n3", 7, 2),
        ("2(x3),1", "n[1-4]", "n4", 7, 1),
        ("2(x3),1", "n[1-4]", "n5", 7, None),
        ("2(x3),1", "n[1-3]", "n3", 7, None),
        ("8(x4)", "n[1-4]", "elsewhere", 32, 8),
        ("1(x999999999),2", "n1", "n1", 10**9 + 1, None),
        ("0", "n1", "n1", None, None),
    ],
)
def test_shares(cpus: str, nodes: str, here: str, total: int | None, share: int | None) -> None:
    job = job_from_prolog(
        {
            "SLURM_JOB_ID": "1",
            "SLURM_JOB_CPUS_PER_NODE": cpus,
            "SLURM_JOB_NODELIST": nodes,
            "SLURMD_NODENAME": here,
        },
        node_name=None,
    )
    assert (job.total_cpus, job.allocated_cpus) == (total, share)


@pytest.mark.parametrize("job_id", [None, "", "0", "abc", "1;rm", "../1", "1\n", "12345678901"])
def test_without_a_plain_id_there_is_no_job(job_id: str | None) -> None:
    environ = {} if job_id is None else {"SLURM_JOB_ID": job_id}
    with pytest.raises(ParseError) as caught:
        job_from_prolog(environ, node_name=None)
    assert caught.value.field == "SLURM_JOB_ID"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SLURM_JOB_UID", "-1"),
        ("SLURM_JOB_CPUS_PER_NODE", "two"),
        ("SLURM_JOB_CPUS_PER_NODE", "2(x"),
        ("SLURM_NODELIST", "n[1-"),
        ("SLURM_NODELIST", "@all"),
        ("SLURM_JOB_START_TIME", "yesterday"),
        ("SLURM_JOB_END_TIME", "1e9"),
        ("SLURM_ARRAY_TASK_ID", "4-5%2"),
        ("SLURM_JOB_RESTART_COUNT", "many"),
    ],
)
def test_a_malformed_value_is_noted_and_stays_unknown(variable: str, value: str) -> None:
    notes: list[Rejected] = []
    environ = environment("prolog.env", **{variable: value})
    job = job_from_prolog(environ, node_name=None, note=notes.append)
    assert [each.field for each in notes] == [variable]
    assert value in notes[0].text
    assert job.key == JobKey("slurm", "3")
    assert job.user == "bob"


def test_a_second_variable_helps_where_the_first_is_malformed() -> None:
    assert job_from_prolog(environment("prolog.env", SLURM_JOB_UID="x"), node_name=None).uid == 6002


def test_an_end_before_the_start_is_noted() -> None:
    notes: list[Rejected] = []
    environ = environment("prolog-newer.env", SLURM_JOB_END_TIME="1795246429")
    job = job_from_prolog(environ, node_name=None, note=notes.append)
    assert job.limits.wall_secs is None
    assert [each.field for each in notes] == ["SLURM_JOB_END_TIME"]


def test_the_year_that_means_no_limit_is_not_a_limit() -> None:
    environ = environment("prolog-newer.env", SLURM_JOB_END_TIME=str(1795246429 + 365 * 86400))
    assert job_from_prolog(environ, node_name=None).limits == Limits()


@pytest.mark.parametrize(
    ("variables", "gpus", "count"),
    [
        ({"SLURM_JOB_GPUS": "0,2"}, ("0", "2"), 2),
        ({"SLURM_JOB_GPUS": "0-2"}, ("0", "1", "2"), 3),
        ({"SLURM_JOB_GPUS": "GPU-6bc1b3ea-2d5c,MIG-7/1/0"}, ("GPU-6bc1b3ea-2d5c", "MIG-7/1/0"), 2),
        ({"SLURM_JOB_GPUS": "1", "SLURM_SHARDS_ON_NODE": "4"}, ("1",), None),
        ({"SLURM_JOB_GPUS": ""}, (), None),
        ({}, (), None),
    ],
)
def test_the_gpus_of_a_job(variables: dict[str, str], gpus: tuple[str, ...], count: int | None) -> None:
    job = job_from_prolog(environment("prolog.env", **variables), node_name=None)
    assert (job.gpus, job.allocated_gpus) == (gpus, count)


def test_a_malformed_list_of_gpus_stays_unknown_and_is_reported() -> None:
    told: list[Rejected] = []
    job = job_from_prolog(environment("prolog.env", SLURM_JOB_GPUS="0,x"), node_name=None, note=told.append)
    assert (job.gpus, job.allocated_gpus) == ((), None)
    assert [each.field for each in told] == ["SLURM_JOB_GPUS"]


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "SLURM_JOB_ID",
                "SLURM_JOB_UID",
                "SLURM_JOB_CPUS_PER_NODE",
                "SLURM_JOB_NODELIST",
                "SLURMD_NODENAME",
                "SLURM_JOB_START_TIME",
                "SLURM_JOB_END_TIME",
                "SLURM_ARRAY_TASK_ID",
                "SLURM_HET_JOB_OFFSET",
                "SLURM_JOB_GPUS",
            ]
        ),
        st.text(max_size=20) | st.from_regex(r"[0-9(x),n\[\]-]{0,12}", fullmatch=True),
    )
)
def test_any_environment_gives_a_job_or_a_parse_error(environ: dict[str, str]) -> None:
    try:
        job = job_from_prolog(environ, node_name=None)
    except ParseError:
        return
    assert job.key == JobKey("slurm", environ["SLURM_JOB_ID"])
