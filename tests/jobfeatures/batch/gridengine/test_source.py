"""The node's source: a constructed spool directory, and a stand-in for qstat."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.gridengine import site as gridengine
from jobfeatures.batch.gridengine import source as gridengine_source
from jobfeatures.batch.gridengine.prolog import job_from_prolog, job_id_of
from jobfeatures.batch.gridengine.source import ASK_GAP_SECS, RETRY_SECS
from jobfeatures.batch.gridengine.spool import find_spool, is_shepherd
from jobfeatures.errors import ParseError, SourceError
from jobfeatures.records.model import UNLIMITED, JobKey, JobState
from jobfeatures.system.privatefile import read_owned
from tests.configured import settings_for
from tests.running import HandClock, until

ROOT = Path(__file__).parents[4]
FIXTURES = Path(__file__).parents[3] / "fixtures/gridengine"


def key(job_id: str) -> JobKey:
    return JobKey("gridengine", job_id)


class Node:
    """A spool directory, a /proc with its shepherds, and a qstat that answers from files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.active = path / "spool/active_jobs"
        self.proc = path / "proc"
        self.active.mkdir(parents=True)
        self.active.chmod(0o755)
        self.proc.mkdir()
        self.qstat = path / "qstat"
        self.qstat.write_text(f"""#!/bin/bash
            cd {path} || exit 1
            echo "$*" >>asked
            [ -e fault ] && . ./fault
            case $1 in -j) cat jobs.xml ;; -f) cat queues.xml ;; esac
        """)
        self.qstat.chmod(stat.S_IRWXU)
        self.answer_jobs({})
        (path / "queues.xml").write_bytes((FIXTURES / "qstat-f.xml").read_bytes())

    def answer_jobs(self, limits: dict[str, str]) -> None:
        elements = "".join(
            f"<element><JB_job_number>{number}</JB_job_number><JB_hard_resource_list><q><CE_name>h_rt</CE_name>"
            f"<CE_stringval>{limit}</CE_stringval></q></JB_hard_resource_list></element>"
            for number, limit in limits.items()
        )
        text = (
            f"<?xml version='1.0'?><detailed_job_info><djob_info>{elements}</djob_info></detailed_job_info>"
        )
        (self.path / "jobs.xml").write_text(text)

    def start(self, name: str, pid: int = 500, *, task: int = 0) -> Path:
        folder = self.active / name
        shutil.copytree(FIXTURES / "10.1", folder)
        config = (folder / "config").read_text()
        config = config.replace("job_id=10", f"job_id={name.partition('.')[0]}")
        (folder / "config").write_text(config.replace("ja_task_id=0", f"ja_task_id={task}"))
        (folder / "pid").write_text(f"{pid}\n")
        (self.proc / str(pid)).mkdir(exist_ok=True)
        (self.proc / str(pid) / "comm").write_text("sge_shepherd\n")
        return folder

    def asked(self) -> list[str]:
        """Return what was asked since the last call."""
        log = self.path / "asked"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


@pytest.fixture
def clock():
    return HandClock(1795246000.0, 1000.0)


@pytest.fixture
def make(node, clock):
    def make(timeout_secs=60, spool=str(node.path / "spool"), qstat=str(node.qstat)):
        config = settings_for(
            "gridengine",
            gridengine_spool_directory=spool,
            gridengine_qstat=qstat,
            batch_timeout_secs=timeout_secs,
            path_procfs=str(node.proc),
        )
        return gridengine_source.GridEngineSource(config, clock, "vm")

    return make


@pytest.fixture
def source(make):
    return make()


def test_jobs_are_what_the_spool_holds(node, source):
    node.start("10.1")
    node.start("11.4", 600, task=4)
    node.answer_jobs({"10": "1000"})
    table = source.poll_jobs(())
    assert table.jobs.keys() == {key("10"), key("11.4")}
    assert (table.source, table.complete, table.rejected) == ("gridengine", True, ())
    job = table.jobs[key("10")]
    assert (job.limits.wall_secs, job.limits.cpu_secs, job.allocated_cpus) == (1000, 3600, 2)
    assert job.start_secs == int((node.active / "10.1/config").stat().st_mtime)
    assert table.jobs[key("11.4")].limits.wall_secs is None  # the master has not told
    assert table.node.draining


