"""Makes nodes from the machine ads that ``condor_status -json`` prints, and this node's drain state. Pure.

Manual: https://htcondor.readthedocs.io/en/latest/man-pages/condor_status.html and
https://htcondor.readthedocs.io/en/latest/classad-attributes/machine-classad-attributes.html. Sample:
``{"Name": "slot1_1@wn1", "Machine": "wn1", "State": "Claimed", "DynamicSlot": true, "Cpus": 8, "Memory":
16000, "TotalCpus": 64}``. Each slot has an ad. Memory is in MiB; TotalCpus and TotalMemory are those of the
whole machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from jobfeatures.batch.basics import busy_state
from jobfeatures.batch.htcondor.fields import MIB, NAME, AdReadingOptions, Fields, parse_global_id
from jobfeatures.batch.htcondor.jobad import VacateTime
from jobfeatures.errors import Rejected
from jobfeatures.features.machine import PER_CORE
from jobfeatures.formats.classad.ad import ClassAd, Special
from jobfeatures.formats.classad.jsonform import parse_json_ads
from jobfeatures.records.combining import grouped, sum_all
from jobfeatures.records.model import Cluster, ClusterNode, NodeNotice

STATUS_SOURCE = "condor_status"
STATUS_ATTRIBUTES = (
    *("Name", "Machine", "State", "PartitionableSlot", "Cpus", "Memory", "GPUs", "TotalCpus", "DetectedCpus"),
    *("TotalMemory", "DetectedMemory", "TotalGPUs", "DetectedGPUs", "Draining", "Offline", "Activity"),
    "Start",
)
NOTICE_ATTRIBUTES = (
    *("Name", "GlobalJobId", "State", "Activity", "EnteredCurrentActivity", "RetirementTimeRemaining"),
    *("MyCurrentTime", "Draining", "Start"),
)

# https://htcondor.readthedocs.io/en/latest/admin-manual/ep-policy-configuration.html, "Slot States".
PREEMPTING = "Preempting"
CLAIMED = frozenset({"Claimed", PREEMPTING})
DRAINED = "Drained"
RETIRING, VACATING, KILLING = "Retiring", "Vacating", "Killing"
WORKING = frozenset({"Busy", "Suspended", RETIRING, VACATING})  # there is a job, though its id be unreadable
ENDLESS_SECS = 2**30  # a peaceful shutdown: as long as the job runs, written as 2**31 seconds from its start
MIN_RATING, MAX_RATING = 0.0001, 10_000  # per processor


def parse_status(text: str, *, taken_at_secs: float) -> Cluster:
    """Return the nodes that ``condor_status -json -attributes …`` prints. Raises ParseError if truncated."""
    rejected: list[Rejected] = []
    options = AdReadingOptions(rejected.append)
    machines: dict[str, list[Fields]] = {}
    for ad in parse_json_ads(text, source=STATUS_SOURCE):
        name = ad.text("Machine") or (ad.text("Name") or "").rpartition("@")[2]
        if not name:
            rejected.append(Rejected(STATUS_SOURCE, "not the ad of a slot", field="Machine"))
            continue
        machines.setdefault(name, []).append(Fields(ad, f"{STATUS_SOURCE} {name}", options))
    nodes = tuple(_node(name, slots) for name, slots in sorted(machines.items()))
    return Cluster(NAME, taken_at_secs, nodes, rejected=tuple(rejected))


def _node(name: str, slots: Sequence[Fields]) -> ClusterNode:
    """Return a machine, which may have several startds, such as pilots. Each reports its own totals."""
    names = ((slot.text("Name") or "").partition("@")[2] for slot in slots)  # pilot@wn1 of slot1_1@pilot@wn1
    startds = list(grouped(zip(names, slots, strict=True)).values())
    drained = [_drain(each) for each in startds]
    open_ones = [all(drained) or not each for each in drained]  # what a draining one has free is nobody's
    kinds = ("Cpus", "Memory", "GPUs")
    used = [sum(_allocated(each, kind) for each in startds) for kind in kinds]
    cpus, memory, gpus = (
        sum_all(
            [_usable(each, kind, is_open=is_open) for each, is_open in zip(startds, open_ones, strict=True)]
        )
        for kind in kinds
    )
    return ClusterNode(
        name=name,
        states=_states(slots, used[0], cpus, drains=all(drained)),
        cpus=cpus,
        allocated_cpus=used[0],
        memory_bytes=None if memory is None else memory * MIB,
        allocated_memory_bytes=used[1] * MIB,
        gpus=gpus,
        allocated_gpus=None if gpus is None else used[2],
    )


def _allocated(slots: Sequence[Fields], name: str) -> int:
    """Return how much of `name`, such as Cpus, a startd's jobs have: at most all, as slots may overlap.

    A partitionable slot has the free resources and runs nothing; its dynamic slots have ads of their own.
    """
    used = [each for each in slots if not each.flag("PartitionableSlot") and each.text("State") in CLAIMED]
    allocated, total = sum(each.count(name) or 0 for each in used), _most(slots, name)
    return allocated if total is None else min(allocated, total)


def _usable(slots: Sequence[Fields], name: str, *, is_open: bool) -> int | None:
    """Return how much of `name` a startd's jobs have or can get: slots whose START is false give nothing."""
    total, allocated = _most(slots, name), _allocated(slots, name)
    if total is None or not is_open:
        return total and allocated
    free = [each for each in slots if each.flag("PartitionableSlot") or each.text("State") not in CLAIMED]
    given = [each for each in free if each.ad.value("Start") is not False]
    if len(given) == len(free) or _drain(slots):
        return total
    return min(total, allocated + sum(each.count(name) or 0 for each in given))


