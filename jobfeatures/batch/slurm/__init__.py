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

from jobfeatures.settings.declare import PATH, TEXT, choice, node_option

COMMAND = "slurm.scontrol"  # the setting that names its command
VARIABLES = ("SLURM_CONF",)  # of our environment, for its commands


@dataclass(frozen=True, kw_only=True)
class SlurmSettings:
    """The settings that say how to query Slurm."""

    scontrol: str = node_option(TEXT, "scontrol", "scontrol command")
    ask: str = node_option(
        choice("auto", "scontrol", "rest", "controller"),
        "auto",
        "what to query: Slurm's commands (auto, scontrol), slurmrestd (rest), or the controller role "
        "(controller)",
    )
    rest_url: str | None = node_option(
        TEXT, None, "slurmrestd: unix:/run/slurmrestd.sock, http://HOST:PORT or https://HOST:PORT"
    )
    rest_token_file: str | None = node_option(PATH, None, "file with the token for slurmrestd over TCP")
