"""Defines all object types of Sonar's format as a table of fields: name, type, unit and profiles.

Sizes are in KiB where the unit says so; the format itself calls them kilobytes of 2^10 bytes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cache
from typing import Final

from jobfeatures.formats.sonar import CURRENT, SEED

PROFILES: Final = (CURRENT, SEED)
PID_MAX: Final = 2**22  # the highest process id in Linux; since Sonar 0.18, rolled-up processes exceed it

MAX_UINT: Final = 2**64 - 1
MAX_INT: Final = 2**63 - 1
MIN_INT: Final = -(2**63)
MAX_UINT32: Final = 2**32 - 1  # consumers cast job and ppid to 32 bits

KIB: Final = "KiB"


class FieldType(enum.Enum):
    """The types of values, under the names that Sonar's specification gives them."""

    STRING = "string"
    NONEMPTY = "NonemptyString"
    UINT = "uint64"
    NONZERO = "NonzeroUint"
    INT = "int64"
    FLOAT = "float64"
    BOOL = "bool"
    TIMESTAMP = "Timestamp"
    OPTIONAL_TIMESTAMP = "OptionalTimestamp"
    HOSTNAME = "Hostname"
    EXTENDED = "ExtendedUint"  # 0 unset, 1 infinite, v + 2 for all other values v
    NODE_RANGE = "NodeRange"
    OBJECT = "object"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an object type in Sonar's format.

    If `required`, the default value (zero, empty) is an error. `dimensions` is the number of nested arrays
    around a value, and `of` the type of an object. `maximum` is the bound of a number, which the
    specification states in prose. If `nonempty`, an array must not be empty.
    """

    name: str
    type: FieldType
    required: bool = False
    unit: str = ""
    dimensions: int = 0
    of: str = ""
    profiles: tuple[str, ...] = PROFILES
    maximum: int | None = None
    nonempty: bool = False


def _objects(name: str, of: str, **more: object) -> Field:
    return Field(name, FieldType.OBJECT, of=of, dimensions=1, **more)  # type: ignore[arg-type]


_S, _NE, _U, _NZ, _I, _F, _B, _T, _OT, _H, _X, _R, _O = FieldType
_ONLY_CURRENT, _ONLY_SEED = (CURRENT,), (SEED,)

_HEAD = (Field("time", _T, True), Field("cluster", _H, True))
_HEAD_OF_NODE = (*_HEAD, Field("node", _H, True))

TYPES: Final[dict[str, tuple[Field, ...]]] = {
    "MetadataObject": (
        Field("producer", _NE, True),
        Field("version", _NE, True),
        Field("format", _U),
        _objects("attrs", "KVPair"),
        Field("token", _S),
    ),
    "KVPair": (Field("key", _NE, True), Field("value", _S)),
    "ErrorObject": (
        Field("time", _T, True),
        Field("detail", _NE, True),
        Field("cluster", _H, True),
        Field("node", _H, True),
    ),
    "SysinfoAttributes": (
        *_HEAD_OF_NODE,
        Field("os_name", _NE, True),
        Field("os_release", _NE, True),
        Field("architecture", _NE, True),
        Field("numa_nodes", _U, profiles=_ONLY_CURRENT),
        Field("sockets", _NZ, True),
        Field("cores_per_socket", _NZ, True),
        Field("threads_per_core", _NZ, True),
        Field("cpu_model", _S),
        Field("memory", _NZ, True, KIB),
        Field("topo_svg", _S),
        Field("topo_text", _S, profiles=_ONLY_CURRENT),
        Field("distances", _U, dimensions=2, profiles=_ONLY_CURRENT),
        _objects("cards", "SysinfoGpuCard"),
        _objects("software", "SysinfoSoftwareVersion", profiles=_ONLY_SEED),
    ),
    "SysinfoGpuCard": (
        Field("index", _U),
        Field("uuid", _S),
        Field("address", _S),
        Field("manufacturer", _S),
        Field("model", _S),
        Field("architecture", _S),
        Field("driver", _S),
        Field("firmware", _S),
        Field("memory", _U, unit=KIB),
        Field("power_limit", _U, unit="W"),
        Field("max_power_limit", _U, unit="W"),
        Field("min_power_limit", _U, unit="W"),
        Field("max_ce_clock", _U, unit="MHz"),
        Field("max_memory_clock", _U, unit="MHz"),
    ),
    "SysinfoSoftwareVersion": (Field("key", _NE, True), Field("name", _S), Field("version", _NE, True)),
    "SampleAttributes": (
        *_HEAD_OF_NODE,
        Field("system", _O, of="SampleSystem"),
        _objects("jobs", "SampleJob"),
        _objects("errors", "ErrorObject"),
    ),
    "SampleSystem": (
        Field("boot", _OT, profiles=_ONLY_CURRENT),
        Field("cpus", _U, unit="s", dimensions=1),
        _objects("gpus", "SampleGpu"),
        _objects("disks", "SampleDisk", profiles=_ONLY_CURRENT),
        Field("used_memory", _U, unit=KIB),
        Field("load1", _F, profiles=_ONLY_CURRENT),
        Field("load5", _F, profiles=_ONLY_CURRENT),
        Field("load15", _F, profiles=_ONLY_CURRENT),
        Field("runnable_entities", _U, profiles=_ONLY_CURRENT),
        Field("existing_entities", _U, profiles=_ONLY_CURRENT),
    ),
    "SampleDisk": (
        Field("name", _NE, True),
        Field("major", _U),
        Field("minor", _U),
        Field("stats", _U, dimensions=1),  # as in /sys/block/*/stat
    ),
    "SampleGpu": (
        Field("index", _U),
        Field("uuid", _NE, True),
        Field("failing", _U),
        Field("fan", _U, unit="%"),
        Field("compute_mode", _S),
        Field("performance_state", _X),
        Field("memory", _U, unit=KIB),
        Field("ce_util", _U, unit="%", maximum=100),
        Field("memory_util", _U, unit="%", maximum=100),
        Field("temperature", _I, unit="°C"),
        Field("power", _U, unit="W"),
        Field("power_limit", _U, unit="W"),
        Field("ce_clock", _U, unit="MHz"),
        Field("memory_clock", _U, unit="MHz"),
    ),
    "SampleJob": (
        Field("job", _U, maximum=MAX_UINT32),
        Field("user", _NE, True),
        Field("epoch", _U),
        _objects("processes", "SampleProcess"),
    ),
    "SampleProcess": (
        Field("resident_memory", _U, unit=KIB),
        Field("virtual_memory", _U, unit=KIB),
        Field("cmd", _S),
        Field("pid", _U),
        Field("ppid", _U, maximum=MAX_UINT32),
        Field("in_container", _B, profiles=_ONLY_CURRENT),
        Field("num_threads", _U, profiles=_ONLY_CURRENT),
        Field("cpu_avg", _F, unit="%"),
        Field("cpu_util", _F, unit="%"),
        Field("cpu_time", _U, unit="s"),
        Field("data_read", _U, unit=KIB, profiles=_ONLY_CURRENT),
        Field("data_written", _U, unit=KIB, profiles=_ONLY_CURRENT),
        Field("data_cancelled", _U, unit=KIB, profiles=_ONLY_CURRENT),
        Field("rolledup", _I),
        _objects("gpus", "SampleProcessGpu"),
    ),
    "SampleProcessGpu": (
        Field("index", _U),
        Field("uuid", _NE, True),
        Field("gpu_util", _F, unit="%"),
        Field("gpu_memory", _U, unit=KIB),
        Field("gpu_memory_util", _F, unit="%"),
    ),
    "JobsAttributes": (*_HEAD, _objects("slurm_jobs", "SlurmJob")),
    "SlurmJob": (
        Field("job_id", _NZ, True),
        Field("job_step", _S),
        Field("job_name", _S),
        Field("job_state", _NE, True),
        Field("array_job_id", _NZ),
        Field("array_task_id", _U),
        Field("het_job_id", _NZ),
        Field("het_job_offset", _U),
        Field("user_name", _S),
        Field("account", _S),
        Field("submit_time", _T),
        Field("time_limit", _X, unit="s"),  # the text says minutes; no agent is known to send them
        Field("partition", _S),
        Field("reservation", _S),
        Field("nodes", _R, dimensions=1),
        Field("priority", _X),
        Field("distribution", _S),
        Field("requested_resources", _S, profiles=_ONLY_CURRENT),
        Field("allocated_resources", _S, profiles=_ONLY_CURRENT),
        Field("gres_detail", _S, dimensions=1, profiles=_ONLY_SEED),
        Field("requested_cpus", _U),
        Field("minimum_cpus_per_node", _U, profiles=_ONLY_SEED),
        Field("requested_memory_per_node", _U, unit=KIB),
        Field("requested_node_count", _U),
        Field("start_time", _T),
        Field("suspend_time", _U, unit="s"),
        Field("end_time", _T),
        Field("exit_code", _U),
        Field("sacct", _O, of="SacctData"),
    ),
    "SacctData": (
        Field("MinCPU", _U, unit="s"),
        Field("AllocTRES", _S),
        Field("AveCPU", _U, unit="s"),
        Field("AveDiskRead", _U, unit=KIB),  # the text says bytes; no agent is known to send them
        Field("AveDiskWrite", _U, unit=KIB),
        Field("AveRSS", _U, unit=KIB),
        Field("AveVMSize", _U, unit=KIB),
        Field("ElapsedRaw", _U, unit="s"),
        Field("SystemCPU", _U, unit="s"),
        Field("UserCPU", _U, unit="s"),
        Field("MaxRSS", _U, unit=KIB),
        Field("MaxVMSize", _U, unit=KIB),
    ),
    "ClusterAttributes": (
        *_HEAD,
        Field("slurm", _B),
        _objects("partitions", "ClusterPartition"),
        _objects("nodes", "ClusterNodes"),
    ),
    "ClusterPartition": (Field("name", _NE, True), Field("nodes", _R, dimensions=1)),
    "ClusterNodes": (
        Field("names", _R, True, dimensions=1, nonempty=True),
        Field("states", _S, dimensions=1),
    ),
}

# `data.type` → the type of `data.attributes`. Where a type has several tags, we send the first.
TAGS: Final[dict[str, str]] = {
    "sysinfo": "SysinfoAttributes",
    "sample": "SampleAttributes",
    "job": "JobsAttributes",
    "jobs": "JobsAttributes",
    "slurm_jobs": "JobsAttributes",
    "cluster": "ClusterAttributes",
}
STRICT_TAGS: Final[dict[str, frozenset[str]]] = {
    CURRENT: frozenset({"sysinfo", "sample", "job", "jobs", "cluster"}),
    SEED: frozenset({"sysinfo", "sample", "jobs", "cluster"}),
}

# The states in the specification, and the further ones of sacct(1).
SEED_JOB_STATES: Final = frozenset(
    {"PENDING", "RUNNING", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"}
)
JOB_STATES: Final = SEED_JOB_STATES | frozenset(
    {
        "BOOT_FAIL", "COMPLETING", "CONFIGURING", "NODE_FAIL", "PREEMPTED", "REQUEUED", "RESIZING", "REVOKED",
        "STOPPED", "SUSPENDED",
    }
)  # fmt: skip


@cache
def fields_of(name: str, profile: str | None = None) -> dict[str, Field]:
    """Return the fields of an object type by name, for one profile or all; KeyError for an unknown type."""
    return {each.name: each for each in TYPES[name] if profile is None or profile in each.profiles}
