"""Slurm: what ``scontrol`` says of a job, what a Prolog's environment says, and a source that asks.

The controller serves thousands of nodes, so it is asked about single jobs
only, all questions of a poll go through one ``scontrol -a -o -d``, and answers
are kept. Commands: scontrol(1). Job states: squeue(1), "JOB STATE CODES".
The Prolog's variables: https://slurm.schedmd.com/prolog_epilog.html

Users write job names, comments and paths, and scontrol escapes nothing: a job
name may hold newlines and whole imitated records. Hence the questions are
framed by a word nobody can guess, a record is read between fields that users
cannot move, and what is ambiguous is rejected, never guessed.

Asking needs root, SlurmUser or an operator: where ``PrivateData=jobs`` is set,
others are told "Invalid job id" of jobs that live.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from jobfeatures.batch.slurm.keys import KEY_SOURCES
from jobfeatures.batch.slurm.prolog import job_from_prolog
from jobfeatures.batch.slurm.site import (
    ask_in_prolog,
    is_here,
    make_cluster_source,
    make_source,
    needs_server,
)

if TYPE_CHECKING:
    from jobfeatures.batch.slurm.answers import Answers, ask_about_job, parse_answers, poll_answers
    from jobfeatures.batch.slurm.record import parse_scontrol_job
    from jobfeatures.batch.slurm.source import SlurmSource

# Imported when they are asked for: a prolog needs none of them.
_LATER = {
    "Answers": "answers",
    "SlurmSource": "source",
    "ask_about_job": "answers",
    "parse_answers": "answers",
    "parse_scontrol_job": "record",
    "poll_answers": "answers",
}

__all__ = [
    "KEY_SOURCES",
    "Answers",
    "SlurmSource",
    "ask_about_job",
    "ask_in_prolog",
    "is_here",
    "job_from_prolog",
    "make_cluster_source",
    "make_source",
    "needs_server",
    "parse_answers",
    "parse_scontrol_job",
    "poll_answers",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
