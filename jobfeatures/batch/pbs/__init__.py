"""PBS Pro and OpenPBS: ``qstat -f -F json`` about single jobs, and what a hook's environment says.

Commands and attributes: PBS Professional Reference Guide,
https://help.altair.com/2022.1.0/PBS%20Professional/PBSReferenceGuide2022.1.pdf.
What is shared with Torque is in `jobfeatures.batch.pbsfamily`.

Asking needs rights to see other people's jobs: with ``query_other_jobs = False``
the server calls them unknown.
"""

from jobfeatures.batch.system import System

SYSTEM = System(
    name="pbs",
    room=__name__,
    summary=__doc__,
    job_variable="PBS_JOBID",
    is_plain=False,
)
