"""Jobs of which only slurmd's folder, or the CPUs that the node has allocated, tell. Files and answers are constructed."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from jobfeatures.batch.slurm.answers import Answers, Scontrol
from jobfeatures.batch.slurm.source import SlurmSource, UnknownJobDetector
from jobfeatures.batch.slurm.steps import (
    AGAIN_SECS,
    SETUP_SECS,
    LocalSteps,
    Setup,
    Steps,
    WithSteps,
    expand_spool,
    list_jobs,
    list_steps,
    parse_setup,
)
from jobfeatures.errors import ParseError, SourceError
from jobfeatures.records.model import Job, JobKey, JobState, JobTable
from tests.running import HandClock

CONFIG = """Configuration data as of 2026-11-29T16:44:59
ProctrackType           = {proctrack}
SlurmdPidFile           = /run/slurmd.%n.pid
SlurmdSpoolDir          = /var/spool/slurmd/%n
TaskPlugin              = task/cgroup
"""


class Node:
    """A node's /proc and folders; a process's root is a folder of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.proc = path / "proc"
        self.proc.mkdir()
        self.spool = str(path / "spool")

    def has(self, *names: str, root: str = "") -> None:
        folder = Path(f"{self.path}/{root}{self.spool}") if root else Path(self.spool)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (folder / name).touch()

    def runs(
        self,
        pid: int,
        command: str = "slurmd",
        uid: int = 0,
        root: str = "",
        inner: str = "",
        group: str = "/",
    ) -> None:
        (self.proc / str(pid)).mkdir()
        (self.proc / str(pid) / "comm").write_text(f"{command}\n")
        (self.proc / str(pid) / "status").write_text(
            f"Name:\t{command}\nUid:\t{uid}\t0\t0\t0\nNSpid:\t{pid}{inner}\n"
        )
        (self.proc / str(pid) / "cgroup").write_text(f"0::{group}\n")
        (self.proc / str(pid) / "root").symlink_to(self.path / root if root else "/")

    def steps(self, clock: HandClock, *parents: str) -> LocalSteps:
        return LocalSteps("n1", str(self.proc), clock, parents)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def clock() -> HandClock:
    return HandClock(1795246000.0, 1000.0)


def test_slurm_s_configuration_says_where_the_folder_is_and_whether_it_makes_groups() -> None:
    assert parse_setup(CONFIG.format(proctrack="proctrack/cgroup")) == Setup("/var/spool/slurmd/%n", True)
    assert not parse_setup(CONFIG.format(proctrack="proctrack/linuxproc")).makes_groups
    for text in ("", "SlurmdSpoolDir          = (null)\n", "x SlurmdSpoolDir = /a\n"):
        with pytest.raises(ParseError, match="SlurmdSpoolDir"):
            parse_setup(text)
    host = socket.gethostname().partition(".")[0]
    assert expand_spool("/a/%n/%h", "n1") == f"/a/n1/{host}"


def test_the_sockets_of_this_node_s_steps_name_jobs(node: Node) -> None:
    node.has("n1_7.4294967291", "n1_7.0", "n1_8.4294967292", "n1_9.0.2")
    node.has(
        "n11_4.0",
        "n2_5.0",
        "n1_06.0",
        "n1_3",
        "n1_2.x",
        "n1_1.0\n",
        "cred_state",
        "job00001",
        "n1_12345678901.0",
    )
    assert list_steps(node.spool, "n1") == {"7", "8", "9"}
    os.chmod(node.spool, 0o777)
    with pytest.raises(PermissionError):
        list_steps(node.spool, "n1")


def test_only_where_slurmd_s_own_folder_was_read_have_other_jobs_no_step(
    node: Node, clock: HandClock
) -> None:
    assert node.steps(clock).read(node.spool) == Steps()
    node.has("n1_7.0")
    assert node.steps(clock).read(node.spool) == Steps(
        frozenset({"7"}), is_whole=False
    )  # whose folder is it?
    node.runs(40, "bash")
    node.runs(41, uid=1000)  # anybody may call a program so
    assert not node.steps(clock).read(node.spool).is_whole
    node.runs(42)
    assert node.steps(clock).read(node.spool) == Steps(frozenset({"7"}), is_whole=True)
    os.chmod(node.spool, 0o777)
    assert node.steps(clock).read(node.spool) == Steps()