def test_the_master_is_asked_about_these_jobs_and_these_queues_only(node, source):
    node.start("10.1")
    node.start("11.4", 600, task=4)
    node.start("11.6", 700, task=6)
    source.poll_jobs(())
    assert node.asked() == ["-j 10,11 -xml", "-f -F h_rt,s_rt -q *@vm,*@vm.* -u root -xml"]


def test_answers_are_kept_and_asked_for_again(node, source, clock):
    node.start("10.1")
    node.answer_jobs({"10": "1000"})
    source.poll_jobs(())
    node.asked()
    clock.secs += 299
    source.poll_jobs(())
    assert node.asked() == []
    node.start("12.1", 600)
    source.poll_jobs(())
    assert node.asked() == ["-j 12 -xml"]
    clock.secs += ASK_GAP_SECS
    source.poll_jobs(())
    assert sorted(line[:2] for line in node.asked()) == ["-f", "-j"]


def test_a_job_the_master_does_not_know_yet_is_asked_about_again_after_a_while(node, source, clock):
    node.start("10.1")
    (node.path / "jobs.xml").write_bytes((FIXTURES / "qstat-j-unknown.xml").read_bytes())
    source.poll_jobs(())
    node.asked()
    source.poll_jobs(())
    assert node.asked() == []
    clock.secs += RETRY_SECS
    node.answer_jobs({"10": "INFINITY"})
    assert source.poll_jobs(()).jobs[key("10")].limits.wall_secs is UNLIMITED
    assert node.asked() == ["-j 10 -xml"]


@pytest.mark.parametrize(
    "fault",
    [
        "echo 'error: commlib error: got select error (Connection refused)' >&2; exit 1",
        "echo 'Fehler: keine Verbindung'; exit 1",
        "head -c 40 jobs.xml; exit 0",
        "kill -9 $$",
        "exec sleep 60",
    ],
)
def test_a_master_that_does_not_answer_costs_the_limits_only_and_is_told_once(node, make, clock, fault):
    source = make(timeout_secs=0.3 if "sleep" in fault else 60)
    node.start("10.1")
    (node.path / "fault").write_text(fault)
    table = source.poll_jobs(())
    assert table.jobs[key("10")].limits.wall_secs is None
    assert table.jobs[key("10")].limits.cpu_secs == 3600
    assert table.complete
    assert table.node is None
    assert {each.source for each in table.rejected} == {"qstat -j", "qstat -f"}
    clock.secs += RETRY_SECS
    assert source.poll_jobs(()).rejected == ()
    (node.path / "fault").unlink()
    node.answer_jobs({"10": "60"})

    def ask():
        clock.secs += RETRY_SECS
        table = source.poll_jobs(())
        return table if table.node and table.jobs[key("10")].limits.wall_secs is not None else None

    table = until(ask)  # on a busy machine a good answer may be late, too
    assert table.jobs[key("10")].limits.wall_secs == 60
    assert table.node.draining


def test_without_a_command_there_are_jobs(node, make):
    source = make(qstat="/nonexistent/qstat")
    node.start("10.1")
    assert source.poll_jobs(()).jobs.keys() == {key("10")}


def test_a_last_answer_about_queues_outlives_a_failure(node, source, clock):
    source.poll_jobs(())
    (node.path / "fault").write_text("exit 1")
    clock.secs += 300
    assert source.poll_jobs(()).node.draining
    (node.path / "fault").unlink()
    text = (node.path / "queues.xml").read_text().replace("<state>d</state>", "")
    (node.path / "queues.xml").write_text(text)
    clock.secs += RETRY_SECS
    assert not source.poll_jobs(()).node.draining


def test_a_job_whose_folder_has_gone_has_ended(node, source):
    folder = node.start("10.1")
    source.poll_jobs(())
    shutil.rmtree(folder)
    table = source.poll_jobs({key("10")}, {key("10")})
    assert table.jobs == {}
    assert table.complete


