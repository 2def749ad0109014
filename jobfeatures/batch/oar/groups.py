"""OAR's control groups: pure."""

from __future__ import annotations

import re

from jobfeatures.batch.groups import BatchHierarchy, Membership

_JOB = re.compile(r"/oar/[^/]{1,255}_(?P<job_id>[1-9][0-9]{0,9})(?:/|\Z)", re.ASCII)


def match(path: str) -> Membership | None:
    """Return what a path of OAR's says.

    Source: job_resource_manager_cgroups.pl of OAR 2.5.9, cgroup v1 only: ``/oar/alice_10``, the owner
    and the job, on each of its nodes. A user's name may hold ``_``: the last one counts.
    """
    found = _JOB.match(path)
    return Membership(batch_system="oar", job_id=found["job_id"]) if found else None


HIERARCHY = BatchHierarchy("oar", match, (("oar", "*_[1-9]*"),))
