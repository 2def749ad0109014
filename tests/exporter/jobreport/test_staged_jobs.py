"""Twenty jobs: each is staged with real processes, and gets its hint and no other.

What cannot be staged here is that a GPU works: what two of the jobs do on theirs is written down.
"""

import os
import time

import pytest

from jobfeatures.status.jobstatus import USED_CPU
from jobfeatures_exporter.view import thresholds
from jobfeatures_exporter.view.judge import judge
from tests.exporter.jobreport.staging import Staged, stage, why_not
from tests.labs.blockingfile import SlowFile

ACT_SECS = 5.0
MIB = 2**20

COMPUTE = "while True: pass"
SLEEP = "import time; time.sleep(99)"
READ = """
import os
slow = os.open('{slow}', os.O_RDONLY)
os.posix_fadvise(slow, 0, 0, os.POSIX_FADV_RANDOM)
for page in range({first}, 2**18): os.pread(slow, 4096, page * 4096)
"""
HOLD = "held = bytearray({bytes}); view = memoryview(held)\nfor at in range(0, {bytes}, 4096): view[at] = 1\n"
IDLE_THREADS = """
import threading, time
for _ in range(60): threading.Thread(target=time.sleep, args=(99,), daemon=True).start()
"""
DIE = "import os\nif os.fork() == 0:\n    held = bytearray({bytes})\n    os._exit(0)\nos.wait()\n"
READ_ONCE = """
import time
with open('{large}', 'rb', buffering=0) as file:
    while file.read(2**22):
        until = time.perf_counter() + 0.004
        while time.perf_counter() < until: pass
"""
READ_AGAIN = """
import os, random
large = os.open('{working}', os.O_RDONLY)
os.posix_fadvise(large, 0, 0, os.POSIX_FADV_RANDOM)
while True: os.pread(large, 4096, 4096 * random.randrange({pages}))
"""


def acts(slow, large, working, status):
    """Return the jobs that run at a time; each CPU has one that computes at most, but where it is said."""
    held = HOLD.format
    return [
        {
            "all-used": Staged((COMPUTE,)),
            "too-many-processes": Staged((COMPUTE,) * 6, on_cpu=1, hints={"cpu_crowded"}),
            "asleep": Staged((SLEEP,), cpus=4, hints={"cpu_idle"}),
            "pilot": Staged((SLEEP,), cpus=4, status=status, hints={"pilot_idle"}),
            "slow-files": Staged((READ.format(slow=slow, first=0),), cpus=4, hints={"io_wait"}),
            "on-cards": Staged((SLEEP,), cpus=4, gpu_busy=0.9),
            "card-unused": Staged((SLEEP,), cpus=4, gpu_busy=0.0, hints={"gpu_idle", "cpu_idle"}),
        },
        {
            "many-idle-threads": Staged((IDLE_THREADS + COMPUTE,)),
            "under-a-quota": Staged((COMPUTE,), on_cpu=1, quota=0.3, hints={"cpu_throttled"}),
        },
        {
            "beside-another": Staged((COMPUTE,), hints={"cpu_contended"}),
            "bound-to-one-cpu": Staged((COMPUTE,) * 2, cpus=4, hints={"cpu_contended"}),
            "serial": Staged((COMPUTE,), cpus=4, on_cpu=1, hints={"cpu_serial"}),
        },
        {
            "writes-aside": Staged((COMPUTE, READ.format(slow=slow, first=2**17))),
            "cache-too-small": Staged((READ_AGAIN.format(working=working, pages=60 * MIB // 4096),), on_cpu=1, memory=40 * MIB, hints={"memory_wait"}),
        },
        {
            "one-node-idle": Staged((COMPUTE,), nodes=("n1", "n2"), hints={"nodes_idle"}),
            "files-read-once": Staged((READ_ONCE.format(large=large) + COMPUTE,), on_cpu=1, memory=1200 * MIB, hints={"memory_cache"}),
        },
        {
            "memory-near": Staged((held(bytes=90 * MIB) + COMPUTE,), memory=100 * MIB, hints={"memory_near_limit"}),
            "memory-unused": Staged((COMPUTE,), on_cpu=1, memory=4096 * MIB, hints={"memory_unused"}),
        },
        {
            "memory-killed": Staged((DIE.format(bytes=200 * MIB) + COMPUTE,), memory=100 * MIB, hints={"memory_killed"}),
            "suspended": Staged((COMPUTE,), on_cpu=1, suspended=True),
        },
    ]  # fmt: skip


@pytest.mark.integration
@pytest.mark.timeout(300)
def test_twenty_staged_jobs_get_their_hint_and_no_wrong_one(tmp_path, monkeypatch):
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    act_secs = max(
        ACT_SECS, 12 * secs_to_read(tmp_path / "probe", 200 * MIB)
    )  # one job has to read 1,200 MiB
    monkeypatch.setattr(thresholds, "SETTLED_SECS", act_secs / 3)
    slow, large, working = (tmp_path / name for name in ("slow", "large", "working"))
    slow.touch()
    with large.open("wb") as file:
        file.truncate(2000 * MIB)
    with working.open("wb") as file:
        file.write(bytes(60 * MIB))
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # the pages are to be the job's
    status = tmp_path / "status"
    status.mkdir()
    (status / USED_CPU.name).write_text("0\n")
    file = SlowFile(str(slow))
    try:
        staged = acts(slow, large, working, str(status))
        reports = stage(staged, act_secs)
    finally:
        file.close()
    expected = {name: set(each.hints) for act in staged for name, each in act.items()}
    found = {name: {hint.name for hint in judge(report)} for name, report in reports.items()}
    told = {name: [hint.text for hint in judge(report)] for name, report in reports.items()}
    assert found == expected, told


def secs_to_read(path, size):
    """Return how long the kernel takes to fill its page cache with so much of a new file."""
    with path.open("wb") as file:
        file.truncate(size)
    began = time.monotonic()
    with path.open("rb", buffering=0) as file:
        while file.read(4 * MIB):
            pass
    return time.monotonic() - began


def test_twenty_jobs_are_staged():
    assert sum(len(act) for act in acts("", "", "", "")) == 20
