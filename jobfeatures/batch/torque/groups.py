"""Torque's control groups: pure."""

from __future__ import annotations

import re

from jobfeatures.batch.groups import BatchHierarchy, Membership

_JOB = re.compile(
    r"/torque/(?P<job_id>[1-9][0-9]{0,11}(?:\[[0-9]{1,9}\]|-[0-9]{1,9})?)(?:\.[^/]*)?(?:/|\Z)", re.ASCII
)


def match(path: str) -> Membership | None:
    """Return what a path of Torque's says.

    Source: Torque 6, ``/torque/1182958.batch.host`` on v1; the id stands before
    the first dot, of an array ``123[4].server``, formerly ``123-4.server``.
    """
    found = _JOB.match(path)
    return Membership(batch_system="torque", job_id=found["job_id"]) if found else None


HIERARCHY = BatchHierarchy("torque", match, (("torque", "[1-9]*"),))
