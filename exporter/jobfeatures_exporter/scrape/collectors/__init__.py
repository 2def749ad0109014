"""Collectors of metrics: each has a file and an entry in `COLLECTORS`.

A file offers `METRICS`, its declarations, and `families(context)`, a pure function that yields them with
samples. Those in `controller` run in the controller role. If a collector fails, only its own series are
missing.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Collection, Iterable, Iterator
from functools import cache, partial
from types import ModuleType
from typing import NamedTuple

from jobfeatures.errors import JobfeaturesError
from jobfeatures.records.metrics import Metric, gauge
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context

log = logging.getLogger(__name__)

NODE, CONTROLLER = ROLES = ("node", "controller")  # roles of the daemon


class Collector(NamedTuple):
    """A collector of metrics, as `COLLECTORS` lists it. Its file has its name, and is imported on demand.

    `enabled` says whether it is on by default, `roles` in which roles of the daemon it runs, and `is_live`
    whether it can be switched on and off while the daemon runs.
    """

    name: str  # also the name of its file, in the room of its roles
    meaning: str
    enabled: bool = True
    roles: tuple[str, ...] = (NODE,)  # roles that run it
    is_live: bool = True  # can be switched on and off while the daemon runs

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the declarations of the collector's metrics."""
        metrics: tuple[Metric, ...] = _load(self).METRICS
        return metrics

    def families(self, context: Context) -> Iterator[Family]:
        """Yield the collector's metric families with their samples."""
        families: Iterator[Family] = _load(self).families(context)
        return families


@cache
def _load(collector: Collector) -> ModuleType:
    room = {ROLES: ".own", (CONTROLLER,): ".controller"}.get(collector.roles, "")
    return importlib.import_module(f"{__name__}{room}.{collector.name}")


def load_all(names: Iterable[str]) -> None:
    """Import these collectors, so that the first scrape need not; log those that cannot be imported."""
    for name in names:
        try:
            _load(COLLECTORS[name])
        except Exception:  # supervised, as at a scrape
            log.exception("unexpected error: this collector cannot be loaded", extra={"collector": name})


_of_cluster = partial(Collector, roles=(CONTROLLER,), is_live=False)

COLLECTORS: dict[str, Collector] = {
    each.name: each
    for each in (
        Collector("node", "CPU, memory and load of the node"),
        Collector("jobs", "what each job uses"),
        Collector("steps", "what each step of a job uses, with jobs.steps"),
        Collector("processes", "the processes of each job by command", enabled=False, is_live=False),
        Collector("cores", "what each job uses of each core", enabled=False),
        Collector("kernel", "how processes are read; series of jobs need eBPF (sums in the kernel)"),
        Collector("allocation", "properties and allocation of each job"),
        Collector("energy", "energy of the node and of each job"),
        Collector("work", "work that jobs do, with work.events"),
        Collector("gpus", "GPUs, and their use by each job"),
        Collector(
            "gpudetail",
            "profile, memory errors, XID events and held clocks of NVIDIA's GPUs",
            enabled=False,
            is_live=False,
        ),
        Collector("remaining", "how long each job still runs"),
        Collector("waste", "what draining or killing each job would waste"),
        Collector("drains", "drains, and what they would waste now"),
        Collector("status", "what jobs report in JOBSTATUS"),
        Collector("features", "published feature directories"),
        Collector("queue", "the queue by partition, in the controller role", roles=(CONTROLLER,)),
        Collector("cluster", "the nodes by partition, in the controller role", roles=(CONTROLLER,)),
        _of_cluster("schedule", "quality of the schedule, in the controller role"),
        _of_cluster(
            "scheduler",
            "how busy slurmctld is, by sdiag's counters (anew each midnight UTC), in the controller role",
        ),
        _of_cluster("licences", "licences, in the controller role"),
        _of_cluster("reservations", "reservations, in the controller role"),
        _of_cluster("fairshare", "shares of accounts and users, in the controller role", enabled=False),
        Collector("sources", "batch sources", roles=ROLES),
        Collector("sysinfo", "hardware of the node"),
        Collector("sinks", "documents sent in Sonar's format", roles=ROLES),
        Collector("web", "the listeners", roles=ROLES),
        Collector("process", "the exporter itself", roles=ROLES),
    )
}

SLOW_SECS = 0.1  # a collector that takes as long is shown by itself
FAILED = gauge("batch_exporter_failed_collectors", "Collectors that failed in this scrape.")
SPENT = gauge("batch_exporter_collectors_duration_seconds", "How long all collectors took in this scrape.")
SUCCESS = gauge(
    "batch_exporter_collector_success",
    f"0 if the collector failed, 1 if it worked; only of those that failed or took {SLOW_SECS:g} s.",
    ("collector",),
)
DURATION = gauge(
    "batch_exporter_collector_duration_seconds",
    "How long the collector took in this scrape; only of the same ones.",
    ("collector",),
)
METRICS = (FAILED, SPENT, SUCCESS, DURATION)


def collect(context: Context, enabled: Collection[str]) -> list[Family]:
    """Return the metric families of all enabled collectors, then those about the collectors' own success."""
    found: list[Family] = []
    success: dict[str, int] = {}
    duration: dict[str, float] = {}
    for name, collector in COLLECTORS.items():
        if name not in enabled:
            continue
        started = time.perf_counter()
        try:
            found.extend(collector.families(context))  # families yielded before a fault are kept
            success[name] = 1
        except (JobfeaturesError, OSError) as error:
            log.error("collector failed: %s", error, extra={"collector": name})
            success[name] = 0
        except Exception:  # supervised: a fault costs only this collector's series
            log.exception("collector failed", extra={"collector": name})
            success[name] = 0
        duration[name] = time.perf_counter() - started
    shown = [name for name in success if not success[name] or duration[name] >= SLOW_SECS]
    return [
        *found,
        Family.single(FAILED, sum(not worked for worked in success.values())),
        Family.single(SPENT, sum(duration.values())),
        Family.by_label(SUCCESS, {name: success[name] for name in shown}),
        Family.by_label(DURATION, {name: duration[name] for name in shown}),
    ]
