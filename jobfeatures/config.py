"""The settings that the hooks and the daemon share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobfeatures.settings import (
    ADDRESS,
    BOOLEAN,
    COUNT,
    DECIMAL,
    FACTOR,
    PATH,
    PATTERN,
    PLAIN_PATH,
    POSITIVE_DURATION,
    SECONDS,
    SIZE,
    TEXT,
    URL,
    Table,
    choice,
    setting,
    tables,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What `jobfeatures` needs to know about its site."""

    features_root: str = setting(
        "features.root", PLAIN_PATH, "/run/jobfeatures", "folder that holds the published directories"
    )
    features_profile: str = setting(
        "features.profile",
        choice("2016", "2014", "both"),
        "2016",
        "whose keys are published: of HSF-TN-2016-02, of the draft of 2014 (files of a job are then its"
        " user's own), or of both",
    )
    features_hs23: bool = setting(
        "features.hs23", BOOLEAN, False, "also publish hs23 and hs23_job, which neither text has"
    )
    features_listen_address: str | None = setting(
        "features.listen_address",
        ADDRESS,
        None,
        "where the daemon serves features and job status over HTTP, e.g. 127.0.0.1:9820; off if not set",
    )
    features_tls_certificate: str | None = setting(
        "features.tls_certificate",
        PATH,
        None,
        "certificate chain (PEM) of that listener, which then speaks HTTPS; read again when it changes",
    )
    features_tls_key: str | None = setting(
        "features.tls_key", PATH, None, "private key (PEM) of that certificate"
    )
    features_url: str | None = setting(
        "features.url", URL, None, "address of that listener as jobs are told it, if not the one listened on"
    )
    features_form: str = setting(
        "features.form",
        choice("local", "http", "both"),
        "local",
        "what jobs find in their variables: paths, HTTP addresses, or paths and beside them addresses in"
        " MACHINEFEATURES_URL, JOBFEATURES_URL and JOBSTATUS_URL",
    )
    machine_total_cpu: int | None = setting(
        "machine.total_cpu",
        COUNT,
        None,
        "processors that jobs may get on this machine, if not all that it has",
    )
    machine_hs06: str | None = setting("machine.hs06", DECIMAL, None, "HS06 rating of the whole machine")
    machine_hs23: str | None = setting(
        "machine.hs23", DECIMAL, None, "HEPScore23 rating of the whole machine, for features.hs23"
    )
    machine_hs06_per_core: str | None = setting(
        "machine.hs06_per_core", DECIMAL, None, "HS06 rating of each processor, without machine.hs06"
    )
    machine_hs23_per_core: str | None = setting(
        "machine.hs23_per_core", DECIMAL, None, "HEPScore23 rating of each, without machine.hs23"
    )
    machine_cpu_factor: str | None = setting(
        "machine.cpu_factor", FACTOR, None, "factor by which this machine is faster than the reference"
    )
    machine_grace_secs: int | None = setting(
        "machine.grace_secs", SECONDS, None, "least notice that jobs get of a shutdown of the machine"
    )
    machine_jobslots: int | None = setting("machine.jobslots", COUNT, None, "job slots of the machine")
    machine_shutdown_command: str | None = setting(
        "machine.shutdown_command", PATH, None, "command by which a job ends its virtual machine"
    )
    machine_cpu_model: str | None = setting(
        "machine.cpu_model", TEXT, None, "CPU model that picks a table, if not that of /proc/cpuinfo"
    )
    machine_scratch_dir: str | None = setting(
        "machine.scratch_dir",
        PATH,
        None,
        "folder of the jobs' scratch space: of 2014, its whole size is disk_limit_GB of jobs without a limit",
    )
    job_grace_secs: int | None = setting(
        "job.grace_secs", SECONDS, None, "least notice that a job gets of its own shutdown"
    )
    job_scratch_bytes_per_cpu: int | None = setting(
        "job.scratch_bytes_per_cpu",
        SIZE,
        None,
        "scratch space of a job for each of its processors, where the batch system sets no limit",
    )
    node_name: str | None = setting(
        "node.name",
        TEXT,
        None,
        "this machine's name in the batch system, if not its host name up to the first dot",
    )
    hook_timeout_secs: float = setting(
        "hook.timeout", POSITIVE_DURATION, 2.0, "how long publish and remove may take in a prolog or epilog"
    )
    slurm_scontrol: str = setting("slurm.scontrol", TEXT, "scontrol", "Slurm's scontrol command")
    slurm_ask: str = setting(
        "slurm.ask",
        choice("auto", "scontrol", "rest", "json", "controller"),
        "auto",
        "how Slurm is asked: by its commands' text (scontrol, auto), by slurmrestd (rest), by its commands'"
        " JSON (json), or not by a node, which asks the controller role at controller.url (controller)",
    )
    slurm_rest_url: str | None = setting(
        "slurm.rest_url",
        TEXT,
        None,
        "where slurmrestd listens: unix:/run/slurmrestd.sock, http://HOST:PORT or https://HOST:PORT",
    )
    slurm_rest_token_file: str | None = setting(
        "slurm.rest_token_file",
        PATH,
        None,
        "file that holds the token for slurmrestd over TCP; only its owner may read it",
    )
    slurm_timeout_secs: float = setting(
        "slurm.timeout", POSITIVE_DURATION, 10.0, "how long the daemon waits for one answer of the controller"
    )
    slurm_refresh_secs: float = setting(
        "slurm.refresh",
        POSITIVE_DURATION,
        300.0,
        "how often the daemon asks again about a job it knows, a quarter sooner or later",
    )
    controller_url: str | None = setting(
        "controller.url",
        URL,
        None,
        "node role: where the controller role answers nodes (its controller.listen), e.g. https://ctl:9821",
    )
    controller_token_file: str = setting(
        "controller.token_file",
        PATH,
        "/etc/jobfeatures-exporter/node.token",
        "node role: file with this node's token, as node-token prints it; only its owner may read it",
    )
    controller_ca_file: str | None = setting(
        "controller.ca_file",
        PATH,
        None,
        "node role: authority (PEM) of the controller role's certificate, if not one of the system's",
    )
    controller_fallback_secs: float = setting(
        "controller.fallback",
        POSITIVE_DURATION,
        3600.0,
        "node role: how often a node asks the batch system itself, about one job, while the controller role"
        " does not answer",
    )
    slurm_node_refresh_secs: float = setting(
        "slurm.node_refresh",
        POSITIVE_DURATION,
        300.0,
        "how often the daemon asks whether the node drains and when maintenance begins",
    )
    slurm_ask_in_prolog: str = setting(
        "slurm.ask_in_prolog",
        choice("auto", "never"),
        "auto",
        "auto: the prolog asks the controller for limits that its environment lacks",
    )
    slurm_ask_max_nodes: int = setting(
        "slurm.ask_max_nodes",
        COUNT,
        32,
        "jobs on more nodes do not ask in the prolog: all their nodes start at once",
    )
    pbs_home: str = setting("pbs.home", PATH, "/var/spool/pbs", "folder of PBS's daemons: its PBS_HOME")
    pbs_qstat: str = setting(
        "pbs.qstat", TEXT, "qstat", "PBS's qstat command; pbsnodes is taken from beside it"
    )
    pbs_timeout_secs: float = setting(
        "pbs.timeout", POSITIVE_DURATION, 10.0, "how long the daemon waits for one answer of the server"
    )
    pbs_refresh_secs: float = setting(
        "pbs.refresh",
        POSITIVE_DURATION,
        300.0,
        "how often the daemon asks again about a job it knows, and about the node",
    )
    torque_home: str = setting(
        "torque.home", PATH, "/var/spool/torque", "folder of Torque's daemons: its server home"
    )
    torque_qstat: str = setting(
        "torque.qstat", TEXT, "qstat", "Torque's qstat command; pbsnodes is taken from beside it"
    )
    torque_timeout_secs: float = setting(
        "torque.timeout", POSITIVE_DURATION, 10.0, "how long the daemon waits for one answer of the server"
    )
    torque_refresh_secs: float = setting(
        "torque.refresh",
        POSITIVE_DURATION,
        300.0,
        "how often the daemon asks again about a job it knows, and about the node",
    )
    lsf_bjobs: str = setting(
        "lsf.bjobs", TEXT, "bjobs", "LSF's bjobs command; the others are taken from beside it"
    )
    lsf_user: str | None = setting(
        "lsf.user", TEXT, None, "user as whom LSF's commands are run, where LSF refuses root; by runuser"
    )
    lsf_timeout_secs: float = setting(
        "lsf.timeout", POSITIVE_DURATION, 10.0, "how long the daemon waits for one answer of LSF"
    )
    lsf_refresh_secs: float = setting(
        "lsf.refresh",
        POSITIVE_DURATION,
        300.0,
        "how often the daemon asks about the host, CPU factors, and the limits of queues",
    )
    lsf_abs_runlimit: str = setting(
        "lsf.abs_runlimit",
        choice("auto", "yes", "no"),
        "auto",
        "whether LSF's run limits are wall-clock time on every host (ABS_RUNLIMIT); auto: as bparams -a says",
    )
    htcondor_execute_directory: str = setting(
        "htcondor.execute_directory",
        PATH,
        "/var/lib/condor/execute",
        "EXECUTE of HTCondor, whose job ads tell which job runs in a slot",
    )
    htcondor_wall_limit_attributes: str = setting(
        "htcondor.wall_limit_attributes",
        TEXT,
        "BatchRuntime, MaxRuntime",
        "attributes of job ads in which the site keeps a wall limit in seconds, where AllowedJobDuration and"
        " AllowedExecuteDuration are not set; the first that a job has counts",
    )
    htcondor_condor_status: str = setting(
        "htcondor.condor_status",
        TEXT,
        "condor_status",
        "HTCondor's condor_status command, beside which the others are",
    )
    htcondor_timeout_secs: float = setting(
        "htcondor.timeout", POSITIVE_DURATION, 10.0, "how long the daemon waits for the node's own startd"
    )
    htcondor_node_refresh_secs: float = setting(
        "htcondor.node_refresh",
        POSITIVE_DURATION,
        300.0,
        "how often the daemon asks the node's own startd whether it drains",
    )
    gridengine_spool_directory: str | None = setting(
        "gridengine.spool_directory",
        PATH,
        None,
        "folder of Grid Engine's execution daemon that holds active_jobs, if not where sge_execd is seen"
        " running",
    )
    gridengine_qstat: str = setting(
        "gridengine.qstat", TEXT, "qstat", "Grid Engine's qstat command, beside which qhost is"
    )
    gridengine_timeout_secs: float = setting(
        "gridengine.timeout",
        POSITIVE_DURATION,
        10.0,
        "how long the daemon waits for one answer of Grid Engine's master",
    )
    gridengine_refresh_secs: float = setting(
        "gridengine.refresh",
        POSITIVE_DURATION,
        300.0,
        "how often the daemon asks again about a job it knows, and about this host's queues",
    )
    gridengine_ask_in_prolog: str = setting(
        "gridengine.ask_in_prolog",
        choice("auto", "never"),
        "auto",
        "auto: the prolog asks the master for the limit of elapsed time, which no file of the node holds",
    )
    gridengine_accounting_file: str | None = setting(
        "gridengine.accounting_file",
        PATH,
        None,
        "controller role: Grid Engine's accounting file, if not that of $SGE_ROOT and $SGE_CELL",
    )
    spool_directory: str | None = setting(
        "spool.directory", PATH, None, "folder of SSS job objects, one file a job, for the spool source"
    )
    schedule_share: str | None = setting(
        "schedule.share",
        TEXT,
        None,
        "controller role and expect: CPUs that each user may expect at any time; default: all CPUs ÷ users",
    )
    schedule_share_of: str | None = setting(
        "schedule.share_of",
        TEXT,
        None,
        "controller role and expect: users with other shares, e.g. ann=16,bob=2.5",
    )
    schedule_mode: str = setting(
        "schedule.mode",
        choice("literal", "exact", "fluid"),
        "literal",
        "controller role and expect: what becomes of the last second of a job that needs less of it,"
        " in expected ends",
    )
    schedule_history_secs: float = setting(
        "schedule.history",
        POSITIVE_DURATION,
        604_800.0,
        "controller role and expect: figures of the schedule begin at a multiple of this, once to twice"
        " as long ago",
    )
    cpu_model: tuple[Table, ...] = tables(
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
        "for machines whose whole CPU model matches; of several that match the first one counts",
    )
    partition: tuple[Table, ...] = tables(
        "partition",
        TEXT,
        {
            "cpu_factor": FACTOR,
            "grace_secs": SECONDS,
            "scratch_bytes_per_cpu": SIZE,
            "form": choice("local", "http", "both"),
        },
        "for jobs of a partition or queue; grace_secs is the job's",
    )
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