def test_a_folder_that_is_kept_after_its_shepherd_is_no_job(node, source):
    """KEEP_ACTIVE of sge_conf(5) leaves them there; another program may have the number by now."""
    node.start("10.1")
    node.start("12.1", 600)
    shutil.rmtree(node.proc / "500")
    (node.proc / "600/comm").write_text("bash\n")
    table = source.poll_jobs({key("10")})
    assert table.jobs == {}


def test_a_folder_that_is_not_complete_proves_nothing(node, source):
    folder = node.start("10.1")
    (folder / "pid").write_text("")
    table = source.poll_jobs((), {key("10"), key("12")})
    assert table.jobs.keys() == {key("10")}
    assert table.jobs[key("10")].state is JobState.UNKNOWN
    assert table.rejected == ()
    assert source.poll_jobs(()).jobs == {}
    (folder / "pid").write_text("500\n")
    assert source.poll_jobs(()).jobs[key("10")].state is JobState.RUNNING


@pytest.mark.parametrize("file", ["config", "pid"])
def test_a_file_that_is_not_the_daemons_proves_nothing(node, source, file):
    folder = node.start("10.1")
    node.start("12.1", 600)
    (folder / file).rename(folder / "x")
    (folder / file).symlink_to("x")
    table = source.poll_jobs({key("10")})
    assert table.jobs.keys() == {key("10"), key("12")}
    assert table.jobs[key("10")].state is JobState.UNKNOWN
    assert len(table.rejected) == 1


def test_a_folder_that_changes_is_read_again(node, source):
    folder = node.start("10.1")
    source.poll_jobs(())
    config = (folder / "config").read_text().replace("host_slots=2", "host_slots=1")
    (folder / "new").write_text(config)
    (folder / "new").rename(folder / "config")
    assert source.poll_jobs(()).jobs[key("10")].allocated_cpus == 1


def test_a_node_may_have_tasks_of_a_parallel_job_only(node, source):
    folder = node.start("10.1")
    task = folder / "1.vm"
    task.mkdir()
    for name in ("config", "pid"):
        (folder / name).rename(task / name)
    for name in ("environment", "pe_hostfile"):
        (folder / name).unlink()
    node.answer_jobs({"10": "60"})
    job = source.poll_jobs(()).jobs[key("10")]
    assert (job.allocated_cpus, job.user, job.nodes) == (2, "alice", ())


def test_a_task_whose_shepherd_comes_later_is_waited_for(node, source):
    folder = node.start("10.1")
    (folder / "1.vm").mkdir()
    for name in ("config", "pid"):
        (folder / name).rename(folder / "1.vm" / name)
    (folder / "2.vm").mkdir()
    source.poll_jobs(())
    (folder / "2.vm/pid").write_text("600\n")
    (node.proc / "600").mkdir()
    (node.proc / "600/comm").write_text("sge_shepherd\n")
    source.poll_jobs(())
    shutil.rmtree(node.proc / "500")
    assert source.poll_jobs(()).jobs[key("10")].state is JobState.RUNNING


def test_between_two_tasks_a_parallel_job_has_not_ended_on_their_node(node, source, clock):
    folder = node.start("10.1")
    task = folder / "1.vm"
    task.mkdir()
    for name in ("config", "pid"):
        (folder / name).rename(task / name)
    node.answer_jobs({"10": "60"})
    assert source.poll_jobs(()).jobs[key("10")].state is JobState.RUNNING
    shutil.rmtree(node.proc / "500")
    assert source.poll_jobs({key("10")}).jobs[key("10")].state is JobState.UNKNOWN
    assert source.poll_jobs(()).jobs == {}
    (node.path / "jobs.xml").write_bytes((FIXTURES / "qstat-j-unknown.xml").read_bytes())
    clock.secs += 300
    assert source.poll_jobs({key("10")}).jobs == {}


