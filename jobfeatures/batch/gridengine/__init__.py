"""Grid Engine (SGE, Son of Grid Engine, Open Grid Scheduler, Univa's, Open Cluster Scheduler).

Jobs of this node are read from the spool directory of its execution daemon,
which holds nearly all that jobs are told; ``qstat`` is asked for the rest,
about these jobs only. The controller role asks ``qstat`` and ``qhost``.

A task of an array is a job of its own here, ``JOB.TASK``: several may run on one node.
"""

from __future__ import annotations

from jobfeatures.batch.gridengine.keys import KEY_SOURCES
from jobfeatures.batch.gridengine.prolog import job_from_prolog, job_id_of
from jobfeatures.batch.gridengine.site import (
    ask_in_prolog,
    is_here,
    make_cluster_source,
    make_source,
    needs_server,
)

__all__ = [
    "KEY_SOURCES",
    "ask_in_prolog",
    "is_here",
    "job_from_prolog",
    "job_id_of",
    "make_cluster_source",
    "make_source",
    "needs_server",
]
