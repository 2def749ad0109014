"""The layouts of OAR's control groups. Pure.

Sources: job_resource_manager_cgroups.pl of OAR 2.5.9, cgroup v1 only: ``/oar/alice_10``, the owner and the id
of a job, on each of its nodes. User names may contain ``_``: the last one separates.
job_resource_manager_systemd.pl of OAR 2.6.1, cgroup v2 only: slices of systemd such as
``/oar.slice/oar-u1000.slice/oar-u1000-j10.slice``, with the uid and the id of a job. ``oar`` is from
CPUSET_PATH, ``/oar``.
"""

from __future__ import annotations

from jobfeatures.batch.groups import BatchHierarchy, make_layout

_ID = "[1-9][0-9]{0,9}"
_NAME = rf"/[^/]{{1,255}}_(?P<job_id>{_ID})(?:/|\Z)"
_JOB = make_layout(
    f"/oar{_NAME}", ("oar", "*_[1-9]*"), parents="", usual_parents=((),), distinctive_name="oar"
)
_BELOW_NAMED = make_layout(_NAME, ("*_[1-9]*",))
_USER_SLICE = rf"[^/]{{1,200}}-u(?P<uid>0|{_ID})\.slice"
_JOB_SLICE = make_layout(
    rf"/{_USER_SLICE}/[^/]{{1,200}}-u(?P=uid)-j(?P<job_id>{_ID})\.slice(?:/|\Z)",
    ("*-u*.slice", "*-u*-j[1-9]*.slice"),
    parents=r"/oar\.slice(?=/oar-u[^/]*/oar-u)",
    usual_parents=(("oar.slice",),),
    distinctive_name=_USER_SLICE,
)

# Its own sshd starts jobs, in oar-node.service.
HIERARCHY = BatchHierarchy("oar", (_JOB, _JOB_SLICE, _BELOW_NAMED), daemons={"sshd": "oar"})
