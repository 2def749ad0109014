"""The layout of LSF's control groups. Pure.

Source: LSF 10.1, ``/lsf/<cluster>/job.<id>.<pid>.<time>``, one directory for each of the job's tasks on the
host; in an array ``<id>`` is ``123[4]``.
"""

from jobfeatures.batch.groups import BatchHierarchy, make_layout

_NAME = r"job\.(?P<job_id>[1-9][0-9]{0,9}(?:\[[0-9]{1,9}\])?)\.[0-9]{1,10}\.[0-9]{1,20}"
_JOB = make_layout(
    rf"/{_NAME}(?:/|\Z)",
    ("job.[1-9]*",),
    parents="/lsf/[^/]{1,255}",
    usual_parents=(("lsf", "*"),),
    distinctive_name=_NAME,
)

HIERARCHY = BatchHierarchy("lsf", (_JOB,), daemons=dict.fromkeys(("sbatchd", "res"), ""))
