"""The thresholds by which a job is judged, on the page, in `top`, in reports and by alerts.

A ratio is a share from 0 to 1. In reports that users ask for, jobstats calls CPUs below 65 % and GPUs below
15 % low, and jobs of less than ten samples too short (PrincetonUniversity/jobstats, config.py). As alerts
come unasked, our threshold for CPUs is lower. ``python -m grafana.generate`` writes the thresholds in
`SERIES` to ``grafana/rules/thresholds.yml``, where a site may change what its alerts compare with.
"""

from __future__ import annotations

from typing import Final, NamedTuple

# --- CPUs, of the time that is allocated
IDLE_CPU: Final = 0.05
# A job with one thread on each core of two hardware threads uses half of what it has: that is not little.
LOW_CPU: Final = 0.4
BUSY_CPU: Final = 0.8  # a job that waits for CPUs below this use shares them, or is bound to too few
SERIAL_CPUS: Final = 1.2  # no more CPUs in use are the work of one
MANY_CPUS: Final = 4  # so many are many for serial work
IO_STALLED: Final = 0.25  # of the time: some task waited for storage
CPU_STALLED: Final = 0.3
MEMORY_STALLED: Final = 0.1
THROTTLED: Final = 0.2  # of the CPU time that the job wanted
THREADS_PER_CPU: Final = 2.0
# --- GPUs, of the time that is allocated
IDLE_GPU: Final = 0.02
LOW_GPU: Final = 0.2
BUSY_GPU: Final = 0.5
# --- memory, of what is allocated on a node
MEMORY_FULL: Final = 0.95  # now
NEAR_MEMORY: Final = 0.9  # at its highest: samples miss what comes between them
LOW_MEMORY: Final = 0.25  # at its highest
# --- time
SETTLED_SECS: Final = 600.0  # jobs may start slowly
LOW_TIME: Final = 0.25  # of the wall limit
ENDS_SOON_SECS: Final = 600.0
# What is worth a word in a report that somebody asks for, or of a user's whole day.
SPARED_BYTES: Final = 2**30
SPARED_SECS: Final = 3600.0


class AlertSeries(NamedTuple):
    """A series ``site:NAME:KIND`` that alerts use, most of them thresholds to compare with.

    `expression` defines it in PromQL.
    """

    name: str
    expression: str  # in PromQL
    meaning: str
    kind: str = "threshold"


def _number(name: str, value: float, meaning: str) -> AlertSeries:
    return AlertSeries(name, f"vector({value:g})", meaning)


# By heading.
SERIES: Final[dict[str, tuple[AlertSeries, ...]]] = {
    "jobs": (
        _number("near_wall_limit_seconds", 1800, "near its wall limit is who has less than this left …"),
        _number("near_wall_limit_ratio", 0.1, "… and less than this part of the limit"),
        _number("past_wall_limit_seconds", 600, "batch systems end jobs a little late"),
        _number("memory_full_ratio", MEMORY_FULL, "of the job's memory on a node"),
        _number("memory_filling_ratio", 0.7, "a forecast below this share is not believed"),
        _number("memory_forecast_seconds", 1800, "how far ahead one looks"),
        _number("status_age_seconds", 3600, "JOBSTATUS that was not written for so long is stale"),
    ),
    "waste": (
        _number("idle_cpu_ratio", IDLE_CPU, "allocated CPUs are idle below this use"),
        _number("low_cpu_ratio", LOW_CPU, "… and little used below this one"),
        _number("serial_cpus", MANY_CPUS, "so many CPUs are many for serial work …"),
        _number("serial_busy_cpus", SERIAL_CPUS, "… which keeps no more busy"),
        _number("idle_gpu_ratio", IDLE_GPU, "allocated GPUs are idle below this use"),
        _number("low_gpu_ratio", LOW_GPU, "… and little used below this one"),
        AlertSeries("unused_memory_bytes", "vector(16 * 2^30)", "memory asked for in vain worth a word …"),
        _number("low_memory_ratio", LOW_MEMORY, "… if no more than this part was ever used"),
        _number("low_time_ratio", 0.1, "of the time a user asked for"),
        _number("asked_hours", 100, "hours asked in a day, below which nobody minds"),
        _number("idle_cpu_hours", 1000, "of a user in a day"),
        _number("idle_gpu_hours", 24, "of a user in a day"),
        _number("user_idle_ratio", 0.5, "and that is at least this part of what the user had"),
    ),
    "energy": (
        AlertSeries(
            "emissions_grams_per_kwh",
            "vector(0) > 0",
            "CO2 equivalent of the site's grid, such as vector(350); none: no emissions",
            "factor",
        ),
    ),
    "schedule": (
        _number("violated_ratio", 0.2, "jobs that ended late, of those that ended"),
        _number("violated_growth", 1.5, "times as many as the day before"),
        _number("user_late_ratio", 0.5, "of a user's jobs (VEET)"),
    ),
    "exporters": (
        _number("source_age_seconds", 900, "the answer of a batch system"),
        _number("exporters_down_ratio", 0.1, "of all, for an alarm that wakes somebody"),
        _number("spooled_documents", 1000, "that no sink has taken"),
        _number("sink_age_seconds", 3600, "since a sink last took a document"),
        _number("unreadable_readings", 100, "in an hour, on one node"),
    ),
}