def test_the_owner_of_the_trace_is_the_job_s_user(node, source, monkeypatch):
    (node.start("10.1") / "trace").write_text("")
    real, owner = os.lstat, os.getuid() + 1  # whoever runs this owns the spool

    def lstat(path, **more):
        found = real(path, **more)
        return os.stat_result([*found[:4], owner, *found[5:10]]) if str(path).endswith("/trace") else found

    monkeypatch.setattr(os, "lstat", lstat)
    assert source.poll_jobs(()).jobs[key("10")].uid == owner


def test_a_key_that_is_no_job_s_id_proves_nothing(source):
    strange = key("x/y")
    assert source.poll_jobs({strange, JobKey("slurm", "7")}).jobs.keys() == {strange}


def test_a_spool_that_cannot_be_listed_is_no_answer(node, source):
    node.active.chmod(0o777)
    with pytest.raises(SourceError, match="active_jobs"):
        source.poll_jobs(())
    node.active.rmdir()
    with pytest.raises(SourceError):
        source.poll_jobs(())


def test_jobs_that_start_every_second_are_not_asked_about_every_second(node, source, clock):
    questions = 0
    for number in range(1, 31):
        node.start(f"{number}.1")
        clock.secs += 1
        source.poll_jobs(())
        questions += sum(line.startswith("-j") for line in node.asked())
    assert questions == 3


def test_a_long_list_is_asked_about_in_parts(node, source, clock, monkeypatch):
    monkeypatch.setattr(gridengine_source, "MAX_ASKED", 20)
    for number in range(1, 23):
        node.start(f"{number}.1")
    source.poll_jobs(())
    assert len(node.asked()[0].split()[1].split(",")) == 20
    clock.secs += ASK_GAP_SECS
    source.poll_jobs(())
    assert node.asked() == ["-j 21,22 -xml"]


# --- where the daemon is --------------------------------------------------------------


