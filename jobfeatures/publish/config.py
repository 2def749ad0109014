"""The settings about what is published of a machine and its jobs, and how jobs read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jobfeatures.features.keys import Area, MjfProfile, names_in
from jobfeatures.settings.declare import (
    ADDRESS,
    BOOLEAN,
    COUNT,
    DECIMAL,
    FACTOR,
    PATH,
    PATTERN,
    SECONDS,
    SIZE,
    TEXT,
    URL,
    NamedTable,
    choice,
    node_option,
    option,
    origins,
    record,
    tables,
    words,
)

JOB_KEYS = words(*sorted(names_in(Area.JOB, MjfProfile.BOTH)), of="keys of jobs")


@dataclass(frozen=True, kw_only=True)
class ServedSettings:
    """Settings: where features are served over HTTP."""

    listen_address: str | None = option(
        ADDRESS, None, "listener for features and job status over HTTP, e.g. 127.0.0.1:9820"
    )
    url: str | None = option(URL, None, "that listener's URL for jobs, if different")


@dataclass(frozen=True, kw_only=True)
class FeaturesSettings:
    """Settings: which keys jobs find, and how they reach them."""

    profile: str = node_option(
        choice("2016", "2014", "both"),
        "2016",
        "keys of HSF-TN-2016-02, of the draft of 2014 (a job's files then belong to its user), or both",
        is_common=True,
    )
    leave_out: tuple[str, ...] = node_option(
        JOB_KEYS,
        (),
        "keys of jobs that are not published, e.g. max_rss_bytes for DIRAC 8",
    )
    shutdown_by_limit: bool = node_option(
        BOOLEAN,
        False,
        "shutdowntime_job is at most start and wall limit: for pilots that read no limits",
    )
    form: str = option(
        choice("local", "http", "both"),
        "local",
        "what jobs find in their variables: paths, HTTP addresses, or both (addresses in "
        "MACHINEFEATURES_URL …)",
    )
    bind: tuple[str, ...] = option(
        words("apptainer", "singularity"),
        (),
        "also set APPTAINER_BIND, SINGULARITY_BIND for jobs, so that their containers see the folders",
    )


@dataclass(frozen=True, kw_only=True)
class MachineSettings:
    """Settings: what the site states about this machine."""

    total_cpu: int | None = node_option(
        COUNT, None, "processors available to jobs on this machine, if not all"
    )
    hs06: str | None = node_option(DECIMAL, None, "HS06 rating of the whole machine")
    hs23: str | None = node_option(
        DECIMAL, None, "HEPScore23 rating of the whole machine, published as hs23 (in neither specification)"
    )
    hs06_per_core: str | None = node_option(
        DECIMAL, None, "HS06 rating of each processor, if machine.hs06 is not set"
    )
    hs23_per_core: str | None = node_option(
        DECIMAL, None, "HEPScore23 rating of each processor, if machine.hs23 is not set"
    )
    cpu_factor: str | None = node_option(
        FACTOR, None, "factor by which this machine is faster than the reference"
    )
    grace_secs: int | None = node_option(SECONDS, None, "minimum notice of a shutdown of the machine")
    jobslots: int | None = node_option(COUNT, None, "job slots of the machine")
    shutdown_command: str | None = node_option(PATH, None, "command by which a job ends its virtual machine")
    metadata_url: str | None = node_option(
        URL,
        None,
        "a cloud's metadata service (link-local) with the key machinefeatures, e.g. "
        "http://169.254.169.254/latest/meta-data",
    )
    scratch_dir: str | None = node_option(
        PATH, None, "scratch folder, whose size is disk_limit_GB (2014) of jobs without a limit"
    )


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """Settings: the notice and the scratch space that the site promises to jobs."""

    grace_secs: int | None = node_option(SECONDS, None, "minimum notice of a job's own shutdown")
    scratch_bytes_per_cpu: int | None = node_option(
        SIZE, None, "scratch space of a job per processor, if the batch system sets no limit"
    )


@dataclass(frozen=True, kw_only=True)
class SiteSettings:
    """Settings: what the site states about machines and jobs, and how these are served.

    The tables `cpu_model` and `partition` state values for some machines or jobs only. `origins` says where
    each value comes from.
    """

    served: ServedSettings = record(ServedSettings, "features")
    features: FeaturesSettings = record(FeaturesSettings)
    machine: MachineSettings = record(MachineSettings)
    job: JobSettings = record(JobSettings)
    cpu_model: tuple[NamedTable, ...] = tables(
        "cpu_model",
        PATTERN,
        {
            "total_cpu": COUNT,
            "hs06": DECIMAL,
            "hs23": DECIMAL,
            "hs06_per_core": DECIMAL,
            "hs23_per_core": DECIMAL,
            "cpu_factor": FACTOR,
            "grace_secs": SECONDS,
            "jobslots": COUNT,
            "shutdown_command": PATH,
            "scratch_bytes_per_cpu": SIZE,
        },
        "for machines whose complete CPU model matches; if several match, the first one applies",
        live="node",
    )
    partition: tuple[NamedTable, ...] = tables(
        "partition",
        TEXT,
        {
            "cpu_factor": FACTOR,
            "grace_secs": SECONDS,
            "scratch_bytes_per_cpu": SIZE,
            "form": choice("local", "http", "both"),
            "profile": choice("2016", "2014", "both"),
            "leave_out": JOB_KEYS,
            "shutdown_by_limit": BOOLEAN,
        },
        "for jobs of a partition or queue; grace_secs and the profile are the job's",
        live="node",
    )
    origins: Mapping[str, str] = origins()
