"""A decoder of Sonar's documents with strict types, written from the text of the format's specification (version 0).

It knows nothing of the package's own tables and checks: a second opinion on what is sent. What the text has no
field for raises, but for `LATER`, the fields and words that agents send since the text was written.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any

STATES = {"PENDING", "RUNNING", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"}

# Type: its fields, each with its type. `?`: may be absent though its type has no default, as the text says of it.
TEXT = """
Envelope: meta MetadataObject, data Data?, errors []ErrorObject
MetadataObject: producer NonemptyString, version NonemptyString, format uint64, attrs []KVPair, token string
ErrorObject: time Timestamp, detail NonemptyString, cluster Hostname, node Hostname
KVPair: key NonemptyString, value string
SysinfoAttributes: time Timestamp, cluster Hostname, node Hostname, os_name NonemptyString,
 os_release NonemptyString, architecture NonemptyString, sockets NonzeroUint, cores_per_socket NonzeroUint,
 threads_per_core NonzeroUint, cpu_model string, memory NonzeroUint, topo_svg string, cards []SysinfoGpuCard,
 software []SysinfoSoftwareVersion
SysinfoGpuCard: index uint64, uuid string, address string, manufacturer string, model string, architecture string,
 driver string, firmware string, memory uint64, power_limit uint64, max_power_limit uint64, min_power_limit uint64,
 max_ce_clock uint64, max_memory_clock uint64
SysinfoSoftwareVersion: key NonemptyString, name string, version NonemptyString
SampleAttributes: time Timestamp, cluster Hostname, node Hostname, system SampleSystem, jobs []SampleJob,
 errors []ErrorObject
SampleSystem: cpus []uint64, gpus []SampleGpu, used_memory uint64
SampleGpu: index uint64, uuid NonemptyString, failing uint64, fan uint64, compute_mode string,
 performance_state uint64, memory uint64, ce_util uint64, memory_util uint64, temperature int64, power uint64,
 power_limit uint64, ce_clock uint64, memory_clock uint64
SampleJob: job uint64, user NonemptyString, epoch uint64, processes []SampleProcess
SampleProcess: resident_memory uint64, virtual_memory uint64, cmd string, pid uint64, ppid uint64,
 cpu_avg float64, cpu_util float64, cpu_time uint64, rolledup int64, gpus []SampleProcessGpu
SampleProcessGpu: index uint64, uuid NonemptyString, gpu_util float64, gpu_memory uint64, gpu_memory_util float64
JobsAttributes: time Timestamp, cluster Hostname, slurm_jobs []SlurmJob
SlurmJob: job_id NonzeroUint, job_step string, job_name string, job_state NonemptyString,
 array_job_id NonzeroUint?, array_task_id uint64, het_job_id NonzeroUint?, het_job_offset uint64,
 user_name string, account string, submit_time Timestamp?, time_limit uint64, partition string,
 reservation string, nodes []string, priority uint64, distribution string, gres_detail []string,
 requested_cpus uint64, minimum_cpus_per_node uint64, requested_memory_per_node uint64,
 requested_node_count uint64, start_time Timestamp?, suspend_time uint64, end_time Timestamp?, exit_code uint64,
 sacct SacctData?
SacctData: MinCPU uint64, AllocTRES string, AveCPU uint64, AveDiskRead uint64, AveDiskWrite uint64, AveRSS uint64,
 AveVMSize uint64, ElapsedRaw uint64, SystemCPU uint64, UserCPU uint64, MaxRSS uint64, MaxVMSize uint64
