"""Describes in words where each published value comes from. Pure.

A value from the batch system takes precedence over the site's statement, which takes precedence over a
default. Origins are made and stored together with the values, so that they describe what is published, not
the current settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jobfeatures.errors import ParseError
from jobfeatures.features import keys
from jobfeatures.features.job import Terms, scratch_limit
from jobfeatures.features.machine import Machine
from jobfeatures.records.model import Job

DERIVED: Mapping[str, str] = {
    keys.HS06_JOB.name: "hs06 * allocated_cpu / total_cpu",
    keys.HS23_JOB.name: "hs23 * allocated_cpu / total_cpu",
    keys.CPU_LIMIT_SECS_LRMS.name: "cpu_limit_secs * cpufactor_lrms",
    keys.WALL_LIMIT_SECS_LRMS.name: "wall_limit_secs * cpufactor_lrms",
    keys.DISK_LIMIT_GB.name: "scratch_limit_bytes / 10^9",
    keys.MEM_LIMIT_MB.name: "max_rss_bytes / 10^6",
    keys.ALLOCATED_CPU_2014.name: "allocated_cpu",
}
SETTINGS: Mapping[str, str] = {
    keys.TOTAL_CPU.name: "machine.total_cpu",
    keys.HS06.name: "machine.hs06",
    keys.GRACE_SECS.name: "machine.grace_secs",
    keys.JOBSLOTS.name: "machine.jobslots",
    keys.SHUTDOWN_COMMAND.name: "machine.shutdown_command",
    keys.HS23.name: "machine.hs23",
    keys.GRACE_SECS_JOB.name: "job.grace_secs",
    keys.CPUFACTOR_LRMS.name: "machine.cpu_factor",
    keys.SCRATCH_LIMIT_BYTES.name: "job.scratch_bytes_per_cpu",
}
DEFAULTS: Mapping[str, str] = {
    keys.JOBSLOTS.name: "total_cpu, a slot for each",
    keys.TOTAL_CPU.name: "processors that the system shows",
    keys.PHYS_CORES.name: "/sys/devices/system/cpu",
    keys.LOG_CORES.name: "/sys/devices/system/cpu",
}
DRAIN = "drain"
UNKNOWN = "not recorded"


def machine_origins(names: Iterable[str], machine: Machine) -> dict[str, str]:
    """Return, by key, in words where a machine's values of the keys `names` come from."""
    known = {keys.SHUTDOWNTIME.name: DRAIN}
    known |= {name: f"default: {default}" for name, default in DEFAULTS.items()}
    known |= machine.origins
    return {name: known.get(name, UNKNOWN) for name in names}


def job_origins(names: Iterable[str], job: Job, terms: Terms, fields: Mapping[str, str]) -> dict[str, str]:
    """Return, by key, in words where a job's values of the keys `names` come from.

    `fields` maps keys to the batch system's own names for them (its `key_sources`).
    """
    system = job.key.batch_system
    own = fields.get(keys.SHUTDOWNTIME_JOB.name, "the job's deadline")
    known = {name: f"{system}: {field}" for name, field in fields.items()}
    announced = [DRAIN]
    if job.deadline_secs is not None:
        announced.append(f"{system}: {own}")
    if terms.shutdown_by_limit:
        announced.append("jobstart_secs + wall_limit_secs")
    known[keys.SHUTDOWNTIME_JOB.name] = ", or ".join(announced)
    known |= {name: f"derived: {formula}" for name, formula in DERIVED.items()}
    reported = terms.origins.keys() - {keys.SCRATCH_LIMIT_BYTES.name}
    if job.cpu_factor is not None:
        reported -= {keys.CPUFACTOR_LRMS.name}
    if job.grace_secs is not None and (terms.grace_secs is None or job.grace_secs < terms.grace_secs):
        reported -= {keys.GRACE_SECS_JOB.name}
    if isinstance(scratch_limit(job, terms), int):
        reported -= {keys.DISK_LIMIT_GB.name}  # which is then derived
    known |= {name: terms.origins[name] for name in reported}
    if job.limits.scratch_bytes is None and terms.scratch_bytes_per_cpu is not None:
        origin = terms.origins.get(keys.SCRATCH_LIMIT_BYTES.name, UNKNOWN)
        known[keys.SCRATCH_LIMIT_BYTES.name] = f"{origin} * allocated_cpu"
    return {name: known.get(name, UNKNOWN) for name in names}


def format_origins(origins: Mapping[str, str]) -> str:
    """Return origins as the text of a file, with one line per key: name, tab, origin."""
    return "".join(f"{name}\t{origin}\n" for name, origin in origins.items())


def parse_origins(text: str, *, source: str = "") -> dict[str, str]:
    """Return, by key, the origins in a text from `format_origins`. Raises ParseError naming the line.

    `source` names the file in errors.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        name, tab, origin = line.partition("\t")
        if tab:
            found[name] = origin
        elif line:
            raise ParseError("no tab between key and origin", source=source, line=number, text=line)
    return found
