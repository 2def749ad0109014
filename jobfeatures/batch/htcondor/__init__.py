"""HTCondor: the ads of the jobs on this node, and what its commands say of the pool.

A node's jobs are read from the scratch directories of their starters, without
asking anybody; the controller role asks ``condor_q``, ``condor_status`` and
``condor_history``. A job is ``ClusterId.ProcId``, as its submit node counts.
Manual: https://htcondor.readthedocs.io/.
"""

from jobfeatures.batch.system import System

SYSTEM = System(
    name="htcondor",
    room=__name__,
    summary=__doc__,
    job_variable="_CONDOR_JOB_AD",
    is_plain=False,
)