ClusterAttributes: time Timestamp, cluster Hostname, slurm bool, partitions []ClusterPartition, nodes []ClusterNodes
ClusterPartition: name NonemptyString, nodes []NodeRange
ClusterNodes: names []NodeRange, states []string
"""
LATER = {
    "SysinfoAttributes": {"numa_nodes", "topo_text", "distances"},
    "SampleSystem": {"boot", "disks", "load1", "load5", "load15", "runnable_entities", "existing_entities"},
    "SampleProcess": {"in_container", "num_threads", "data_read", "data_written", "data_cancelled"},
    "SlurmJob": {"requested_resources", "allocated_resources"},
}
NO_DEFAULT = {"NonemptyString", "NonzeroUint", "Timestamp", "Hostname", "MetadataObject"}
HOSTNAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)", re.ASCII)
LIST = r"\[(\d+(-\d+)?)(,\d+(-\d+)?)*\]"
NODE_RANGE = re.compile(rf"([A-Za-z0-9.-]|{LIST})+", re.ASCII)


class DecodeError(Exception):
    """A document is none."""


def _tables() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for each in re.findall(r"^(\w+): ((?:.+\n)(?: .+\n)*)", TEXT, re.MULTILINE):
        found[each[0]] = dict(field.split() for field in each[1].replace("\n", " ").split(","))  # type: ignore[misc]
    return found


TABLES = _tables()


def decode(document: Any, *, later: bool = False) -> str:
    """Return the tag of a document, the empty string of one of errors. Raises DecodeError.

    `later`: fields, tags and states that the text has not may be there.
    """
    _object(document, "Envelope", "", later)
    is_error = bool(document.get("errors"))
    if is_error == (document.get("data") is not None):
        raise DecodeError("data and errors are exclusive of each other")
    if is_error:
        return ""
    data = document["data"]
    if not isinstance(data, dict) or set(data) != {"type", "attributes"}:
        raise DecodeError(f"data: {data!r}")
    tag = "jobs" if later and data["type"] == "job" else data["type"]
    if not isinstance(tag, str) or tag not in {"sysinfo", "sample", "jobs", "cluster"}:
        raise DecodeError(f"data.type: {tag!r}")
    _object(data["attributes"], f"{tag.capitalize()}Attributes", "data.attributes", later)
    return tag


def _object(value: Any, name: str, where: str, later: bool) -> None:
    if not isinstance(value, dict):
        raise DecodeError(f"{where}: no {name}: {value!r}")
    fields = TABLES[name]
    unknown = set(value) - set(fields) - (LATER.get(name, set()) if later else set())
    if unknown:
        raise DecodeError(f"{where}: {name} has no {sorted(unknown)}")
    for field, kind in fields.items():
        if field in value:
            _value(value[field], kind.rstrip("?"), f"{where}.{field}", later)
        elif kind in NO_DEFAULT:
            raise DecodeError(f"{where}: lacks {field}")
    rule = RULES.get(name)
    if rule is not None and not rule(value, later):
        raise DecodeError(f"{where}: {name}: {value!r}")


def _value(value: Any, kind: str, where: str, later: bool) -> None:
    if kind.startswith("[]"):
        if not isinstance(value, list):
            raise DecodeError(f"{where}: no array: {value!r}")
        for place, each in enumerate(value):
            _value(each, kind[2:], f"{where}[{place}]", later)
    elif kind == "Data":
        return
    elif kind in TABLES:
        _object(value, kind, where, later)
    elif not PRIMITIVES[kind](value):
        raise DecodeError(f"{where}: no {kind}: {value!r}")


def _is_int(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value < high


def _is_string(value: Any) -> bool:
    return type(value) is str and not any("\ud800" <= each <= "\udfff" for each in value)


def _is_timestamp(value: Any) -> bool:
    if not _is_string(value) or TIMESTAMP.fullmatch(value) is None:
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_node_range(value: Any) -> bool:
    if not _is_string(value) or NODE_RANGE.fullmatch(value) is None:
        return False
    for numbers in re.findall(r"\[(.*?)\]", value):
        seen: set[int] = set()
        for part in numbers.split(","):
            low, _, high = part.partition("-")
            found = range(int(low), int(high or low) + 1)
            if not found or seen.intersection(found):
                return False
            seen.update(found)
    return True


PRIMITIVES = {
    "uint64": lambda value: _is_int(value, 0, 2**64),
    "int64": lambda value: _is_int(value, -(2**63), 2**63),
    "NonzeroUint": lambda value: _is_int(value, 1, 2**64),
    "float64": lambda value: type(value) in {int, float} and math.isfinite(value),
    "bool": lambda value: type(value) is bool,
    "string": _is_string,
    "NonemptyString": lambda value: _is_string(value) and value != "",
    "Timestamp": _is_timestamp,
    "Hostname": lambda value: _is_string(value) and HOSTNAME.fullmatch(value) is not None,
    "NodeRange": _is_node_range,
}
RULES = {
    "MetadataObject": lambda value, _: (
        len({each["key"] for each in value.get("attrs", [])}) == len(value.get("attrs", []))
    ),
    "SampleJob": lambda value, _: value.get("epoch", 0) != 0 or value.get("job", 0) != 0,
    "SlurmJob": lambda value, later: (
        {"job_step", "job_name"} <= value.keys()
        and (value["job_state"] in STATES or (later and value["job_state"].isupper()))
    ),
    "ClusterNodes": lambda value, _: (
        bool(value.get("names")) and all(each == each.upper() for each in value.get("states", []))
    ),
}
