"""Collectors: one file each, one line in `COLLECTORS` each.

A file offers `METRICS`, the declarations of its families, and `families(context)`, which yields them with
samples: pure, so that one that fails costs its own series only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from jobfeatures.errors import JobfeaturesError
from jobfeatures.metrics import Metric, gauge
from jobfeatures_exporter.collectors import (
    allocation,
    cluster,
    cores,
    drains,
    energy,
    exits,
    fairshare,
    features,
    gpudetail,
    gpus,
    jobs,
    kernel,
    licences,
    node,
    process,
    processes,
    queue,
    remaining,
    reservations,
    schedule,
    scheduler,
    sinks,
    sources,
    status,
    steps,
    sysinfo,
    waste,
    web,
    work,
)
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.exposition import Family

log = logging.getLogger(__name__)

NODE, CONTROLLER = ROLES = ("node", "controller")  # of the daemon


class Collector(NamedTuple):
    """One line of the table."""

    meaning: str
    metrics: tuple[Metric, ...]
    families: Callable[[Context], Iterator[Family]]
    enabled: bool = True
    roles: tuple[str, ...] = (NODE,)  # in which it runs
    is_live: bool = True  # switched on and off while the daemon runs


def _of(meaning: str, module: ModuleType, **more: Any) -> Collector:
    return Collector(meaning, module.METRICS, module.families, **more)


_of_cluster = partial(_of, roles=(CONTROLLER,), is_live=False)

COLLECTORS: dict[str, Collector] = {
    "node": _of("CPU, memory and load of the node", node),
    "jobs": _of("what each job uses", jobs),
    "steps": _of("what each step of a job uses, with jobs.steps", steps),
    "processes": _of("the processes of each job by command", processes, enabled=False, is_live=False),
    "cores": _of("what each job uses of each core", cores, enabled=False),
    "kernel": _of("how processes are read; series of jobs need sums in the kernel", kernel),
    "allocation": _of("properties and allocation of each job", allocation),
    "energy": _of("energy of the node and of each job", energy),
    "work": _of("work that jobs do, with work.events", work),
    "gpus": _of("GPUs, and their use by each job", gpus),
    "gpudetail": _of(
        "profile, memory errors, XID events and held clocks of NVIDIA's GPUs",
        gpudetail,
        enabled=False,
        is_live=False,
    ),
    "exits": _of("exit records of processes", exits),
    "remaining": _of("how long each job still runs", remaining),
    "waste": _of("what draining or killing each job would waste", waste),
    "drains": _of("drains, and what they would waste now", drains),
    "status": _of("what jobs report in JOBSTATUS", status),
    "features": _of("published feature directories", features),
    "queue": _of("the queue by partition, in the controller role", queue, roles=(CONTROLLER,)),
    "cluster": _of("the nodes by partition, in the controller role", cluster, roles=(CONTROLLER,)),
    "schedule": _of_cluster("quality of the schedule, in the controller role", schedule),
    "scheduler": _of_cluster(
        "how busy slurmctld is, by sdiag's counters (anew each midnight UTC), in the controller role",
        scheduler,
    ),
    "licences": _of_cluster("licences, in the controller role", licences),
    "reservations": _of_cluster("reservations, in the controller role", reservations),
    "fairshare": _of_cluster(
        "shares of accounts and users, in the controller role", fairshare, enabled=False
    ),
    "sources": _of("batch sources", sources, roles=ROLES),
    "sysinfo": _of("hardware of the node", sysinfo),
    "sinks": _of("documents sent in Sonar's format", sinks, roles=ROLES),
    "web": _of("the listeners", web, roles=ROLES),
    "process": _of("the exporter itself", process, roles=ROLES),
}

SUCCESS = gauge(
    "batch_exporter_collector_success", "1 if the collector worked, 0 if it failed.", ("collector",)
)
DURATION = gauge(
    "batch_exporter_collector_duration_seconds", "How long the collector took in this scrape.", ("collector",)
)
METRICS = (SUCCESS, DURATION)


def collect(context: Context, enabled: Collection[str]) -> list[Family]:
    """Return the families of all enabled collectors, then how each of them fared."""
    found: list[Family] = []
    success: dict[str, int] = {}
    duration: dict[str, float] = {}
    for name, collector in COLLECTORS.items():
        if name not in enabled:
            continue
        started = time.perf_counter()
        try:
            found.extend(collector.families(context))  # what comes before a fault stays
            success[name] = 1
        except (JobfeaturesError, OSError) as error:
            log.error("collector failed: %s", error, extra={"collector": name})
            success[name] = 0
        except Exception:  # supervised: a collector's fault costs its own series only
            log.exception("collector failed", extra={"collector": name})
            success[name] = 0
        duration[name] = time.perf_counter() - started
    return [*found, Family.by_word(SUCCESS, success), Family.by_word(DURATION, duration)]
