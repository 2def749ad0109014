"""A constructed node with one process of every sort, and who speaks of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone

import pytest

from jobfeatures.formats.sonar import CURRENT
from jobfeatures.formats.sonar.envelopes import Origin
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import (
    DiskSample,
    GpuCard,
    GpuProcess,
    GpuSample,
    Kind,
    ProcessDetail,
    ProcessIo,
    ProcessSample,
    UnitKey,
)
from jobfeatures_exporter.sonar.sample import SampleInput

BOOT = 1_799_000_000
EPOCH = BOOT - 1_577_836_800
USERS = {6001: "alice", 6002: "bob", 0: "root"}


@pytest.fixture
def origin():
    return Origin(cluster="hpc.example.org", node="n1", profile=CURRENT, zone=timezone(timedelta(hours=1)))


def process(pid, **values):
    """Return a process; in a group of its own, without CPU time, where nothing else is said."""
    defaults = {
        "ppid": 1, "pgid": pid, "session": pid, "start_ticks": 100_000, "command": "sleep", "state": "S",
        "user_ticks": 0, "system_ticks": 0, "children_user_ticks": 0, "children_system_ticks": 0,
        "threads": 1, "resident_bytes": 4096, "virtual_bytes": 2**20,
    }  # fmt: skip
    return ProcessSample(pid=pid, **{**defaults, **values})


def io(read, written, cancelled):
    return ProcessIo(
        read_bytes=0, written_bytes=0, data_read_bytes=read, data_written_bytes=written,
        data_cancelled_bytes=cancelled,
    )  # fmt: skip


CARD = GpuCard(
    uuid="GPU-1", index=1, address="00000000:18:00.0", manufacturer="NVIDIA", model="Made Up 9000",
    architecture="Volta", driver="550.1", firmware="12.4", memory_bytes=2**34, power_limit_watts=249.6,
    max_power_limit_watts=280.0, min_power_limit_watts=100.0, max_ce_clock_mhz=2100, max_memory_clock_mhz=7000,
)  # fmt: skip
GPU = GpuSample(
    card=CARD, taken_at_secs=0.0, failing=0, fan_percent=37.4, compute_mode="Default", performance_state=2,
    memory_used_bytes=5 * 2**30, ce_util_percent=100.4, temperature_celsius=-3.0,
    power_watts=190.5, power_limit_watts=250.0, ce_clock_mhz=1785, memory_clock_mhz=6800,
    processes=(GpuProcess(pid=101, memory_bytes=2**30 + 1, ce_util_percent=40.0),),
)  # fmt: skip


@pytest.fixture
def snapshot(context):
    """Return the context's node with disks, a card, and more processes."""
    slurm = JobKey("slurm", "12")
    processes = {
        100: process(100, command="bash", user_ticks=150, children_user_ticks=100, children_system_ticks=26),
        101: process(101, ppid=100, pgid=100, command="python", user_ticks=9000, system_ticks=1000, threads=5),
        102: process(102, ppid=100, pgid=100, command="rank", user_ticks=100),
        103: process(103, ppid=100, pgid=100, command="rank", user_ticks=200, threads=3),
        104: process(104, ppid=100, pgid=100, command="odd\udcff\n", state="Z", virtual_bytes=0),
        105: process(105, ppid=100, pgid=100, command="gone", state="X", virtual_bytes=0),
        200: process(200, command="pilot", start_ticks=50_000),
        201: process(201, ppid=200, pgid=201, command="payload", start_ticks=60_000),
        321: process(321, command="sshd"),
        2: process(2, ppid=0, pgid=0, command="kthreadd", virtual_bytes=0, start_ticks=1),
        3: process(3, ppid=2, pgid=0, command="kworker/0:0", virtual_bytes=0, start_ticks=1),
        400: process(400, command="containerd-shim"),
        401: process(401, ppid=400, command="nginx"),
        500: process(500, command="conmon-like"),
    }  # fmt: skip
    condor = JobKey("htcondor", "12.0")
    keys = dict.fromkeys(range(100, 106), slurm) | {200: condor, 201: condor} | {2: 0, 3: 0, 321: 321}
    keys |= {400: 400, 401: 401, 500: UnitKey(Kind.CONTAINER, "docker-0123")}
    node = replace(
        context.snapshot.node,
        boot_time_secs=BOOT,
        runnable_entities=2,
        existing_entities=345,
        disks={"sda": DiskSample(major=8, minor=0, stats=(1, 2, 3))},
    )
    return replace(
        context.snapshot, node=node, processes=processes, keys=keys, epoch=EPOCH, gpus=(GPU,), jobs={}
    )


@pytest.fixture
def details():
    uids = {**dict.fromkeys(range(101, 106), 6001), 100: 0, 200: 6002, 201: 6002, 2: 0, 3: 0, 321: 0}
    found = {pid: ProcessDetail(uid=uid) for pid, uid in uids.items()}
    found[101] = ProcessDetail(uid=6001, anon_bytes=300 * 1024 + 5, data_bytes=2**20, io=io(1, 2048, 0))
    found[102] = ProcessDetail(uid=6001, anon_bytes=1024, data_bytes=2048, io=io(1024, 0, 1))
    found[103] = ProcessDetail(uid=6001, anon_bytes=2048, data_bytes=None, io=None)
    found[401] = ProcessDetail(uid=4711)
    found[400] = found[500] = ProcessDetail()
    return found


@pytest.fixture
def given_input(snapshot, details):
    """Return two looks, 100 s apart, at the constructed node."""
    earlier = {
        pid: each._replace(user_ticks=max(0, each.user_ticks - 50))
        for pid, each in snapshot.processes.items()
        if pid != 102
    }
    previous = replace(snapshot, processes=earlier, taken_at_secs=snapshot.taken_at_secs - 100)
    return SampleInput(
        snapshot=snapshot,
        now_secs=snapshot.taken_at_secs + 0.01,
        previous=previous,
        elapsed_secs=100.0,
        details=details,
        users=USERS,
    )
