"""The control groups of PBS Pro and OpenPBS: pure."""

from __future__ import annotations

import re

from jobfeatures.batch.groups import BatchHierarchy, Membership, unescape

_JOB = re.compile(
    r"(?:/(?!user\.slice/)[^/]{1,255}\.slice)?/pbs_jobs\.service/(?:jobid|jobs)/(?P<name>[^/]{1,255})",
    re.ASCII,
)
_ID = re.compile(r"(?P<job_id>[1-9][0-9]{0,11}(?:\[[0-9]{1,9}\])?)(?:\.[^/]*)?", re.ASCII)


def match(path: str) -> Membership | None:
    r"""Return what a path of PBS's says.

    Source: pbs_cgroups hook of OpenPBS 20 to 23:
    ``/pbs_jobs.service/jobid/<id>`` on v1, ``[/SLICE]/pbs_jobs.service/jobs/<id>`` on v2, with
    an id such as ``123.server``, ``123[4].server`` of an array, or the latter
    escaped by systemd, ``123\x5b4\x5d.server``. The server's name is left out.
    """
    found = _JOB.match(path)
    job = _ID.fullmatch(unescape(found["name"])) if found else None
    return Membership(batch_system="pbs", job_id=job["job_id"]) if job else None


HIERARCHY = BatchHierarchy(
    "pbs",
    match,
    (
        ("pbs_jobs.service", "jobid", "[1-9]*"),
        ("pbs_jobs.service", "jobs", "[1-9]*"),
        ("*.slice", "pbs_jobs.service", "jobs", "[1-9]*"),
    ),
)
