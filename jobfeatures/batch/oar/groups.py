"""OAR's control groups: pure."""

from __future__ import annotations

import re

from jobfeatures.batch.groups import BatchHierarchy

# Source: job_resource_manager_cgroups.pl of OAR 2.5.9, cgroup v1 only: ``/oar/alice_10``, owner and
# job, on each of its nodes. User names may contain ``_``: the last one separates.
_JOB = re.compile(r"/oar/[^/]{1,255}_(?P<job_id>[1-9][0-9]{0,9})(?:/|\Z)", re.ASCII)


HIERARCHY = BatchHierarchy("oar", (_JOB,), (("oar", "*_[1-9]*"),))