@pytest.mark.parametrize("own", ["", "/../.."])
def test_a_slurmd_in_a_container_has_its_folder_there(node: Node, clock: HandClock, own: str) -> None:
    """Jobs there are asked about; that others have no step is believed where the container is named."""
    node.has()
    node.has("n1_7.0", root="pod")
    node.runs(42, root="pod", inner="\t1", group=f"{own}/pods.slice/pod7.scope/system.slice/slurmd.service")
    seven = frozenset({"7"})
    assert node.steps(clock).read(node.spool) == Steps(seven, is_whole=False)
    assert node.steps(clock, "/pods.slice/pod7?").read(node.spool) == Steps(seven, is_whole=False)
    assert node.steps(clock, "/x", "/pods.slice/pod*.scope").read(node.spool) == Steps(seven, is_whole=True)


def test_a_program_that_root_in_a_container_calls_slurmd_hides_no_job(node: Node, clock: HandClock) -> None:
    """Neither by an empty folder of its own nor by one that cannot be taken."""
    node.has(root="pod")
    node.runs(41, root="pod", inner="\t1", group="/docker/0123")
    assert with_steps(node, clock, Inner("7")).poll_jobs(set()).groupless == frozenset()
    node.has("n1_7.0")
    node.runs(42)
    os.chmod(f"{node.path}/pod{node.spool}", 0o777)
    assert with_steps(node, clock, Inner("7", "8")).poll_jobs(set()).groupless == keys("8")


def test_slurmd_is_searched_anew_when_it_has_gone_and_now_and_then(node: Node, clock: HandClock) -> None:
    node.has("n1_7.0", root="pod")
    node.runs(42, root="pod")
    steps = node.steps(clock)
    assert steps.read(node.spool).is_whole
    node.has("n1_8.0", root="other")
    node.runs(43, root="other")
    assert steps.read(node.spool).jobs == {"7"}
    clock.secs += AGAIN_SECS
    assert steps.read(node.spool).jobs == {"7", "8"}
    (node.proc / "42" / "comm").write_text("bash\n")
    assert steps.read(node.spool).jobs == {"8"}


class Inner:
    """A source that knows these jobs as running, and notes what it is asked."""

    name = "slurm"
    is_local = False

    def __init__(self, *ids: str) -> None:
        self.jobs = {key: Job(key=key, state=JobState.RUNNING) for key in keys(*ids)}
        self.seen: set[JobKey] = set()

    def poll_jobs(self, seen, claimed=()):  # type: ignore[no-untyped-def]
        self.seen = set(seen)
        return JobTable(source="slurm", jobs=self.jobs, taken_at_secs=1.0, complete=True)


def keys(*ids: str) -> set[JobKey]:
    return {JobKey("slurm", each) for each in ids}


def with_steps(node: Node, clock: HandClock, inner: Inner, *, makes_groups: bool = True) -> WithSteps:
    setup = Setup(node.spool, makes_groups)
    return WithSteps(inner, lambda: setup, clock, node.steps(clock))  # type: ignore[arg-type]


def test_a_job_of_which_only_slurmd_s_folder_tells_is_asked_about(node: Node, clock: HandClock) -> None:
    node.has("n1_7.0")
    node.runs(42)
    inner = Inner("7", "8")
    table = with_steps(node, clock, inner).poll_jobs(keys("9"))
    assert inner.seen == keys("7", "9")
    assert table.groupless == keys("8")  # no step yet, or an external job


def test_where_slurm_makes_no_groups_none_is_expected(node: Node, clock: HandClock) -> None:
    table = with_steps(node, clock, Inner("7"), makes_groups=False).poll_jobs(set())
    assert table.groupless == keys("7")


def test_a_folder_that_cannot_be_read_proves_nothing(node: Node, clock: HandClock) -> None:
    assert with_steps(node, clock, Inner("7")).poll_jobs(set()).groupless == frozenset()


