"""Builds nodes and jobs for drain plans from the series of a metrics page or a Prometheus server. Pure.

The daemon on each node has already computed each job's end and waste. So one node or a thousand can be
planned from metrics alone, without privileges on the nodes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobfeatures.errors import ParseError, shown
from jobfeatures.records.metrics import (
    JOB_CAPPED_WASTE,
    JOB_CPUS,
    JOB_DRAINING_WASTE,
    JOB_END,
    JOB_INFO,
    JOB_KILL_WASTE,
    JOB_REMAINING,
    JOB_SAYS_CPUS,
    JOB_SAYS_POSTPONABLE,
    JOB_SAYS_PRIORITY,
    JOB_START,
    NO_BATCH_SYSTEM,
    NODE_CPUS,
    NODE_READ_AT,
    NODE_SHUTDOWN,
    OTHERS,
    SOURCE_AGE,
    SOURCE_UP,
    Metric,
)
from jobfeatures.records.series import Series
from jobfeatures.status.waste import Basis

READ = (
    *(JOB_CPUS, JOB_INFO, JOB_REMAINING, JOB_DRAINING_WASTE, JOB_KILL_WASTE, JOB_CAPPED_WASTE, JOB_START),
    *(JOB_END, JOB_SAYS_CPUS, JOB_SAYS_PRIORITY, JOB_SAYS_POSTPONABLE),
    *(NODE_READ_AT, NODE_CPUS, NODE_SHUTDOWN, SOURCE_UP, SOURCE_AGE),
)
NAMES = tuple(metric.sample_name for metric in READ)
LATE_SECS = 60.0  # how late a batch system may end a job


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJob:
    """One job as described by a node's metrics; None means that the metrics do not show the value.

    `end_secs` is in seconds from now. Waste is in core seconds: `draining_core_secs` is what the job wastes
    if it drains until its end, `kill_core_secs` what is lost if it is killed now, and `kill_rate_cpus` how
    much the latter grows per second. If `is_capped`, the job reported more waste than its CPUs can produce.
    """

    batch_system: str
    job_id: str
    user: str | None = None
    allocated_cpus: int | None = None
    end_secs: float | None = None  # from now on
    end_basis: Basis = Basis.ESTIMATED
    draining_core_secs: float | None = None
    kill_core_secs: float | None = None
    kill_basis: Basis = Basis.ESTIMATED
    kill_rate_cpus: float | None = None  # core seconds by which the kill waste grows per second
    is_capped: bool = False  # the job reported more of either waste than its CPUs can produce
    priority_factor: int | None = None
    can_postpone: bool | None = None

    @property
    def name(self) -> str:
        """Return the job's name in tables."""
        return f"{self.batch_system} {self.job_id}"

    @property
    def is_known(self) -> bool:
        """Return whether the job's CPUs and kill waste are known; else the cost of killing it is unknown."""
        return self.allocated_cpus is not None and self.kill_core_secs is not None


@dataclass(frozen=True, slots=True)
class SeenNode:
    """One node with its jobs, as described by its metrics; `name` is its instance on a Prometheus server.

    Where several nodes have one instance, `name` has their labels cluster and node: ``CLUSTER/NODE``.
    `silent` are job sources that have not answered yet, so that jobs may be missing. `shutdowns` are
    announced shutdown times in epoch seconds, by their source.
    """

    name: str
    total_cpus: int | None
    jobs: tuple[SeenJob, ...] = ()
    silent: tuple[str, ...] = ()  # job sources that have not answered yet, so jobs may be missing
    shutdowns: Mapping[str, float] = field(default_factory=dict)  # announced: epoch seconds, by source


@dataclass(slots=True)
class _Gathered:
    total_cpus: int | None = None
    read_at_secs: float | None = None  # epoch seconds by the node's clock
    shutdowns: dict[str, float] = field(default_factory=dict)  # epoch seconds, by source
    jobs: dict[tuple[str, str], list[Series]] = field(default_factory=dict)
    ended: set[tuple[str, str]] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)


