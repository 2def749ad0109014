"""IBM Spectrum LSF, version 10.1: what its commands say of jobs and hosts, and what its hooks are told.

basics.py         ids and hosts
values.py         states, times, limits, sizes
answers.py        the JSON of ``-o … -json``, and what stands beside it
jobs.py           bjobs → jobs
hosts.py          bhosts, bqueues, lshosts → hosts and queues
limits.py         lsf.conf, bparams, bqueues -l, lshosts → the rules by which limits are understood
asking.py         the commands
source.py         the jobs of this node
clustersource.py  the whole cluster
prolog.py         the environment of a pre-execution command

Nothing of LSF could be tried: all is made from its manuals and from what
others have published of its output. LSF keeps no file on a node that could be read
instead of asking.
"""

from __future__ import annotations

from jobfeatures.batch.lsf.keys import KEY_SOURCES
from jobfeatures.batch.lsf.prolog import job_from_prolog, job_id_of
from jobfeatures.batch.lsf.site import ask_in_prolog, is_here, make_cluster_source, make_source

__all__ = [
    "KEY_SOURCES",
    "ask_in_prolog",
    "is_here",
    "job_from_prolog",
    "job_id_of",
    "make_cluster_source",
    "make_source",
]
