"""Grid Engine's spool directory, constructed after a captured one."""

import errno
import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.gridengine.basics import parse_job_id
from jobfeatures.batch.gridengine.processes import GridEngineJobs
from jobfeatures.batch.gridengine.source import GridEngineSource
from jobfeatures.batch.gridengine.spool import parse_number
from jobfeatures.batch.processes import ActiveJob
from jobfeatures.errors import ParseError
from jobfeatures.records.model import JobKey
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.processes.scan import ProcessScanner
from tests.configured import settings_for


def sge(job_id: str) -> JobKey:
    return JobKey("gridengine", job_id)


def active(gid: int, shepherd: int) -> ActiveJob:
    return ActiveJob(frozenset({gid}), frozenset({shepherd}))


@pytest.fixture
def unreadable():
    return Unreadable()


@pytest.fixture
def spool(tmp_path):
    path = tmp_path / "spool"
    (path / "active_jobs").mkdir(parents=True)
    (path / "active_jobs").chmod(0o755)
    return path


@pytest.fixture
def start(spool):
    """Return a function that starts a job: one directory."""

    def start(name, gid, shepherd, *, task=0):
        path = spool / "active_jobs" / name
        path.mkdir()
        (path / "addgrpid").write_text(f"{gid}\n")
        (path / "pid").write_text(f"{shepherd}\n")
        (path / "config").write_text(f"add_grp_id={gid}\njob_id=1\nja_task_id={task}\naccount=sge\n")
        return path

    return start


@pytest.fixture
def jobs(node, spool, unreadable):
    return GridEngineJobs(
        settings_for("gridengine", gridengine_spool_directory=str(spool), path_procfs=str(node.proc)),
        unreadable,
    )


def test_active_jobs_have_group_and_shepherd(start, jobs, unreadable):
    start("1.1", 65400, 500)
    start("2.3", 65401, 600, task=3)
    assert jobs.update({}) == {sge("1"): active(65400, 500), sge("2.3"): active(65401, 600)}
    assert unreadable.counts == {}


def test_a_job_is_gone_with_its_directory(start, jobs):
    path = start("1.1", 65400, 500)
    assert jobs.update({})
    shutil.rmtree(path)
    assert jobs.update({}) == {}


def test_a_job_that_runs_again_under_its_old_name_is_read_again(start, jobs, spool):
    path = start("1.1", 65400, 500)
    jobs.update({})
    path.rename(spool / "old")
    start("1.1", 65409, 900)
    assert jobs.update({}) == {sge("1"): active(65409, 900)}


def test_what_was_read_is_not_read_again(start, jobs, fail_opening, unreadable):
    start("1.1", 65400, 500)
    jobs.update({})
    fail_opening("/addgrpid", errno.EIO)
    assert jobs.update({}) == {sge("1"): active(65400, 500)}
    assert unreadable.counts == {}


def test_files_that_come_late_are_waited_for(start, jobs, unreadable):
    path = start("1.1", 65400, 500)
    (path / "pid").write_text("")
    (path / "addgrpid").rename(path / "x")
    (path / "config").rename(path / "y")
    assert jobs.update({}) == {}
    (path / "y").rename(path / "config")
    assert jobs.update({}) == {}
    (path / "pid").write_text("500\n")
    (path / "x").rename(path / "addgrpid")
    assert jobs.update({}) == {sge("1"): active(65400, 500)}
    assert unreadable.counts == {}


def test_a_number_that_comes_after_the_pid_is_waited_for(start, jobs):
    path = start("1.1", 65400, 500)
    (path / "addgrpid").write_text("")
    assert jobs.update({}) == {sge("1"): ActiveJob(supervisors=frozenset({500}))}
    (path / "addgrpid").write_text("65400\n")
    assert jobs.update({}) == {sge("1"): active(65400, 500)}


