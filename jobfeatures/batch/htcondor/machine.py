"""The pool as ``condor_status -json`` prints it, and this node's drain state: machine ads → nodes. Pure.

Manual: https://htcondor.readthedocs.io/en/latest/man-pages/condor_status.html and
https://htcondor.readthedocs.io/en/latest/classad-attributes/machine-classad-attributes.html. Sample:
``{"Name": "slot1_1@wn1", "Machine": "wn1", "State": "Claimed", "DynamicSlot": true, "Cpus": 8, "Memory":
16000, "TotalCpus": 64}``. Each slot has an ad; memory is MiB, TotalCpus and TotalMemory are the machine's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from jobfeatures.batch.basics import busy_state
from jobfeatures.batch.htcondor.fields import MIB, NAME, Fields
from jobfeatures.errors import Rejected
from jobfeatures.features.machine import PER_CORE
from jobfeatures.formats.classad.ad import ClassAd
from jobfeatures.formats.classad.jsonform import parse_json_ads
from jobfeatures.records.model import Cluster, ClusterNode, NodeNotice

STATUS_SOURCE = "condor_status"
STATUS_ATTRIBUTES = (
    *("Name", "Machine", "State", "PartitionableSlot", "Cpus", "Memory", "GPUs", "TotalCpus", "DetectedCpus"),
    *("TotalMemory", "DetectedMemory", "TotalGPUs", "DetectedGPUs", "Draining", "Offline"),
)
NOTICE_ATTRIBUTES = ("Name", "State", "Draining", "ExpectedMachineGracefulDrainingCompletion")

# State: https://htcondor.readthedocs.io/en/latest/admin-manual/ep-policy-configuration.html, "Slot States".
CLAIMED = frozenset({"Claimed", "Preempting"})
DRAINED = "Drained"
MIN_RATING, MAX_RATING = 0.0001, 10_000  # per processor


def parse_status(text: str, *, taken_at_secs: float) -> Cluster:
    """Parse ``condor_status -json -attributes …``. Raises ParseError where it is truncated."""
    rejected: list[Rejected] = []
    machines: dict[str, list[Fields]] = {}
    for ad in parse_json_ads(text, source=STATUS_SOURCE):
        name = ad.text("Machine") or (ad.text("Name") or "").rpartition("@")[2]
        if not name:
            rejected.append(Rejected(STATUS_SOURCE, "not the ad of a slot", field="Machine"))
            continue
        source = f"{STATUS_SOURCE} {name}"
        machines.setdefault(name, []).append(Fields(ad, source=source, note=rejected.append))
    nodes = tuple(_node(name, slots) for name, slots in sorted(machines.items()))
    return Cluster(source=NAME, taken_at_secs=taken_at_secs, nodes=nodes, rejected=tuple(rejected))


def _node(name: str, slots: Sequence[Fields]) -> ClusterNode:
    # A partitionable slot has the free resources and runs nothing; its dynamic slots have ads of their own.
    used = [each for each in slots if not each.flag("PartitionableSlot") and each.text("State") in CLAIMED]
    cpus = _most(slots, "TotalCpus", "DetectedCpus")
    allocated = sum(each.count("Cpus") or 0 for each in used)
    memory = _most(slots, "TotalMemory", "DetectedMemory")
    gpus = _most(slots, "TotalGPUs", "DetectedGPUs")
    return ClusterNode(
        name=name,
        states=_states(slots, allocated, cpus),
        cpus=cpus,
        allocated_cpus=allocated,
        memory_bytes=None if memory is None else memory * MIB,
        allocated_memory_bytes=sum(each.count("Memory", MIB) or 0 for each in used),
        gpus=gpus,
        allocated_gpus=None if gpus is None else sum(each.count("GPUs") or 0 for each in used),
    )


def _states(slots: Sequence[Fields], allocated: int, cpus: int | None) -> tuple[str, ...]:
    """Return the node's state words, computed from its slots' states."""
    if all(each.flag("Offline") for each in slots):
        return "DOWN", "POWERED_DOWN"
    base = busy_state(allocated, cpus)
    return (base, "DRAIN") if any(map(_drains, slots)) else (base,)


def _drains(slot: Fields) -> bool:
    return slot.flag("Draining") is True or slot.text("State") == DRAINED


def _most(slots: Iterable[Fields], *names: str) -> int | None:
    """Return the largest value of the first attribute that any slot has."""
    slots = list(slots)
    for name in names:
        values = [value for each in slots if (value := each.count(name)) is not None]
        if values:
            return max(values)
    return None


def parse_notice(text: str, ratings: Mapping[str, str]) -> NodeNotice | None:
    """Return this node's notice from its slots, None without slots. Raises ParseError.

    `ratings` maps attributes that rate each processor to our keys; the first slot with a value counts.
    ExpectedMachineGracefulDrainingCompletion is always set, as if draining began now; it only counts
    while the node drains.
    """
    ads: list[ClassAd] = parse_json_ads(text, source=STATUS_SOURCE)
    if not ads:
        return None
    draining = [slot for slot in map(Fields, ads) if _drains(slot)]
    expected = {slot.epoch("ExpectedMachineGracefulDrainingCompletion") for slot in draining}
    shutdowns = tuple(sorted(each for each in expected if each is not None))
    reported = {PER_CORE.format(key): [_rating(slot, name) for slot in ads] for name, key in ratings.items()}
    features = {key: found for key, values in reported.items() if (found := next(filter(None, values), None))}
    return NodeNotice(bool(draining), shutdowns, features=features)


def _rating(slot: ClassAd, name: str) -> str | None:
    value = slot.value(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not MIN_RATING <= value < MAX_RATING:
        return None
    return f"{value:.4f}".rstrip("0").rstrip(".")