def _states(slots: Sequence[Fields], allocated: int, cpus: int | None, *, drains: bool) -> tuple[str, ...]:
    """Return the node's state words, computed from its slots' states."""
    if all(each.flag("Offline") for each in slots):
        return "DOWN", "POWERED_DOWN"
    base = busy_state(allocated, cpus)
    return (base, "DRAIN") if drains else (base,)


def _drain(slots: Sequence[Fields]) -> bool:
    """Return whether a node drains, or starts no more jobs: it shuts down, or its START is false."""
    if any(each.flag("Draining") is True or each.text("State") == DRAINED for each in slots):
        return True
    # A slot that is being emptied keeps the START of before. It is undefined in a startd that shuts down.
    starts = [each.ad.value("Start") for each in slots if each.text("State") != PREEMPTING]
    if any(each.text("Activity") == RETIRING for each in slots):
        return all(each is False or each is Special.UNDEFINED for each in starts)
    return bool(starts) and all(each is False for each in starts)


def _most(slots: Sequence[Fields], name: str) -> int | None:
    """Return the largest ``Total<name>`` in the slots' ads, else ``Detected<name>``; None without both."""
    for kind in ("Total", "Detected"):
        values = [value for each in slots if (value := each.count(f"{kind}{name}")) is not None]
        if values:
            return max(values)
    return None


class SlotNotice(NamedTuple):
    """What the ads of this node's slots announce.

    `node` says whether the node drains. `ends` maps the id of a job to the epoch second by which it must have
    ended.
    """

    node: NodeNotice
    ends: Mapping[str, int]


def parse_notice(
    text: str, ratings: Mapping[str, str], vacate: Mapping[str, VacateTime] = MappingProxyType({})
) -> SlotNotice | None:
    """Return what the ads of this node's slots announce; None if there are none.

    `ratings` maps the names of machine attributes that hold a rating per core to the keys of
    $MACHINEFEATURES; the first slot with a value counts. `vacate` has each job's `VacateTime` by job id. The
    shutdown of a draining node is when the last of its jobs must have ended; it is unknown if that time is
    unknown for any job. Raises ParseError if `text` is malformed.
    """
    ads: list[ClassAd] = parse_json_ads(text, source=STATUS_SOURCE)
    if not ads:
        return None
    slots = [Fields(ad) for ad in ads]
    ends: dict[str, int] = {}
    complete = True
    for slot in slots:
        job_id = parse_global_id(slot.ad)
        if slot.text("State") not in CLAIMED or (job_id is None and slot.text("Activity") not in WORKING):
            continue
        end_secs = _end_of(slot, vacate.get(job_id or ""))
        complete = complete and None not in (job_id, end_secs)
        if job_id is not None and end_secs is not None:
            ends[job_id] = min(end_secs, ends.get(job_id, end_secs))
    is_draining = _drain(slots)
    shutdowns = (max(ends.values()),) if is_draining and complete and ends else ()
    reported = {PER_CORE.format(key): [_rating(slot, name) for slot in ads] for name, key in ratings.items()}
    features = {key: found for key, values in reported.items() if (found := next(filter(None, values), None))}
    return SlotNotice(NodeNotice(is_draining, shutdowns, features=features), ends)


def _end_of(slot: Fields, vacate: VacateTime | None) -> int | None:
    """Return when a slot's job must have ended (epoch); None if it need not, or the time is unknown.

    A retiring job may run until its retirement is over, and is then asked to end (vacating). While it
    vacates, RetirementTimeRemaining stands still, as it was before.
    """
    activity, now_secs = slot.text("Activity"), slot.epoch("MyCurrentTime")
    since_secs, takes_secs = slot.epoch("EnteredCurrentActivity"), None
    left_secs = slot.count("RetirementTimeRemaining")
    if activity == RETIRING:
        since_secs, takes_secs = now_secs, left_secs
    elif activity == KILLING:
        takes_secs = 0
    elif activity == VACATING and vacate is not None:
        takes_secs = vacate.after_retirement(left_secs or 0)
    if since_secs is None or takes_secs is None or takes_secs >= ENDLESS_SECS:
        return None
    # An activity entered later than now was entered before the clock was set back.
    return None if now_secs is not None and since_secs > now_secs else since_secs + takes_secs


def _rating(slot: ClassAd, name: str) -> str | None:
    value = slot.value(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not MIN_RATING <= value < MAX_RATING:
        return None
    return f"{value:.4f}".rstrip("0").rstrip(".")
