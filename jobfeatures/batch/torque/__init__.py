"""Torque: ``qstat -x`` about single jobs, and what prologue and epilogue are told.

Commands: Torque Administrator Guide, qstat(1B), pbsnodes(8B); prologue and
epilogue: its appendix "Prologue and epilogue scripts",
https://docs.adaptivecomputing.com/torque/6-1-2/adminGuide/. What is shared
with PBS is in `jobfeatures.batch.pbsfamily`.

Asking needs rights to see other people's jobs: with ``query_other_jobs = False``
the server calls them unknown.
"""

from __future__ import annotations

from jobfeatures.batch.pbsfamily.values import job_id_of
from jobfeatures.batch.torque.keys import KEY_SOURCES
from jobfeatures.batch.torque.prolog import job_from_prolog
from jobfeatures.batch.torque.site import ask_in_prolog, is_here, make_cluster_source, make_source

__all__ = [
    "KEY_SOURCES",
    "ask_in_prolog",
    "is_here",
    "job_from_prolog",
    "job_id_of",
    "make_cluster_source",
    "make_source",
]
