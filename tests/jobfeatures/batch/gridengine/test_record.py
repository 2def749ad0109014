"""A job's folder below active_jobs: captured from Son of Grid Engine 8.1.9, and constructed after that."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.gridengine.record import parse_hosts, parse_spooled_job
from jobfeatures.errors import ParseError
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState, Limits

FOLDER = Path(__file__).parents[3] / "fixtures/gridengine/10.1"
CONFIG = (FOLDER / "config").read_text()


def parse(name="10.1", config=CONFIG, **more):
    noted = []
    return parse_spooled_job(name, config, note=noted.append, **more), noted


def changed(**values):
    """Return the captured config with other values."""
    lines = [line.partition("=") for line in CONFIG.splitlines()]
    return "\n".join(f"{name}={values.get(name, value)}" for name, _, value in lines)


def test_a_captured_job():
    job, noted = parse(
        environment=(FOLDER / "environment").read_text(),
        hosts=(FOLDER / "pe_hostfile").read_text(),
        uid=6001,
        start_secs=1795268001,
    )
    assert noted == []
    assert job == Job(
        key=JobKey("gridengine", "10"),
        state=JobState.RUNNING,
        name="par",
        user="alice",
        uid=6001,
        account="myacct",
        partition="all.q",
        submit_secs=1795268001,
        start_secs=1795268001,
        nodes=("vm",),
        total_nodes=1,
        total_cpus=2,
        allocated_cpus=2,
        limits=Limits(cpu_secs=3600, memory_bytes=2 * 2**30),
        restarts=0,
    )


def test_limits_are_per_slot_and_cpu_time_is_that_of_all_nodes():
    job, _ = parse(config=changed(pe_slots="8", host_slots="3", h_cpu="3600", h_vmem="1G", h_rss="INFINITY"))
    assert job.limits == Limits(cpu_secs=28800, memory_bytes=3 * 2**30)
    assert (job.total_cpus, job.allocated_cpus) == (8, 3)


def test_limits_of_what_is_consumed_once_a_job_are_not_multiplied():
    job, _ = parse(config=changed(h_vmem="1G", h_vmem_is_consumable_job="1", h_rss="INFINITY"))
    assert job.limits.memory_bytes == 2**30


def test_no_limit_and_an_unknown_limit_are_two_things():
    job, _ = parse(config=changed(h_cpu="INFINITY", h_vmem="INFINITY", h_rss="INFINITY"))
    assert (job.limits.cpu_secs, job.limits.memory_bytes) == (UNLIMITED, UNLIMITED)
    job, _ = parse(config="job_owner=alice\nja_task_id=0\n")
    assert (job.limits, job.allocated_cpus, job.total_cpus) == (Limits(), None, None)
    job, noted = parse(config=changed(h_cpu="soon", h_rss="much", h_vmem="INFINITY"))
    assert job.limits == Limits()
    assert [each.field for each in noted] == ["h_cpu", "h_rss"]


def test_the_elapsed_time_is_not_known_from_here():
    assert parse()[0].limits.wall_secs is None


@pytest.mark.parametrize(
    ("project", "account", "found"),
    [
        ("none", "sge", None),
        ("none", "physics", "physics"),
        ("lhc", "physics", "lhc"),
        ("NONE", "none", None),
    ],
)
def test_the_project_is_the_account_else_what_was_said_with_it(project, account, found):
    assert parse(config=changed(acct_project=project, account=account))[0].account == found


def test_lines_that_a_user_imitates_are_not_believed():
    """Captured: `qsub -b y sleep $'15\\nhost_slots=64\\nja_task_id=7'` writes the argument as it stands."""
    job, noted = parse(config=CONFIG + "job_arg1=15\nhost_slots=64\nja_task_id=7\njob_owner=root\n")
    assert job.key.job_id == "10"
    assert job.allocated_cpus is None
    assert job.user is None
    assert {each.field for each in noted} == {"host_slots", "job_owner"}
    assert job.limits.cpu_secs == 3600


def test_what_is_imitated_as_it_is_changes_nothing():
    assert parse(config=CONFIG + "job_arg1=x\nhost_slots=2\n") == parse()


def test_an_array_s_task_has_its_number():
    job, _ = parse("11.4", changed(ja_task_id="4", job_id="11"))
    assert job.key.job_id == "11.4"
    assert (job.array_job_id, job.array_task_id) == ("11", "4")


def test_a_restarted_job_has_an_unknown_number_of_restarts():
    assert parse(environment="RESTARTED=1\n")[0].restarts is None
    assert parse(environment="")[0].restarts is None


def test_hosts_of_a_parallel_job():
    assert parse_hosts("n1 2 all.q@n1 UNDEFINED\nn2 4 all.q@n2 UNDEFINED\nn1 1 long.q@n1 <NULL>\n") == (
        ("n1", 3),
        ("n2", 4),
    )
    job, _ = parse(config=changed(), hosts="n1 2 a@n1 x\nn2 4 a@n2 x\n")
    assert (job.nodes, job.total_nodes) == (("n1", "n2"), 2)


@pytest.mark.parametrize("text", ["n1\n", "n1 x q@n1\n", "n/1 2 q\n", "n1 -2 q\n"])
def test_broken_hosts_cost_themselves_only(text):
    with pytest.raises(ParseError):
        parse_hosts(text)
    job, noted = parse(hosts=text)
    assert job.nodes == ()
    assert job.allocated_cpus == 2
    assert len(noted) == 1


def test_what_is_no_job_s_name_is_an_error():
    with pytest.raises(ParseError):
        parse_spooled_job("x", CONFIG)


@given(st.text(max_size=300), st.text(max_size=100), st.text(max_size=100))
def test_any_text_is_a_job(config, environment, hosts):
    job, _ = parse("7.1", config, environment=environment, hosts=hosts)
    assert job.key.job_id in {"7", "7.1"}
    assert job.state is JobState.RUNNING


@given(st.lists(st.sampled_from(CONFIG.splitlines()), max_size=80), st.text(max_size=30))
def test_any_part_of_a_config_is_a_job(lines, more):
    job, _ = parse(config="\n".join([*lines, more]))
    assert job.limits.cpu_secs in {None, 1800, 3600, UNLIMITED}