@pytest.fixture
def execd(node):
    """Return a function that starts what calls itself the execution daemon."""

    def execd(uid: int) -> None:
        path = node.proc / "400"
        path.mkdir(exist_ok=True)
        (path / "comm").write_text("sge_execd\n")
        (path / "status").write_text(f"Name:\tsge_execd\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (path / "cwd").symlink_to(node.path / "spool")

    return execd


def test_the_spool_is_where_roots_daemon_runs(node, make, execd):
    source = make(spool=None)
    node.start("10.1")
    with pytest.raises(SourceError, match="no sge_execd"):
        source.poll_jobs(())
    execd(0)
    assert source.poll_jobs(()).jobs.keys() == {key("10")}


def test_a_users_process_of_that_name_is_not_followed(node, execd):
    execd(6001)
    assert find_spool(str(node.proc)) is None


def test_a_shepherd_that_cannot_be_looked_at_is_taken_for_alive(node, monkeypatch):
    def fail(*_args, **_more):
        raise PermissionError(errno.EACCES, "x")

    assert not is_shepherd(4711, str(node.proc))
    monkeypatch.setattr("builtins.open", fail)
    assert is_shepherd(4711, str(node.proc))


def test_a_huge_file_is_not_read(tmp_path):
    with (tmp_path / "config").open("wb") as file:
        file.truncate(2**23)
    with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        read_owned(str(tmp_path / "config"), {os.getuid()}, 100)


# --- settings and hooks ---------------------------------------------------------------


def test_it_is_here_by_its_spool_or_its_commands(node, monkeypatch, tmp_path):
    monkeypatch.delenv("SGE_ROOT", raising=False)
    monkeypatch.setattr("jobfeatures.batch.gridengine.site.find_spool", lambda _procfs: None)
    assert not gridengine.is_here(settings_for("gridengine"))
    assert gridengine.is_here(settings_for("gridengine", gridengine_spool_directory=str(node.path / "spool")))
    monkeypatch.setenv("SGE_ROOT", str(tmp_path))
    (tmp_path / "qhost").write_text("#!/bin/sh\n")
    (tmp_path / "qhost").chmod(0o755)
    assert gridengine.is_here(settings_for("gridengine", gridengine_qstat=f"{tmp_path}/qstat"))
    assert not gridengine.is_here(settings_for("gridengine", gridengine_qstat="/nonexistent/qstat"))


def test_processes_are_looked_for_where_the_daemon_has_procfs(node, clock, execd, monkeypatch):
    monkeypatch.delenv("SGE_ROOT", raising=False)
    config = settings_for("gridengine", gridengine_qstat=str(node.qstat), path_procfs=str(node.proc))
    assert not gridengine.is_here(config)
    execd(0)
    assert gridengine.is_here(config)
    node.start("10.1")
    assert gridengine_source.GridEngineSource(config, clock, "vm").poll_jobs(()).jobs.keys() == {key("10")}


def environ(folder: Path, **more: str) -> dict[str, str]:
    return {"JOB_ID": "10", "SGE_TASK_ID": "undefined", "SGE_JOB_SPOOL_DIR": str(folder), **more}


def test_a_prolog_is_told_by_the_job_s_folder(node):
    folder = node.start("10.1")
    job = job_from_prolog(environ(folder), node_name="vm")
    assert (job.key, job.state, job.user) == (key("10"), JobState.RUNNING, "alice")
    assert (job.allocated_cpus, job.limits.cpu_secs, job.limits.wall_secs) == (2, 3600, None)


@pytest.mark.parametrize("folder", ["", "/nonexistent/active_jobs/10.1", "active_jobs/10.1", "/spool/11.1"])
def test_a_prolog_without_a_folder_knows_the_job_s_id(folder):
    noted = []
    job = job_from_prolog(
        environ(Path("/")) | {"SGE_JOB_SPOOL_DIR": folder}, node_name="vm", note=noted.append
    )
    assert job.key == key("10")
    assert len(noted) == 1


def test_ids_of_prologs_and_jobs():
    assert job_id_of({"JOB_ID": "10", "SGE_TASK_ID": "undefined"}) == "10"
    assert job_id_of({"JOB_ID": "10"}) == "10"
    assert job_id_of({"JOB_ID": "10", "SGE_TASK_ID": "4"}) == "10.4"


@pytest.mark.parametrize(
    "variables", [{}, {"JOB_ID": "x"}, {"JOB_ID": "10.4"}, {"JOB_ID": "1", "SGE_TASK_ID": "x"}]
)
def test_what_is_no_job_s_environment_is_an_error(variables):
    with pytest.raises(ParseError):
        job_id_of(variables)


@given(
    st.dictionaries(
        st.sampled_from(["JOB_ID", "SGE_TASK_ID", "SGE_JOB_SPOOL_DIR"]), st.text("0123456789./xü")
    )
)
def test_any_environment_is_that_of_a_job_or_a_parse_error(variables):
    try:
        job = job_from_prolog(variables, node_name=None)
    except ParseError:
        return
    assert job.key.job_id == job_id_of(variables)


@pytest.mark.program
def test_a_hook_imports_nothing_heavy(node):
    """As for other systems: a prolog starts the command once a job."""
    folder = node.start("10.1")
    code = (
        "import sys, jobfeatures.cli, jobfeatures.commands.publish, jobfeatures.batch.gridengine.prolog as system;"
        "jobfeatures.cli.build_parser('publish', in_haste=True);"
        f"job = system.job_from_prolog({environ(folder)!r}, node_name='vm'); assert job.allocated_cpus == 2;"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    heavy = {
        "xml",
        "defusedxml",
        "ClusterShell",
        "asyncio",
        "subprocess",
        "selectors",
        "datetime",
        "shutil",
    }
    assert heavy & set(done.stdout.split()) == set()


def test_a_prolog_asks_for_the_limit_of_elapsed_time(node):
    folder = node.start("10.1")
    node.answer_jobs({"10": "1::1"})
    job = job_from_prolog(environ(folder), node_name="vm")
    config = settings_for("gridengine", gridengine_qstat=str(node.qstat))
    asked = gridengine.ask_in_prolog(job, config, node_name="vm", timeout_secs=60)
    assert asked.limits.wall_secs == 3601
    never = settings_for("gridengine", hook_ask="never")
    assert gridengine.ask_in_prolog(job, never, node_name="vm", timeout_secs=60) is None