def gather_nodes(series: Iterable[Series], source: str) -> tuple[SeenNode, ...]:
    """Return the nodes that series of the exporter's metrics describe, sorted by name, each with its jobs.

    An exporter that reports neither CPUs for jobs nor jobs is not counted as a node. On a node with very many
    jobs, the exporter sums up some of them under the job id "other" (`OTHERS`). The sum is returned as one
    job with this id, of which only the CPUs are known. `source` names the server in errors. Raises ParseError
    if a value is NaN or infinite.
    """
    nodes: dict[tuple[str, str, str], _Gathered] = {}
    for each in series:
        if not math.isfinite(each.value):
            raise ParseError("not a finite number", source=source, field=each.name, text=str(each.value))
        place = (each.labels.get(name, "") for name in ("instance", "cluster", "node"))
        node = nodes.setdefault(tuple(place), _Gathered())  # type: ignore[arg-type]  # three
        if each.name == NODE_CPUS.sample_name:
            node.total_cpus = _whole(each.value)
        elif each.name == NODE_READ_AT.sample_name:
            node.read_at_secs = each.value
        elif each.name == NODE_SHUTDOWN.sample_name:
            node.shutdowns[each.labels.get("source", "")] = each.value
        elif each.name == SOURCE_UP.sample_name:
            node.sources.add(each.labels.get("source", ""))
        elif each.name == SOURCE_AGE.sample_name:
            node.answered.add(each.labels.get("source", ""))
        elif "job_id" in each.labels and each.labels.get("batch_system") not in NO_BATCH_SYSTEM:
            key = each.labels.get("batch_system", ""), each.labels["job_id"]
            if each.name == JOB_END.sample_name:
                node.ended.add(key)
            else:
                node.jobs.setdefault(key, []).append(each)
    # Else it is a controller's daemon.
    found = {each: node for each, node in nodes.items() if node.total_cpus is not None or node.jobs}
    several = Counter(instance for instance, *_ in found)
    return tuple(
        SeenNode(
            _name(*place, is_alone=several[place[0]] == 1),
            node.total_cpus,
            tuple(
                _job_of(key, node.jobs[key], node.read_at_secs)
                for key in sorted(node.jobs.keys() - node.ended)
            ),
            tuple(sorted(node.sources - node.answered)),
            node.shutdowns,
        )
        for place, node in sorted(found.items())
    )


def _name(instance: str, cluster: str, node: str, *, is_alone: bool) -> str:
    if not instance:
        return "this node"
    return instance if is_alone else "/".join(filter(None, (cluster, node or instance)))


def _job_of(key: tuple[str, str], series: Iterable[Series], read_at_secs: float | None) -> SeenJob:
    values: dict[tuple[str, str], float] = {}
    user = None
    for each in series:
        values[each.name, each.labels.get("basis", each.labels.get("waste", ""))] = each.value
        if each.name == JOB_INFO.sample_name:
            user = each.labels.get("user") or None

    def waste(metric: Metric, kind: str) -> tuple[float | None, Basis]:
        for basis in (Basis.REPORTED, Basis.MEASURED, Basis.ESTIMATED):
            if (own := values.get((metric.sample_name, str(basis)))) is not None:
                return values.get((JOB_CAPPED_WASTE.sample_name, kind), own), basis
        return None, Basis.ESTIMATED

    def shown_as(metric: Metric, convert: Callable[[float], Any]) -> Any:
        value = values.get((metric.sample_name, ""))
        return None if value is None else convert(value)

    allocated = shown_as(JOB_CPUS, _whole)
    if key[1] == OTHERS:
        return SeenJob(batch_system=key[0], job_id=OTHERS, allocated_cpus=allocated)
    kill, kill_basis = waste(JOB_KILL_WASTE, "kill")
    rate = shown_as(JOB_SAYS_CPUS, float) if kill_basis is Basis.REPORTED else allocated
    start = shown_as(JOB_START, float)
    if kill_basis is Basis.MEASURED and None not in (kill, start, read_at_secs, allocated):
        rate = min(allocated, kill / max(1.0, read_at_secs - start))  # assume that the mean rate continues
    end, end_basis = _end_of(values)
    return SeenJob(
        batch_system=key[0],
        job_id=key[1],
        user=user,
        allocated_cpus=allocated,
        end_secs=end,
        end_basis=end_basis,
        draining_core_secs=waste(JOB_DRAINING_WASTE, "draining")[0],
        kill_core_secs=kill,
        kill_basis=kill_basis,
        kill_rate_cpus=rate,
        is_capped=any(name == JOB_CAPPED_WASTE.sample_name for name, _ in values),
        priority_factor=shown_as(JOB_SAYS_PRIORITY, _whole),
        can_postpone=shown_as(JOB_SAYS_POSTPONABLE, bool),
    )


def _end_of(values: Mapping[tuple[str, str], float]) -> tuple[float | None, Basis]:
    """Return the seconds until the end: the job's own estimate, unless a limit comes first; and its basis.

    An end that passed long ago is ignored: the job still runs.
    """
    ends = {
        basis: value
        for (name, basis), value in values.items()
        if name == JOB_REMAINING.sample_name and value >= -LATE_SECS
    }
    limits = [ends[basis] for basis in ("wall_limit", "cpu_limit", "deadline") if basis in ends]
    own = ends.get("expected_end", ends.get("maximum_end"))
    if own is not None and own <= min(limits, default=own):
        return own, Basis.REPORTED
    return min(limits, default=None), Basis.ESTIMATED


def _whole(value: float) -> int:
    if abs(value) > 2**63 or value != int(value):
        raise ParseError("not a whole number", source="metrics", text=shown(str(value)))
    return int(value)
