"""Parses nodes and partitions as ``scontrol -a -o -d show node`` and ``show partition`` print them. Pure.

Reasons, comments and extras are administrators' free text and are not escaped: a node's field is read only
where no such text precedes it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from jobfeatures.batch.slurm.basics import NAME, NOTHING
from jobfeatures.batch.slurm.gpus import parse_tres_gpus
from jobfeatures.errors import ParseError, Rejected, matched, parse_each
from jobfeatures.records.model import Cluster, ClusterNode, Partition
from jobfeatures.records.nodelist import expand_nodes
from jobfeatures.records.quantities import parse_count

SHOW_NODES = "show node"
NODE_SOURCE = f"scontrol {SHOW_NODES}"
SHOW_PARTITIONS = "show partition"
CLUSTER_QUESTIONS = (SHOW_NODES, SHOW_PARTITIONS)

# sinfo(1), "NODE STATE CODES": the marks after a state, and short forms of one or two words.
MARKS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
    "+": "COMPLETING",  # of ALLOCATED+, in older versions
}
WORDS = {
    "ALLOC": ("ALLOCATED",),
    "MIX": ("MIXED",),
    "DRAINED": ("IDLE", "DRAIN"),
    "DRAINING": ("ALLOCATED", "DRAIN"),
    "FAILING": ("ALLOCATED", "FAIL"),
    "MAINT": ("MAINTENANCE",),
}

_STATE = re.compile(r"([A-Za-z_]{1,40}(?:\+[A-Za-z_]{1,40})*?)([*~#!%$@^+-]*)(?:\+|\Z)")
_NODE = re.compile(r"NodeName=([A-Za-z0-9._-]{1,255}) ")
_NODE_FIELD = re.compile(
    r" (State|CPUAlloc|CPUEfctv|CPUTot|RealMemory|MemSpecLimit|AllocMem|Gres|GresUsed|NodeAddr|CfgTRES"
    r"|AllocTRES|ActiveFeatures)=(\S*)"
)
_NODE_FREE_TEXT = re.compile(r" (?:Reason|Comment|Extra)=")
_REASON = re.compile(r" Reason=(.+)")
_FEATURE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=:-]{0,63}\Z")
_PARTITION = re.compile(r"PartitionName=(\S+) ")
_PARTITION_FIELD = re.compile(r" (Nodes|State)=(\S*)")
_GRES = re.compile(r"gpu(?::\(null\)|:[^:,()]+)?(?::no_consume)?:([0-9]{1,6})(?:\([^)]*\))?\Z")

# Why nodes start no jobs: classes of free-text reasons, by administrators or Slurm. The first match counts.
# The texts may name people and places, and are unbounded in number, so no label ever contains one.
# Slurm's own texts: node_mgr.c, ping_nodes.c, job_mgr.c, slurmd's reports.
REASON_CLASSES = {
    "not_responding": r"not responding|unreachable",
    "rebooted": r"unexpectedly rebooted|boot_?id",
    "reboot": r"reboot|power[ _-]?(?:cycle|off|down)|resume ?timeout",
    "kill_failed": r"kill task failed|job step not ending|batch job complete fail|not ending",
    "prolog": r"prolog|epilog",
    "configuration": r"low (?:realmemory|memory|cpus|tmpdisk|socket)|gres/|config|invalid argument|mismatch",
    "health_check": r"nhc\b|health ?check|check_",
    "gpu": r"gpu|nvidia|xid|cuda|nvlink|rocm",
    "network": r"network|infiniband|\bib\b|\bopa\b|ethernet|\bnic\b|slingshot",
    "storage": r"disk|file ?system|lustre|gpfs|\bnfs\b|mount|scratch|nvme|raid",
    "memory": r"memory|dimm|\bmce\b|\becc\b|\boom\b",
    "power_or_heat": r"temperature|thermal|overheat|\bpsu\b|power|cooling|\bfan\b",
    "maintenance": r"maint|update|upgrade|kernel|firmware|bios|patch|install|migrat",
    "hardware": r"hardware|\bhw\b|broken|repair|\brma\b|dead",
    "test": r"test|benchmark|burn-?in|debug",
}
OTHER_REASON = "other"
_REASON_CLASSES = [(name, re.compile(pattern, re.IGNORECASE)) for name, pattern in REASON_CLASSES.items()]
MAX_REASON_CHARACTERS = 1000


def parse_cluster(nodes: Sequence[str], partitions: Sequence[str], *, taken_at_secs: float) -> Cluster:
    """Return nodes and partitions from scontrol's lines; malformed records are rejected, others used.

    Two records of one node are both rejected: one of them is forged.
    """
    records, doubled = parse_node_records(nodes)
    rejected = list(doubled)
    found_nodes = tuple(parse_each(parse_node, records.values(), rejected, NODE_SOURCE))
    found_partitions: dict[str, Partition] = {}
    partition_lines = [line for line in partitions if line.startswith("PartitionName=")]
    for partition in parse_each(parse_partition, partition_lines, rejected, f"scontrol {SHOW_PARTITIONS}"):
        found_partitions.setdefault(partition.name, partition)
    return Cluster(NAME, taken_at_secs, found_nodes, tuple(found_partitions.values()), tuple(rejected))


def parse_node_records(lines: Iterable[str]) -> tuple[dict[str, str], tuple[Rejected, ...]]:
    """Return nodes' records by node name, and rejected ones: both records of a node that occurs twice."""
    found: dict[str, str] = {}
    twice: set[str] = set()
    for line in lines:
        if not line.startswith("NodeName="):
            continue  # the rest of free text with a newline
        match = _NODE.match(line)
        name = match[1] if match else line
        if name in found:
            twice.add(name)
        found[name] = line
    for name in twice:
        del found[name]
    rejected = (Rejected(NODE_SOURCE, "node occurs twice", 0, "NodeName", each) for each in sorted(twice))
    return found, tuple(rejected)


