"""Grid Engine (SGE, Son of Grid Engine, Open Grid Scheduler, Univa's, Open Cluster Scheduler).

Jobs of this node are read from the spool directory of its execution daemon,
which holds nearly all that jobs are told; ``qstat`` is asked for the rest,
about these jobs only. The controller role asks ``qstat`` and ``qhost``.

A task of an array is a job of its own here, ``JOB.TASK``: several may run on one node.
"""

from jobfeatures.batch.system import System

SYSTEM = System(
    name="gridengine",
    room=__name__,
    summary=__doc__,
    job_variable="JOB_ID",
    beside="SGE_TASK_ID",
    is_plain=False,
    has_groups=False,
)
