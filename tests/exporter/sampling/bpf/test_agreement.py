"""Both readers on the same processes: what the kernel sums lies between two readings of /proc around it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.model.snapshot import JobSample, ProcessIo
from jobfeatures_exporter.sampling.bpf.choice import Choice
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from tests.exporter.sampling.bpf.conftest import CGROUP
from tests.running import started, until

pytestmark = pytest.mark.program

KEY = JobKey("slurm", str(9_880_000 + os.getpid() % 10_000))
NODE = f"jfagree{os.getpid()}"  # others see no jobs of another node
# Writes and reads without a pause, in this many threads, with a child now and then that it waits for.
BUSY = """
import os, sys, threading
null, zero = os.open("/dev/null", os.O_WRONLY), os.open("/dev/zero", os.O_RDONLY)
def work():
    while True:
        os.write(null, os.read(zero, 1000))
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=work, daemon=True).start()
while True:
    for _ in range(200):
        os.write(null, os.read(zero, 500))
    if (pid := os.fork()) == 0:
        os.write(null, b"x" * 2000)
        os._exit(0)
    os.waitpid(pid, 0)
"""
# Its leader has ended, two threads go on.
HEADLESS = """
import ctypes, os, threading, time
for _ in range(2):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
"""
# Many threads that only wait; it says when they are there.
CROWD = """
import signal, sys, threading
threading.stack_size(2**16)
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=signal.pause, daemon=True).start()
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture
def job(groups):
    """Make a job's control groups, those of memory too, where v1 has them apart; return where to join it."""
    directory = groups.make(f"{groups.of_job(NODE, KEY.job_id)}/step_0/task_0")
    places = [groups.path(directory)]
    memory = None
    if groups.freezer:
        memory = Path(f"{CGROUP}/memory{directory.path}")
        memory.mkdir(parents=True)
        places.append(memory)
    yield places
    if memory is not None:
        for each in (memory, *list(memory.parents)[:2]):
            until(lambda each=each: _is_removed(each))
        for each in list(memory.parents)[2:4]:  # the batch system's own folders may be others' too
            _is_removed(each)


def _is_removed(place: Path) -> bool:
    with contextlib.suppress(OSError):
        place.rmdir()
    return not place.exists()


@pytest.fixture
def run(job):
    """Return a function that starts a program in the job."""
    with contextlib.ExitStack() as stack:

        def start(*words: object, **more) -> subprocess.Popen:
            join = 'n=$1; shift; while [ $n -gt 0 ]; do echo $$ >"$1/cgroup.procs"; shift; n=$((n-1)); done; exec "$@"'
            command = ["sh", "-c", join, "sh", len(job), *job, *words]
            return stack.enter_context(started(command, **more))

        yield start


@pytest.fixture
def readers(make_sums):
    """Return functions that take a look at the job: by /proc, and by the kernel's sums."""
    with contextlib.ExitStack() as stack:

        def make(**more) -> Sampler:
            sampler = Sampler(SamplerSettings(node_name=NODE, process_io=True), SystemClock(), **more)
            stack.callback(sampler.close)
            return sampler

        by_proc, by_kernel = make(), make(reader=Choice(make_sums()))

        def look(sampler: Sampler) -> JobSample:
            return sampler.sample().jobs[KEY]

        yield lambda: look(by_proc), lambda: look(by_kernel)


def growth(now: ProcessIo, before: ProcessIo) -> ProcessIo:
    return ProcessIo(*(a - b for a, b in zip(now, before, strict=True)))


def test_processes_and_threads_are_as_many_and_are_the_same_users(run, readers):
    by_proc, by_kernel = readers
    run("sleep", 60)
    run(sys.executable, "-c", BUSY, 3)

    def agree() -> bool:
        one, other = by_proc(), by_kernel()
        assert one.uid == other.uid == 0
        return (other.processes, other.threads) == (one.processes, one.threads) == (2, 4)

    until(agree)  # the busy one may have a child at one of the two looks


def test_threads_go_on_when_their_leader_has_ended(run, readers):
    """On v1 /proc says of the leader that it is in no job any more, but not of its other threads."""
    by_proc, by_kernel = readers
    run(sys.executable, "-c", HEADLESS)
    until(lambda: (by_kernel().processes, by_kernel().threads) == (1, 3))
    for _ in range(10):
        assert [(each.processes, each.threads) for each in (by_proc(), by_kernel())] == [(1, 3)] * 2
        assert by_proc().process_io is not None


def test_a_zombie_is_a_process_of_its_job(run, readers):
    by_proc, by_kernel = readers
    script = "import os, time\nfor _ in range(5):\n  if os.fork() == 0: os._exit(0)\ntime.sleep(60)"
    run(sys.executable, "-c", script)
    until(lambda: (by_kernel().processes, by_kernel().threads) == (6, 6))
    assert [(each.processes, each.threads) for each in (by_proc(), by_kernel())] == [(6, 6)] * 2


def test_input_and_output_grow_by_as_much(run, readers):
    by_proc, by_kernel = readers
    run(sys.executable, "-c", BUSY, 2)
    run(sys.executable, "-c", BUSY, 1)
    until(lambda: by_proc().processes >= 2)
    before = by_proc().process_io
    begun = by_kernel().process_io
    after_begin = by_proc().process_io
    for _ in range(10):
        time.sleep(0.1)
        least = by_proc().process_io
        now = by_kernel().process_io
        most = by_proc().process_io
    kernel = growth(now, begun)
    # A child that nobody has waited for yet is not in its parent's figures.
    slack = 2 * (2000 + 2**12)
    for name in ("read_bytes", "written_bytes"):
        low = getattr(growth(least, after_begin), name)
        high = getattr(growth(most, before), name)
        assert low - slack <= getattr(kernel, name) <= high + slack, name
    assert kernel.written_bytes > 10**6


def test_what_short_processes_did_that_nobody_waited_for_is_counted_by_the_kernel_alone(run, readers):
    by_proc, by_kernel = readers
    script = (
        "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "null = os.open('/dev/null', os.O_WRONLY)\nprint('go', flush=True)\ninput()\n"
        "for _ in range(600):\n  if os.fork() == 0:\n    os.write(null, bytes(2**20)), os._exit(0)\n"
        "try: os.wait()\nexcept ChildProcessError: print('done', flush=True)\ntime.sleep(60)"
    )
    process = run(sys.executable, "-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdout.readline() == b"go\n"
    begun, _ = by_kernel().process_io.written_bytes, by_proc()
    process.stdin.write(b"\n")
    assert process.stdout.readline() == b"done\n"
    assert 600 * 2**20 <= by_kernel().process_io.written_bytes - begun < 600 * 2**20 + 10_000
    assert by_proc().process_io.written_bytes < 600 * 2**20


def test_twenty_thousand_threads_are_all_seen(run, readers):
    _, by_kernel = readers
    free = next(
        int(line.split()[1])
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable")
    )
    if free < 4 * 2**20 or int(Path("/proc/sys/kernel/threads-max").read_text()) < 30_000:
        pytest.skip("this machine has no room for 20,000 threads")
    crowds = [run(sys.executable, "-c", CROWD, 1000, stdout=subprocess.PIPE) for _ in range(20)]
    for each in crowds:
        assert each.stdout.readline() == b"ready\n"
    found = by_kernel()
    assert (found.processes, found.threads) == (20, 20_000)
