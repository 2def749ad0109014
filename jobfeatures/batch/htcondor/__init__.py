"""HTCondor: the ads of the jobs on this node, and what its commands say of the pool.

A node's jobs are read from the scratch directories of their starters, without
asking anybody; the controller role asks ``condor_q``, ``condor_status`` and
``condor_history``. A job is ``ClusterId.ProcId``, as its submit node counts.
Manual: https://htcondor.readthedocs.io/.
"""

from jobfeatures.batch.htcondor.keys import KEY_SOURCES
from jobfeatures.batch.htcondor.prolog import job_from_prolog, job_id_of
from jobfeatures.batch.htcondor.site import ask_in_prolog, is_here, make_cluster_source, make_source

__all__ = [
    "KEY_SOURCES",
    "ask_in_prolog",
    "is_here",
    "job_from_prolog",
    "job_id_of",
    "make_cluster_source",
    "make_source",
]