def test_a_node_may_have_tasks_of_a_job_only(start, jobs, fail_opening):
    path = start("1.1", 65400, 500)
    task = path / "1.node7"
    task.mkdir()
    for name in ("addgrpid", "pid"):
        (path / name).rename(task / name)
    assert jobs.update({}) == {sge("1"): active(65400, 500)}
    fail_opening("/addgrpid", errno.EIO)  # it is not read again
    assert jobs.update({}) == {sge("1"): active(65400, 500)}


def test_a_node_that_has_tasks_of_a_job_only_has_its_config_there(start, jobs):
    path = start("3.1", 65400, 500)
    task = path / "1.node7"
    task.mkdir()
    for name in ("addgrpid", "pid", "config"):
        (path / name).rename(task / name)
    assert jobs.update({}) == {sge("3"): active(65400, 500)}


def test_the_batch_source_has_the_same_identities(start, jobs, node, spool):
    """Whatever users write into a job's config."""
    for number, (name, task) in enumerate((("1.1", 0), ("2.7", 7), ("3.1", 1))):
        path = start(name, 65400 + number, 500 + number, task=task)
        with (path / "config").open("a") as config:
            config.write("job_arg1=x\nja_task_id=0\njob_id=9\n")
        shepherd = node.process(500 + number, name=b"sge_shepherd")
        (shepherd / "comm").write_text("sge_shepherd\n")
    config = settings_for(
        "gridengine",
        gridengine_spool_directory=str(spool),
        gridengine_qstat="/nonexistent/qstat",
        path_procfs=str(node.proc),
    )
    source = GridEngineSource(config, SystemClock(), "n1")
    assert source.poll_jobs(()).jobs.keys() == jobs.update({}).keys() == {sge("1"), sge("2.7"), sge("3.1")}


def test_a_directory_that_cannot_be_listed_ends_no_job(start, jobs, monkeypatch, unreadable):
    start("1.1", 65400, 500)
    jobs.update({})

    def fail(path="."):
        raise OSError(errno.EIO, "x")

    monkeypatch.setattr(os, "listdir", fail)
    assert jobs.update({}) == {sge("1"): active(65400, 500)}
    assert unreadable.counts == {"gridengine_spool_eio": 1}


def test_the_tasks_of_a_parallel_job_are_the_jobs(start, jobs):
    path = start("1.1", 65400, 500)
    task = path / "1.node7"
    task.mkdir()
    (task / "addgrpid").write_text("65402\n")
    (task / "pid").write_text("700\n")
    assert jobs.update({}) == {sge("1"): ActiveJob(frozenset({65400, 65402}), frozenset({500, 700}))}


def test_links_and_pipes_in_the_spool_are_refused(start, jobs, unreadable):
    path = start("1.1", 65400, 500)
    (path / "addgrpid").rename(path / "x")
    (path / "addgrpid").symlink_to("x")
    assert jobs.update({}) == {}
    (path / "addgrpid").unlink()
    os.mkfifo(path / "addgrpid")
    assert jobs.update({}) == {}
    assert unreadable.counts == {"gridengine_job_eperm": 2}


def test_a_file_of_somebody_else_is_refused(start, jobs, unreadable, monkeypatch):
    start("1.1", 65400, 500)
    real = os.lstat

    def lstat(path, **more):
        found = real(path, **more)
        owner = found.st_uid + 4711 if str(path).endswith("/addgrpid") else found.st_uid
        return os.stat_result([*found[:4], owner, *found[5:10]])

    monkeypatch.setattr(os, "lstat", lstat)
    assert jobs.update({}) == {}
    assert unreadable.counts == {"gridengine_job_eperm": 1}


def test_a_directory_where_anybody_may_write_proves_nothing(start, jobs, spool, unreadable):
    start("1.1", 65400, 500)
    (spool / "active_jobs").chmod(0o777)
    assert jobs.update({}) == {}
    assert unreadable.counts == {"gridengine_spool_eperm": 1}


def test_other_names_are_passed_over(start, jobs, unreadable):
    for name in ("x", "1", "1.0", "0.1", "1.1.1", "-1.1", "1.1x"):
        start(name, 65400, 500)
    assert jobs.update({}) == {}
    assert unreadable.counts == {}