def parse_node(line: str) -> ClusterNode:
    """Parse one node of ``scontrol -o -d show node``.

    Sample, shortened: ``NodeName=n1 Arch=x86_64 … CPUAlloc=2 CPUEfctv=2 CPUTot=2 … Gres=gpu:a100:2
    GresUsed=gpu:a100:1(IDX:0) NodeAddr=n1 … RealMemory=2000 AllocMem=200 … State=MIXED+DRAIN …
    CfgTRES=cpu=2,mem=2000M,gres/gpu=2 AllocTRES=cpu=1,mem=200M …  Reason=kernel [root@2026-11-21T07:32:21]``

    Memory is in MiB. CPUs and memory are those available to jobs: CPUEfctv (from 21.08), and RealMemory
    without MemSpecLimit. Raises ParseError without a name, or without exactly one State.
    """
    name = matched(_NODE, line, "does not start with NodeName=")
    free_text = _NODE_FREE_TEXT.search(line)
    found = _NODE_FIELD.findall(line[: free_text.start()] if free_text else line)
    values = {field: value for field, value in found if value not in NOTHING}
    times = Counter(field for field, _ in found)
    if times["State"] != 1:
        raise ParseError(f"this field must occur exactly once (node {name[1]})", field="State", text=line)
    total_mebibytes, allocated_mebibytes, kept_mebibytes = (
        parse_count(values[field], field=field) if field in values else None
        for field in ("RealMemory", "AllocMem", "MemSpecLimit")
    )
    cpus = values.get("CPUEfctv", values.get("CPUTot"))
    if times["CPUEfctv"] > 1 or times["CPUTot"] > 1:
        cpus = None  # one of them is part of free text
    accounted = parse_tres_gpus(values.get("CfgTRES", ""))
    used_gpus = count_gres(values.get("GresUsed", ""))
    if used_gpus is None and accounted is not None:
        used_gpus = parse_tres_gpus(values.get("AllocTRES", "")) or 0
    return ClusterNode(
        name=name[1],
        states=parse_states(values.get("State", "")),
        cpus=parse_count(cpus, field="CPUEfctv") if cpus is not None else None,
        allocated_cpus=parse_count(values["CPUAlloc"], field="CPUAlloc") if "CPUAlloc" in values else None,
        memory_bytes=usable_memory(total_mebibytes, kept_mebibytes),
        allocated_memory_bytes=None if allocated_mebibytes is None else allocated_mebibytes * 2**20,
        gpus=count_gres(values.get("Gres", "")) if accounted is None else accounted,
        allocated_gpus=used_gpus,
        address=values.get("NodeAddr"),
        features=split_features(values.get("ActiveFeatures", "")),
        reason=classify_reason("" if (reason := _REASON.search(line)) is None else reason[1]),
    )


def usable_memory(mebibytes: int | None, kept_mebibytes: int | None) -> int | None:
    """Return a node's memory in bytes, without `kept_mebibytes`, its MemSpecLimit; see slurm.conf(5)."""
    return None if mebibytes is None else max(0, mebibytes - (kept_mebibytes or 0)) * 2**20


def classify_reason(text: str) -> str:
    """Return the class of the Reason that an administrator gave for a node's state; "" without a reason.

    A class is a key of `REASON_CLASSES`, or "other".
    """
    if not text.strip() or text.strip().lower() in {"none", "(null)"}:
        return ""
    cut = (text.rpartition(" [")[0] or text)[:MAX_REASON_CHARACTERS]  # without its author and time
    return next((name for name, pattern in _REASON_CLASSES if pattern.search(cut)), OTHER_REASON)


def split_features(text: str) -> tuple[str, ...]:
    """Return the features in ``ActiveFeatures=a,b`` that are plain words, each once."""
    return tuple(dict.fromkeys(each for each in text.split(",") if _FEATURE.match(each)))


def count_gres(text: str) -> int | None:
    """Return the number of GPUs in ``gpu:a100:2(S:0-1),gpu:(null):1,shard:8``; None without ``gpu``."""
    counts = [int(match[1]) for part in re.split(r",(?![^()]*\))", text) if (match := _GRES.match(part))]
    return sum(counts) if counts else None


def parse_states(text: str) -> tuple[str, ...]:
    """Return the words of a node's state in capitals, its base state first, each word once.

    Source: sinfo(1), "NODE STATE CODES". ``MIXED+DRAIN`` and ``idle+drain`` (StateComplete), ``down*`` and
    ``drained~`` (StateLong): words joined by ``+``, followed by marks. Raises ParseError for other text.
    """
    states: dict[str, None] = {}
    position = 0
    while position < len(text) or not text:
        match = _STATE.match(text, position)
        if match is None:
            raise ParseError("not a node's state", field="State", text=text)
        for word in match[1].upper().split("+"):
            states.update(dict.fromkeys(WORDS.get(word, (word,))))
        states.update(dict.fromkeys(MARKS[mark] for mark in match[2]))
        position = match.end()
    return tuple(states)


def parse_partition(line: str) -> Partition:
    """Parse one partition of ``scontrol -o show partition``.

    Sample, shortened: ``PartitionName=batch AllowGroups=ALL … Nodes=n[1-2] … State=UP TotalCPUs=4 …`` Raises
    ParseError if the line is malformed.
    """
    name = matched(_PARTITION, line, "does not start with PartitionName=")
    values = dict(_PARTITION_FIELD.findall(line))
    return Partition(name=name[1], nodes=expand_nodes(values.get("Nodes", "")), state=values.get("State"))
