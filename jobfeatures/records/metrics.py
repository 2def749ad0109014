"""Defines how metrics are declared, and declares the metrics that several packages use, such as `drains`.

Pure. Other metrics are declared next to their collectors, in ``jobfeatures_exporter/scrape/collectors``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

UNITS = (
    *("core_seconds", "job_seconds", "seconds", "bytes", "ratio"),
    *("joules", "watts", "celsius", "hertz"),
)
BY_NAME = "by its name"
JOB = ("batch_system", "job_id")  # the labels that every series of a job begins with


@dataclass(frozen=True, eq=False)
class Metric:
    """The declaration of a metric family of Prometheus.

    `name` ends with its unit and has no ``_total`` or ``_info``; `kind` is "gauge", "counter", "info",
    "histogram" or "summary" (quantiles only). `meaning` is its help text. `sums` says that a gauge's values
    may be added up over jobs, as those of counters always may. If `verbatim`, samples have exactly this name,
    without a suffix such as ``_total``, because another exporter names them so.
    """

    name: str
    kind: str
    meaning: str
    label_names: tuple[str, ...] = ()
    unit: str = BY_NAME
    sums: bool = False
    verbatim: bool = False

    def __post_init__(self) -> None:
        if self.unit == BY_NAME:
            known = (each for each in UNITS if self.name.endswith(f"_{each}") and not self.verbatim)
            object.__setattr__(self, "unit", next(known, ""))

    @cached_property
    def sample_name(self) -> str:
        """Return the name that the metric's samples have on a page."""
        if self.verbatim:
            return self.name
        return self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")

    @cached_property
    def is_of_jobs(self) -> bool:
        """Return whether each series of the metric belongs to one job, which its first labels identify."""
        return self.label_names[:2] == JOB


def gauge(
    name: str,
    meaning: str,
    labels: tuple[str, ...] = (),
    *,
    unit: str = BY_NAME,
    sums: bool = False,
) -> Metric:
    """Declare a gauge: see `Metric` for the arguments."""
    return Metric(name, "gauge", meaning, labels, unit, sums)


def counter(name: str, meaning: str, labels: tuple[str, ...] = ()) -> Metric:
    """Declare a counter: see `Metric` for the arguments."""
    return Metric(name, "counter", meaning, labels)


JOB_INFO = Metric(
    "batch_job",
    "info",
    "Owner and properties of the job. sluid and slot name its control group in Slurm and HTCondor; schedd: "
    "HTCondor's; place: the container or the path that it is found in besides ordinary ones; accounting: "
    "figures come from cgroup or processes. Unknown labels are empty.",
    (
        *(*JOB, "user", "uid", "account", "partition", "name", "array_job_id", "array_task_id", "het_job_id"),
        *("sluid", "slot", "schedd", "place", "accounting"),
    ),
)
JOB_START = gauge("batch_job_start_time_seconds", "Start of the job.", JOB)
JOB_END = gauge(
    "batch_job_end_time_seconds",
    "End of a job that is still shown, by its batch system, else when it was noticed.",
    JOB,
)
JOB_CPUS = gauge("batch_job_allocated_cpus", "CPUs allocated to the job on this node.", JOB, sums=True)
JOB_REMAINING = gauge(
    "batch_job_remaining_seconds",
    "Time until the job ends, by basis: wall_limit, cpu_limit (at its present CPU rate), deadline, "
    "shutdown, its own expected_end or maximum_end, and the least of these (minimum); negative once passed.",
    (*JOB, "basis"),
)

_BASIS = "; basis reported: by JOBSTATUS; measured: by CPU time; estimated: by the batch system's data."
JOB_DRAINING_WASTE = gauge(
    "batch_job_draining_waste_core_seconds",
    "CPU time that would stay idle if the job drained from now on" + _BASIS,
    (*JOB, "basis"),
)
JOB_KILL_WASTE = gauge(
    "batch_job_kill_waste_core_seconds",
    "CPU time that would be lost if the job was killed now" + _BASIS,
    (*JOB, "basis"),
)
JOB_CAPPED_WASTE = gauge(
    "batch_job_waste_capped_core_seconds",
    "Draining or kill waste used in sums and plans if the job reports more than its CPUs can do.",
    (*JOB, "waste"),
)
JOB_SAYS_CPUS = gauge("batch_job_status_used_cpus", "CPUs that the job says it uses.", JOB)
JOB_SAYS_PRIORITY = gauge(
    "batch_job_status_priority_factor",
    "The job's priority_factor: higher is more important among jobs of one user.",
    JOB,
)
JOB_SAYS_POSTPONABLE = gauge(
    "batch_job_status_can_postpone",
    "The job's can_postpone_last_job: 1 if its last payload can be postponed, 0 if not.",
    JOB,
)
NODE_CPUS = gauge(
    "batch_node_allocatable_cpus",
    "CPUs available to jobs on this node: as configured, else by the batch system, else all online.",
)
NODE_READ_AT = gauge("batch_node_sample_timestamp_seconds", "Time of the latest sample.")
NODE_SHUTDOWN = gauge(
    "batch_node_shutdown_time_seconds",
    "Shutdown of the node, by who announced it: operator or a batch system.",
    ("source",),
)
SOURCE_UP = gauge("batch_exporter_source_up", "1 if the latest query was answered.", ("source",))
SOURCE_AGE = gauge(
    "batch_exporter_source_age_seconds",
    "Age of the table in use; absent until the source has answered once.",
    ("source",),
)
NO_BATCH_SYSTEM = frozenset({"none", "container", "service", "session"})  # such labels name no batch system
OTHERS = "other"  # the job id of the sums over jobs beyond a page's series budget


def names_job(batch_system: str | None, job_id: str | None) -> bool:
    """Return whether a series with these labels `batch_system` and `job_id` is about a single job.

    Otherwise it is about a service, or is a sum over several jobs.
    """
    return batch_system not in NO_BATCH_SYSTEM and job_id != OTHERS
