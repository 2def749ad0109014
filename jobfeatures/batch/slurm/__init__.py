"""Slurm: jobs from ``scontrol``, from slurmrestd, from a Prolog's environment and from accounting.

The controller serves thousands of nodes, so a node queries single jobs only, sends all queries of a poll
through one ``scontrol -a -o -d``, and caches the answers. Commands: scontrol(1). Job states: squeue(1), "JOB
STATE CODES". The Prolog's variables: https://slurm.schedmd.com/prolog_epilog.html

Users choose job names, comments and paths, and scontrol escapes nothing: a job name may contain newlines and
complete forged records. Hence an unguessable word separates the answers, a record is read between fields that
users cannot move, and ambiguous text is rejected, never guessed at.

Queries need root, SlurmUser or an operator: where ``PrivateData=jobs`` is set,
others get "Invalid job id" even for jobs that exist.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.batch.controller import ControllerSettings
from jobfeatures.batch.system import DOCUMENT, LIST_OF_NODES, LogKind, System
from jobfeatures.settings.resolve import PATH, TEXT, choice, node_option


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class SlurmSettings(ControllerSettings):
    """How to query Slurm."""

    slurm_scontrol: str = node_option(TEXT, "scontrol", "scontrol command")
    slurm_ask: str = node_option(
        choice("auto", "scontrol", "rest", "controller"),
        "auto",
        "what to query: Slurm's commands (auto, scontrol), slurmrestd (rest), or the controller role "
        "(controller)",
    )
    slurm_rest_url: str | None = node_option(
        TEXT, None, "slurmrestd: unix:/run/slurmrestd.sock, http://HOST:PORT or https://HOST:PORT"
    )
    slurm_rest_token_file: str | None = node_option(PATH, None, "file with the token for slurmrestd over TCP")


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

SYSTEM = System(
    name="slurm",
    room=__name__,
    job_variable="SLURM_JOB_ID",
    tells_start=True,
    limit_waits=True,
    node_variable="SLURMD_NODENAME",
    cluster_variable="SLURM_CLUSTER_NAME",
    has_gpustat=True,
    shepherd="slurmstepd",
    daemon="slurmd",
    command="slurm.scontrol",
    variables=("SLURM_CONF",),
    log_kinds={
        "sacct": LogKind(
            "what sacct -P of Slurm prints, with a header",
            reader="jobfeatures.batch.slurm.sacct.records",
            is_zoned=True,
            has_steps=True,
            longest_line=LIST_OF_NODES,
        ),
        "slurmjson": LogKind(
            "what sacct --json, squeue --json and slurmrestd of Slurm print, v0.0.37 to v0.0.43",
            reader="jobfeatures.batch.slurm.json.log",
            longest_line=DOCUMENT,
        ),
    },
    key_sources=KEY_SOURCES,
)
