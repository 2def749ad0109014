"""The settings that the hooks and the daemon share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobfeatures.batch import BatchSettings
from jobfeatures.features.keys import Area, MjfProfile, names_in
from jobfeatures.settings.resolve import (
    ADDRESS,
    BOOLEAN,
    COUNT,
    DECIMAL,
    FACTOR,
    PATH,
    PATTERN,
    POSITIVE_DURATION,
    SECONDS,
    SIZE,
    TEXT,
    URL,
    NamedTable,
    choice,
    node_option,
    option,
    tables,
    words,
)

JOB_KEYS = words(*sorted(names_in(Area.JOB, MjfProfile.BOTH)), of="keys of jobs")


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ServedSettings:
    """Where features are served over HTTP."""

    features_listen_address: str | None = option(
        ADDRESS, None, "listener for features and job status over HTTP, e.g. 127.0.0.1:9820"
    )
    features_url: str | None = option(URL, None, "that listener's URL for jobs, if different")


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class NodeSettings:
    """Which node this is."""

    node_name: str | None = option(
        TEXT, None, "this machine's name in the batch system, if not its short host name", is_common=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(ServedSettings, NodeSettings, BatchSettings):
    """The site's settings for `jobfeatures`."""

    features_profile: str = node_option(
        choice("2016", "2014", "both"),
        "2016",
        "keys of HSF-TN-2016-02, of the draft of 2014 (a job's files then belong to its user), or both",
        is_common=True,
    )
    features_leave_out: tuple[str, ...] = node_option(
        JOB_KEYS,
        (),
        "keys of jobs that are not published, e.g. max_rss_bytes for DIRAC 8",
    )
    features_shutdown_by_limit: bool = node_option(
        BOOLEAN,
        False,
        "shutdowntime_job is at most start and wall limit: for pilots that read no limits",
    )
    features_form: str = option(
        choice("local", "http", "both"),
        "local",
        "what jobs find in their variables: paths, HTTP addresses, or both (addresses in "
        "MACHINEFEATURES_URL …)",
    )
    features_bind: tuple[str, ...] = option(
        words("apptainer", "singularity"),
        (),
        "also set APPTAINER_BIND, SINGULARITY_BIND for jobs, so that their containers see the folders",
    )
    machine_total_cpu: int | None = node_option(
        COUNT, None, "processors available to jobs on this machine, if not all"
    )
    machine_hs06: str | None = node_option(DECIMAL, None, "HS06 rating of the whole machine")
    machine_hs23: str | None = node_option(
        DECIMAL, None, "HEPScore23 rating of the whole machine, published as hs23 (in neither specification)"
    )
    machine_hs06_per_core: str | None = node_option(
        DECIMAL, None, "HS06 rating of each processor, if machine.hs06 is not set"
    )
    machine_hs23_per_core: str | None = node_option(
        DECIMAL, None, "HEPScore23 rating of each processor, if machine.hs23 is not set"
    )
    machine_cpu_factor: str | None = node_option(
        FACTOR, None, "factor by which this machine is faster than the reference"
    )
    machine_grace_secs: int | None = node_option(SECONDS, None, "minimum notice of a shutdown of the machine")
    machine_jobslots: int | None = node_option(COUNT, None, "job slots of the machine")
    machine_shutdown_command: str | None = node_option(
        PATH, None, "command by which a job ends its virtual machine"
    )
    machine_metadata_url: str | None = node_option(
        URL,
        None,
        "a cloud's metadata service (link-local) with the key machinefeatures, e.g. "
        "http://169.254.169.254/latest/meta-data",
    )
    machine_scratch_dir: str | None = node_option(
        PATH, None, "scratch folder, whose size is disk_limit_GB (2014) of jobs without a limit"
    )
    job_grace_secs: int | None = node_option(SECONDS, None, "minimum notice of a job's own shutdown")
    job_scratch_bytes_per_cpu: int | None = node_option(
        SIZE, None, "scratch space of a job per processor, if the batch system sets no limit"
    )
    hook_timeout_secs: float = node_option(
        POSITIVE_DURATION, 2.0, "time limit of publish and remove in prolog and epilog"
    )
    schedule_share: str | None = option(
        TEXT, None, "controller role and expect: share of each user in CPUs; default: all CPUs ÷ users"
    )
    schedule_share_of: str | None = option(
        TEXT, None, "controller role and expect: exceptions, e.g. ann=16,bob=2.5"
    )
    schedule_history_secs: float = option(
        POSITIVE_DURATION,
        604_800.0,
        "controller role and expect: the period covered starts at a multiple of this, one to two periods ago",
    )
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
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
