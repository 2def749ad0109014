"""Constructed envelopes in which every field of a type is set."""

from __future__ import annotations

import copy
from datetime import timedelta, timezone

import pytest

from jobfeatures.formats.sonar.envelopes import Origin

META = {"producer": "jobfeatures", "version": "0.7.0", "attrs": [{"key": "a", "value": "b"}], "token": "t"}
TIME = "2027-01-15T08:00:00+01:00"

GPU = {
    "index": 1, "uuid": "GPU-1", "failing": 0, "fan": 120, "compute_mode": "Default", "performance_state": 3,
    "memory": 2048, "ce_util": 90, "memory_util": 50, "temperature": -3, "power": 250, "power_limit": 300,
    "ce_clock": 1800, "memory_clock": 6800,
}  # fmt: skip
PROCESS = {
    "resident_memory": 100, "virtual_memory": 200, "cmd": "python", "pid": 4711, "ppid": 1,
    "in_container": True, "num_threads": 3, "cpu_avg": 99.5, "cpu_util": 100.0, "cpu_time": 60,
    "data_read": 5, "data_written": 6, "data_cancelled": 0, "rolledup": 0,
    "gpus": [{"index": 1, "uuid": "GPU-1", "gpu_util": 40.0, "gpu_memory": 1024, "gpu_memory_util": 5.5}],
}  # fmt: skip
ATTRIBUTES = {
    "sample": {
        "time": TIME,
        "cluster": "hpc.example.org",
        "node": "c1-7",
        "system": {
            "boot": "2027-01-01T00:00:00Z",
            "cpus": [10, 20],
            "gpus": [GPU],
            "disks": [{"name": "sda", "major": 8, "minor": 0, "stats": [1, 2, 3]}],
            "used_memory": 4096,
            "load1": 0.5,
            "load5": 0.25,
            "load15": 0.0,
            "runnable_entities": 2,
            "existing_entities": 300,
        },
        "jobs": [
            {"job": 12, "user": "alice", "epoch": 0, "processes": [PROCESS]},
            {
                "job": 300,
                "user": "_user_6002",
                "epoch": 221_000_000,
                "processes": [{"cmd": "sh", "pid": 0, "ppid": 9, "rolledup": 2, "cpu_time": 3}],
            },
        ],
        "errors": [{"time": TIME, "detail": "no GPU answers", "cluster": "hpc.example.org", "node": "c1-7"}],
    },
    "sysinfo": {
        "time": TIME,
        "cluster": "hpc.example.org",
        "node": "c1-7",
        "os_name": "Linux",
        "os_release": "6.1.0",
        "architecture": "x86_64",
        "numa_nodes": 1,
        "sockets": 1,
        "cores_per_socket": 2,
        "threads_per_core": 1,
        "cpu_model": "A model",
        "memory": 16384,
        "topo_svg": "",
        "topo_text": "Machine",
        "distances": [[10]],
        "cards": [
            {
                "index": 1,
                "uuid": "GPU-1",
                "address": "00:18.0",
                "manufacturer": "NVIDIA",
                "model": "T4",
                "architecture": "Turing",
                "driver": "550",
                "firmware": "12",
                "memory": 15360,
                "power_limit": 70,
                "max_power_limit": 70,
                "min_power_limit": 60,
                "max_ce_clock": 1590,
                "max_memory_clock": 5001,
            }
        ],
    },
    "job": {
        "time": TIME,
        "cluster": "hpc.example.org",
        "slurm_jobs": [
            {
                "job_id": 12,
                "job_step": "",
                "job_name": "fit",
                "job_state": "RUNNING",
                "array_job_id": 10,
                "array_task_id": 2,
                "user_name": "alice",
                "account": "physics",
                "submit_time": TIME,
                "time_limit": 3602,
                "partition": "batch",
                "reservation": "r",
                "nodes": ["c1-7"],
                "priority": 1002,
                "distribution": "block",
                "requested_resources": "cpu=4,gres/gpu=1",
                "allocated_resources": "cpu=4,mem=8G,node=1,gres/gpu=1",
                "requested_cpus": 4,
                "requested_memory_per_node": 1024,
                "requested_node_count": 1,
                "start_time": TIME,
                "suspend_time": 1,
                "sacct": {"AllocTRES": "cpu=4", "ElapsedRaw": 5, "AveRSS": 6},
            }
        ],
    },
    "cluster": {
        "time": TIME,
        "cluster": "hpc.example.org",
        "slurm": True,
        "partitions": [{"name": "batch", "nodes": ["c1-[7-8]"]}],
        "nodes": [
            {"names": ["c1-[7-8]"], "states": ["IDLE"]},
            {"names": ["c1-8"], "states": ["DRAIN"]},
        ],
    },
}


def make_envelope(tag: str) -> dict:
    return copy.deepcopy({"meta": META, "data": {"type": tag, "attributes": ATTRIBUTES[tag]}})


def make_errors() -> dict:
    error = {"time": TIME, "detail": "slurmctld is away", "cluster": "hpc.example.org", "node": "m1"}
    return copy.deepcopy({"meta": META, "errors": [error]})


@pytest.fixture
def origin():
    return Origin(cluster="hpc.example.org", node="n1", zone=timezone(timedelta(hours=1)))


@pytest.fixture(scope="session")
def make():
    """Return the function that makes an envelope of a kind."""
    return make_envelope


@pytest.fixture(params=sorted(ATTRIBUTES))
def envelope(request):
    return make_envelope(request.param)


@pytest.fixture
def sample():
    return make_envelope("sample")


@pytest.fixture
def sysinfo():
    return make_envelope("sysinfo")


@pytest.fixture
def jobs():
    return make_envelope("job")


@pytest.fixture
def cluster():
    return make_envelope("cluster")


@pytest.fixture
def errors():
    return make_errors()