def test_garbage_costs_its_own_job(start, jobs, unreadable):
    (start("1.1", 65400, 500) / "addgrpid").write_text("-1\n")
    start("2.1", 65401, 600)
    assert jobs.update({}) == {sge("2"): active(65401, 600)}
    assert unreadable.counts == {"gridengine_job_garbage": 1}


@pytest.fixture
def execd(node, spool):
    """Return a function that starts what calls itself the execution daemon."""

    def execd(uid: int, pid: int = 400):
        path = node.process(pid, name=b"sge_execd", uid=uid)
        (path / "cwd").symlink_to(spool)

    return execd


def look(node, jobs, looks=1):
    scanner = ProcessScanner(str(node.proc))
    for _ in range(looks):
        found = jobs.update(scanner.scan())
    scanner.close()
    return found


def test_the_spool_is_where_the_daemon_runs(node, start, execd, unreadable):
    start("1.1", 65400, 500)
    jobs = GridEngineJobs(settings_for("gridengine", path_procfs=str(node.proc)), unreadable)
    assert look(node, jobs) == {}
    assert not jobs.is_here
    execd(uid=0)
    assert look(node, jobs, looks=8) == {sge("1"): active(65400, 500)}
    assert jobs.is_here
    node.end(400)
    assert look(node, jobs) == {sge("1"): active(65400, 500)}


def test_a_daemon_that_comes_back_elsewhere_is_found_again(node, start, execd, spool, unreadable):
    start("1.1", 65400, 500)
    jobs = GridEngineJobs(settings_for("gridengine", path_procfs=str(node.proc)), unreadable)
    execd(uid=0)
    assert look(node, jobs)
    node.end(400)
    moved = spool.rename(spool.with_name("moved"))
    assert look(node, jobs) == {}
    (node.process(400, name=b"sge_execd", uid=0) / "cwd").symlink_to(moved)
    assert look(node, jobs, looks=9) == {sge("1"): active(65400, 500)}


def test_a_users_process_of_the_daemons_name_is_not_followed(node, start, execd, unreadable):
    start("1.1", 65400, 500)
    execd(uid=6001)
    assert (
        look(
            node, GridEngineJobs(settings_for("gridengine", path_procfs=str(node.proc)), unreadable), looks=20
        )
        == {}
    )


@pytest.mark.parametrize(
    ("name", "config", "job_id"),
    [
        ("12.1", "ja_task_id=0\n", "12"),
        ("12.1", "a=b\nja_task_id=1\n", "12.1"),
        ("12.7", "ja_task_id=7\n", "12.7"),
        ("12.7", "ja_task_id=99\n", "12.7"),
        ("12.1", "", "12.1"),
        ("12.1", "job_name=ja_task_id=0\n", "12.1"),
        ("12", "ja_task_id=0\n", None),
        ("x.1", "ja_task_id=0\n", None),
    ],
)
def test_a_task_of_an_array_is_a_job_of_its_own(name, config, job_id):
    assert parse_job_id(name, config) == job_id


@pytest.mark.parametrize(("data", "number"), [(b"65400\n", 65400), (b" 7 ", 7), (b"", None), (b"\n", None)])
def test_numbers(data, number):
    assert parse_number(data) == number


@pytest.mark.parametrize("data", [b"0\n", b"-1\n", b"1 2\n", b"x", b"4294967296\n", b"1\n2\n", "٣".encode()])
def test_what_is_no_number_is_refused(data):
    with pytest.raises(ParseError):
        parse_number(data)


@given(st.binary(max_size=40), st.text(max_size=40), st.text(max_size=80))
def test_anything_gives_a_number_and_a_job_or_an_error(data, name, config):
    try:
        number = parse_number(data)
    except ParseError:
        number = None
    assert number is None or 0 < number < 2**32
    job_id = parse_job_id(name, config)
    assert job_id is None or name.startswith(job_id)
