"""The control groups of LSF: pure.

Source: LSF 10.1, ``/lsf/<cluster>/job.<id>.<pid>.<time>``, one directory
for each of the job's tasks on the host; ``<id>`` of an array is ``123[4]``.
"""

import re

from jobfeatures.batch.groups import BatchHierarchy

_JOB = re.compile(
    r"/lsf/[^/]{1,255}/job\.(?P<job_id>[1-9][0-9]{0,9}(?:\[[0-9]{1,9}\])?)\.[0-9]{1,10}\.[0-9]{1,20}(?:/|\Z)",
    re.ASCII,
)

HIERARCHY = BatchHierarchy("lsf", (_JOB,), (("lsf", "*", "job.[1-9]*"),))
