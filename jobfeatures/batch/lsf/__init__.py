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

from jobfeatures.batch.system import System

SYSTEM = System(
    name="lsf",
    room=__name__,
    summary=__doc__,
    job_variable="LSB_JOBID",
    is_plain=False,
)
