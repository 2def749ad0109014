"""OAR's control groups: pure.

Sources: job_resource_manager_cgroups.pl of OAR 2.5.9, cgroup v1 only: ``/oar/alice_10``, owner and
job, on each of its nodes. User names may contain ``_``: the last one separates.
job_resource_manager_systemd.pl of OAR 2.6.1, cgroup v2 only: slices of systemd,
``/oar.slice/oar-u1000.slice/oar-u1000-j10.slice``, uid and job, with ``oar`` from CPUSET_PATH, ``/oar``.
"""

from __future__ import annotations

import re

from jobfeatures.batch.groups import BatchHierarchy

_JOB = re.compile(r"/oar/[^/]{1,255}_(?P<job_id>[1-9][0-9]{0,9})(?:/|\Z)", re.ASCII)
_JOB_SLICE = re.compile(
    r"/oar\.slice/oar-u(?P<uid>0|[1-9][0-9]{0,9})\.slice/oar-u(?P=uid)-j(?P<job_id>[1-9][0-9]{0,9})\.slice(?:/|\Z)",
    re.ASCII,
)

HIERARCHY = BatchHierarchy(
    "oar", (_JOB, _JOB_SLICE), (("oar", "*_[1-9]*"), ("oar.slice", "oar-u*.slice", "oar-u*-j[1-9]*.slice"))
)
