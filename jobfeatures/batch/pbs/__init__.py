"""PBS Pro and OpenPBS: ``qstat -f -F json`` about single jobs, and what a hook's environment says.

Commands and attributes: PBS Professional Reference Guide,
https://help.altair.com/2022.1.0/PBS%20Professional/PBSReferenceGuide2022.1.pdf.
What is shared with Torque is in `jobfeatures.batch.pbsfamily`.

Asking needs rights to see other people's jobs: with ``query_other_jobs = False``
the server calls them unknown.
"""

from __future__ import annotations

from jobfeatures.batch.pbs.keys import KEY_SOURCES
from jobfeatures.batch.pbs.prolog import job_from_prolog
from jobfeatures.batch.pbs.site import ask_in_prolog, is_here, make_cluster_source, make_source
from jobfeatures.batch.pbsfamily.values import job_id_of

__all__ = [
    "KEY_SOURCES",
    "ask_in_prolog",
    "is_here",
    "job_from_prolog",
    "job_id_of",
    "make_cluster_source",
    "make_source",
]