def test_a_configuration_that_is_not_told_is_asked_for_again_later_and_one_that_is_each_hour(
    node: Node, clock: HandClock
) -> None:
    asked = []

    def ask_setup() -> Setup:
        asked.append(clock.monotonic_secs())
        if len(asked) in (1, 3):
            raise SourceError("scontrol: no answer")
        return Setup(node.spool, len(asked) < 4)

    source = WithSteps(Inner("7"), ask_setup, clock, node.steps(clock))  # type: ignore[arg-type]
    assert "no answer" in str(source.poll_jobs(set()).rejected[0])
    assert source.poll_jobs(set()).rejected == ()
    clock.secs += AGAIN_SECS
    assert source.poll_jobs(set()).rejected == ()
    clock.secs += AGAIN_SECS
    source.poll_jobs(set())
    assert len(asked) == 2
    clock.secs += SETUP_SECS
    assert source.poll_jobs(set()).groupless == frozenset()  # what is known stays
    clock.secs += AGAIN_SECS
    assert source.poll_jobs(set()).groupless == keys("7")
    assert len(asked) == 4


def job(number: int, cpus: int | None, state: JobState = JobState.RUNNING) -> Job:
    return Job(key=JobKey("slurm", str(number)), state=state, allocated_cpus=cpus)


def test_a_list_is_due_where_more_cpus_are_allocated_than_jobs_have_twice() -> None:
    unexplained = UnknownJobDetector()
    one = [job(1, 2), job(2, 8, JobState.PENDING)]
    assert [unexplained.is_due(2, one), unexplained.has_to_ask] == [False, False]
    assert [unexplained.is_due(4, one), unexplained.has_to_ask] == [False, True]  # it may just have started
    assert [unexplained.is_due(4, one), unexplained.has_to_ask] == [True, False]
    assert [unexplained.is_due(4, one), unexplained.has_to_ask] == [False, False]  # the list had nothing new
    assert [unexplained.is_due(6, one), unexplained.is_due(6, one)] == [False, True]
    assert [unexplained.is_due(2, one), unexplained.is_due(4, one), unexplained.is_due(4, one)] == [
        False,
        False,
        True,
    ]


def test_a_job_that_only_the_node_s_cpus_betray_is_listed_and_asked_about(clock: HandClock) -> None:
    from jobfeatures.batch.slurm.node import NodeAnswer
    from jobfeatures.records.model import NodeNotice

    asked: list[tuple[str, ...]] = []
    listed: list[str] = []

    def ask(job_ids, *, about_node, now_secs, known):  # type: ignore[no-untyped-def]
        asked.append((*job_ids, *(["node"] if about_node else [])))
        jobs = {
            each: Job(key=JobKey("slurm", each), state=JobState.RUNNING, allocated_cpus=2) for each in job_ids
        }
        answers = Answers(jobs=jobs, gone=frozenset(), rejected={}, ask_alone={}, complete=True)
        return answers, NodeAnswer(NodeNotice(), allocated_cpus=2) if about_node else None

    def list_here(node_name: str) -> frozenset[str]:
        listed.append(node_name)
        return frozenset({"7"})

    source = SlurmSource(clock, ask, node_name="n1", list_jobs=list_here)
    tables = []
    for _ in range(8):
        tables.append(source.poll_jobs(()))
        clock.secs += 60
    assert listed == ["n1"]
    assert asked[:3] == [("node",), ("node",), ("7",)]
    assert [len(table.jobs) for table in tables] == [0, 0, 1, 1, 1, 1, 1, 1]


def test_what_squeue_says_beside_ids_is_no_id(tmp_path: Path) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text(
        "#!/bin/sh\n[ \"$*\" = '-a -h -w n1 -t RUNNING -o %A' ] && printf '154\\n160\\nwarning ../7\\n08\\n'\n"
    )
    squeue.chmod(0o755)
    assert list_jobs(Scontrol(str(tmp_path / "scontrol")).programs, "n1") == {"154", "160"}
