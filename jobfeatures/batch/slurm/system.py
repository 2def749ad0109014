"""Slurm as an entry of `jobfeatures.batch.SYSTEMS`."""

from __future__ import annotations

from jobfeatures.batch.slurm import COMMAND, VARIABLES, SlurmSettings
from jobfeatures.batch.system import DOCUMENT, LIST_OF_NODES, ClusterSystem, LogKind, part

KEY_SOURCES = {
    "allocated_cpu": "CPU_IDs of this node (scontrol -d), or SLURM_JOB_CPUS_PER_NODE (prolog)",
    "jobstart_secs": "StartTime (scontrol), or SLURM_JOB_START_TIME (prolog)",
    "job_id": "JobId (scontrol), or SLURM_JOB_ID (prolog)",
    "wall_limit_secs": "TimeLimit (scontrol), or SLURM_JOB_END_TIME - SLURM_JOB_START_TIME (prolog)",
    "cpu_limit_secs": "the wall limit * NumCPUs (scontrol), or * the sum of SLURM_JOB_CPUS_PER_NODE (prolog)",
    "max_rss_bytes": "Mem of this node (scontrol -d), else MinMemoryCPU * CPUs, else MinMemoryNode",
    "scratch_limit_bytes": "MinTmpDiskNode (scontrol)",
    "shutdowntime_job": "EndTime of a job with PreemptTime (scontrol): the end of its GraceTime",
}


class Slurm(ClusterSystem[SlurmSettings]):
    """Slurm, described in `jobfeatures.batch.slurm`."""

    name = "slurm"
    job_variable = "SLURM_JOB_ID"
    tells_start = True
    limit_waits = True
    node_variable = "SLURMD_NODENAME"
    cluster_variable = "SLURM_CLUSTER_NAME"
    has_gpustat = True
    supervisor = "slurmstepd"
    daemon = "slurmd"
    command = COMMAND
    variables = VARIABLES
    log_kinds = (
        LogKind(
            "sacct",
            "what sacct -P of Slurm prints, with a header",
            "jobfeatures.batch.slurm.sacct.records",
            is_zoned=True,
            has_steps=True,
            longest_line=LIST_OF_NODES,
        ),
        LogKind(
            "slurmjson",
            "what sacct --json, squeue --json and slurmrestd of Slurm print, v0.0.37 to v0.0.43",
            "jobfeatures.batch.slurm.json.log",
            longest_line=DOCUMENT,
        ),
    )
    key_sources = KEY_SOURCES

    is_here = part("jobfeatures.batch.slurm.site", "is_here")
    job_from_prolog = part("jobfeatures.batch.slurm.prolog", "job_from_prolog")
    needs_server = part("jobfeatures.batch.slurm.site", "needs_server")
    ask_in_prolog = part("jobfeatures.batch.slurm.site", "ask_in_prolog")
    read_parents = part("jobfeatures.batch.slurm.site", "read_parents")
    groups = "jobfeatures.batch.slurm.groups"
    make_group_names = part("jobfeatures.batch.slurm.groupnames", "SluidResolver")
    make_source = part("jobfeatures.batch.slurm.source", "make_source")
    make_cluster_source = part("jobfeatures.batch.slurm.clustersource", "make_cluster_source")
