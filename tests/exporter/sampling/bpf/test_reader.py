"""The sums against what programs are known to have done: no figure falls, none is lost, none is counted twice."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from jobfeatures_exporter.sampling.bpf.byjob import TaskUsage
from jobfeatures_exporter.sampling.bpf.reader import check_owner
from tests.exporter.sampling.bpf.conftest import HIERARCHIES
from tests.running import started, until

pytestmark = pytest.mark.program

# Known to the byte; the other figures are compared with what the kernel counts for the control group.
KNOWN = ("read_bytes", "written_bytes", "reads", "writes")
TRUTH = (
    "read_bytes",
    "written_bytes",
    "reads",
    "writes",
    "data_read_bytes",
    "data_written_bytes",
    "tasks",
    "execs",
    "done",
)
KINDS = {
    "one thread": "0",
    "four threads": "1",
    "the leader ends first": "2",
    "a thread calls exec": "3",
    "orphans": "4",
    "nobody waits": "5",
    "a thread ends the process": "6",
    "waits for a child of its own": "7",
    "all kinds": "01234567",
}


@pytest.fixture(params=HIERARCHIES, ids=os.path.basename)
def hierarchy(request) -> str:
    """Return each that is here: that of v1 or v2, and v2 beside v1."""
    return request.param


class Storm:
    """A storm in a control group of its own; how many children is for the environment to say."""

    def __init__(
        self, program: Path, groups, folder: Path, *, kinds: str, children: int, at_once: int = 16
    ) -> None:
        self.directory = groups.make(f"/jf_storm_{os.getpid()}_{random.randrange(10**6)}")
        self._groups = groups
        self.file = folder / "data"
        self.file.write_bytes(b"x" * 2**20)
        command = [program, str(children), str(at_once), kinds, self.file]
        self.process = subprocess.Popen([str(word) for word in command])
        until(lambda: Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        groups.join(self.directory, self.process.pid)

    def begin(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> dict[str, int]:
        """Wait until all its processes have gone; return what they did."""
        assert self.process.wait(120) == 0
        until(lambda: self._groups.is_empty(self.directory))
        words = struct.unpack("=9Q", Path(f"{self.file}.truth").read_bytes())
        return dict(zip(TRUTH, words, strict=True))

    def cpu_nanosecs(self) -> int:
        path = self._groups.path(self.directory)
        if (path / "cpuacct.usage").exists():
            return int((path / "cpuacct.usage").read_text())
        return int((path / "cpu.stat").read_text().split()[1]) * 1000 + 999  # v2 cuts at microseconds


@pytest.fixture
def storm(compiled, groups, tmp_path):
    storms = []

    def start(**more) -> Storm:
        storms.append(Storm(compiled("storm"), groups, tmp_path, **more))
        return storms[-1]

    yield start
    for each in storms:
        each.process.kill()
        each.process.wait()


@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
def test_of_processes_that_come_and_go_while_it_looks_everything_is_counted_once(kinds, make_sums, storm):
    children = 2000 if len(kinds) > 1 else 200
    sums = make_sums()
    it = storm(kinds=kinds, children=children)
    sums.look([it.directory])
    before = last = sums.sums_of(it.directory).figures
    assert before.tasks == 1
    it.begin()
    looks = 0
    while it.process.poll() is None:
        sums.look([it.directory])
        now = sums.sums_of(it.directory).figures
        assert all(a >= b for a, b in zip(now, last, strict=True)), "a figure fell"
        last, looks = now, looks + 1
        time.sleep(random.random() * 0.02)
    truth = it.end()
    assert looks >= children // 700 + 1  # two hundred of one kind are soon gone
    assert truth["done"] == 1

    def figures() -> TaskUsage:
        sums.look([it.directory])
        return sums.sums_of(it.directory).figures

    # The kernel frees a task a moment after its end.
    until(lambda: figures().tasks - before.tasks == truth["tasks"] - 1)
    found = figures()
    grown = {name: getattr(found, name) - getattr(before, name) for name in TaskUsage._fields}
    # exec reads the program's head: nothing that the program does.
    by_exec = {"read_bytes": grown["read_bytes"] - truth["read_bytes"], "reads": 2 * truth["execs"]}
    for name in KNOWN:
        assert grown[name] - truth[name] == by_exec.get(name, 0), name
    assert by_exec["read_bytes"] <= 2048 * truth["execs"]
    for name in ("data_read_bytes", "data_written_bytes"):  # and a few of the file system's own
        assert 0 <= grown[name] - truth[name] <= 2**16, name
    # The scheduler brings a task's time up to date at its last switch, and it is charged when the task is freed,
    # which a few tasks are without an event: jobs are told the time that their control group has.
    until(lambda: figures().cpu - before.cpu >= 0.8 * it.cpu_nanosecs())
    assert figures().cpu - before.cpu <= it.cpu_nanosecs()
    checks = sums.checks()
    assert (checks.full, checks.misses) == (0, 0)


@pytest.fixture
def mover(compiled, groups):
    """Return a function that starts threads that write in a control group, and gives the process when they have."""
    with contextlib.ExitStack() as stack:

        def start(directory, threads: int = 1) -> subprocess.Popen:
            join = 'echo $$ >"$0/cgroup.procs" && exec "$@"'
            program = compiled("mover")
            command = ["sh", "-c", join, groups.path(directory), program, threads]
            process = stack.enter_context(
                started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
            )
            assert process.stdout.read(1) == b"x"
            return process

        yield start


def go_on(process: subprocess.Popen) -> None:
    process.stdin.write(b"x")
    assert process.stdout.read(1) == b"x"


@pytest.fixture
def pair(groups):
    """Return two control groups."""
    name = f"/jf_move_{os.getpid()}"
    return groups.make(f"{name}_a"), groups.make(f"{name}_b")


def written(sums, directories) -> list[int]:
    """Return KiB of 1000 bytes written in each, without what the shell and the C library write in passing."""
    sums.look(directories)
    return [sums.sums_of(each).figures.written_bytes // 1000 for each in directories]


@pytest.mark.parametrize("threads", [1, 4])
def test_what_was_done_before_a_move_stays_where_it_was_done(threads, make_sums, groups, mover, pair):
    sums = make_sums()
    process = mover(pair[0], threads)
    assert written(sums, pair) == [100 * threads, 0]
    groups.join(pair[1], process.pid)
    go_on(process)
    assert written(sums, pair) == [100 * threads, 50 * threads]


def test_what_was_done_between_a_look_and_a_move_counts_where_it_was_done(make_sums, groups, mover, pair):
    sums = make_sums()
    process = mover(pair[0])
    sums.look(pair)
    go_on(process)
    groups.join(pair[1], process.pid)  # nobody has looked since it wrote
    assert written(sums, pair) == [150, 0]


def test_a_process_that_no_look_saw_before_its_move_brings_all_along(make_sums, groups, mover, pair):
    sums = make_sums()
    process = mover(pair[0])
    groups.join(pair[1], process.pid)
    go_on(process)
    assert written(sums, pair) == [0, 150]


def test_a_step_that_nobody_saw_counts_for_its_job_and_so_does_one_that_was_removed(make_sums, groups):
    sums = make_sums()
    job = groups.make(f"/slurm_{os.getpid()}/uid_1/job_7")
    sums.look([job])
    step = groups.make(f"{job.path}/step_0/task_0")
    join = 'echo $$ >"$0/cgroup.procs" && head -c 1000000 /dev/zero >/dev/null'
    subprocess.run(["sh", "-c", join, groups.path(step)], check=True)
    until(lambda: groups.is_empty(step))
    groups.remove(step)
    for _ in range(5):  # its record goes; what it had stays the job's
        sums.look([job])
        assert 1_000_000 <= sums.sums_of(job).figures.written_bytes < 1_001_000


def test_threads_processes_and_the_user_are_those_that_are_there(make_sums, groups, mover, pair):
    sums = make_sums()
    process = mover(pair[0], 4)
    subprocess.run(["true"], check=True, user=0)
    sums.look(pair)
    found = sums.sums_of(pair[0])
    assert (found.processes, found.threads, found.user) == (1, 4, None)
    other = subprocess.Popen(["sleep", "60"], user=65534)
    try:
        groups.join(pair[0], other.pid)
        sums.look(pair)
        assert sums.sums_of(pair[0]).processes == 2
        assert sums.sums_of(pair[0]).user == 65534
    finally:
        other.kill()
        other.wait()
    process.kill()
    process.wait()
    sums.look(pair)
    found = sums.sums_of(pair[0])
    assert (found.processes, found.threads, found.running) == (0, 0, 0)


def test_time_that_threads_wait_for_a_cpu_is_what_the_scheduler_says(make_sums, groups, pair):
    sums = make_sums()
    cpu = str(min(os.sched_getaffinity(0)))
    spin = ["taskset", "-c", cpu, "sh", "-c", "while :; do :; done"]
    with contextlib.ExitStack() as stack:
        spinning = [stack.enter_context(started(spin)) for _ in range(3)]
        for each in spinning:
            groups.join(pair[0], each.pid)
        time.sleep(0.5)
        before = sum(waited(each.pid) for each in spinning)
        sums.look(pair)
        found = sums.sums_of(pair[0])
        after = sum(waited(each.pid) for each in spinning)
    assert before <= found.figures.waiting <= after
    assert found.running == 3
    assert found.figures.waiting > 0.3e9


def waited(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])


def test_without_room_for_a_group_its_charges_are_told_and_nothing_else_is_lost(make_sums, groups):
    sums = make_sums(max_groups=16)
    directories = [groups.make(f"/jf_full_{os.getpid()}_{number}") for number in range(40)]
    join = 'echo $$ >"$0/cgroup.procs"; true'
    for each in directories:
        subprocess.run(["sh", "-c", join, groups.path(each)], check=True)
    sums.look(directories)
    assert sums.checks().full > 0
    assert sum(sums.sums_of(each).figures.tasks > 0 for each in directories) < 16


def test_two_thousand_groups_are_all_read(make_sums, groups):
    sums = make_sums()
    directories = [groups.make(f"/jf_many_{os.getpid()}/{number}") for number in range(2000)]
    script = 'for each in "$0"/*/; do echo $$ >"$each/cgroup.procs"; echo 123456789; done >/dev/null'
    sums.look(directories)
    top = os.path.dirname(groups.path(directories[0]))
    # Seen before, and charged where it was at each of its moves.
    with started(["sh", "-c", f"read _; {script}", top], stdin=subprocess.PIPE) as mover:
        until(lambda: Path(f"/proc/{mover.pid}/comm").exists())
        sums.look(directories)
        mover.stdin.write(b"\n")
        mover.stdin.close()
        assert mover.wait(60) == 0
    sums.look(directories)
    assert sum(sums.sums_of(each).figures.written_bytes >= 10 for each in directories) == 2000


def test_threads_of_the_node_are_as_many_as_proc_knows(make_sums):
    """Threads of processes whose namespaces nobody may see, as sandboxes have them, no iterator shows."""

    def known() -> tuple[int, int]:
        hidden = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                os.stat(f"/proc/{pid}/ns/pid")
            except PermissionError:
                hidden += len(os.listdir(f"/proc/{pid}/task"))
            except OSError:
                pass
        return hidden, int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])

    sums = make_sums()

    def agree() -> bool:
        hidden, before = known()
        sums.look([])
        _, after = known()
        return before == after and sums.checks().threads == before - hidden

    until(agree)


def test_an_object_that_others_may_write_is_not_loaded(tmp_path):
    file = tmp_path / "object"
    file.write_bytes(b"")
    file.chmod(0o664)
    with pytest.raises(PermissionError, match="writable by others"):
        check_owner(str(file))
    file.chmod(0o644)
    check_owner(str(file))
