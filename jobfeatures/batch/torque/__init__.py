"""Torque: ``qstat -x`` about single jobs, and what prologue and epilogue are told.

Commands: Torque Administrator Guide, qstat(1B), pbsnodes(8B); prologue and
epilogue: its appendix "Prologue and epilogue scripts",
https://docs.adaptivecomputing.com/torque/6-1-2/adminGuide/. What is shared
with PBS is in `jobfeatures.batch.pbsfamily`.

Asking needs rights to see other people's jobs: with ``query_other_jobs = False``
the server calls them unknown.
"""

from jobfeatures.batch.system import System

SYSTEM = System(
    name="torque",
    room=__name__,
    summary=__doc__,
    job_variable="PBS_JOBID",
    beside="PBS_VERSION",
    is_plain=False,
)
