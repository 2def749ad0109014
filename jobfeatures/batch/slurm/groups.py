"""The layouts of Slurm's control groups. Pure.

v1: ``/slurm[_NODE]/uid_U/job_J[/step_S[/task_T]]``; v2:
``/system.slice/[NODE_]slurmstepd.scope/job_J[/step_S[/user/task_T]]``, since 26.05 in the slice that
CgroupSlice names, perhaps with a SLUID (``s`` and 13 Crockford base-32 digits) for job_J. Source: slurm.conf,
cgroup.conf and cgroup plugins of Slurm 20.11 to 26.05.
"""

from __future__ import annotations

import re

from jobfeatures.batch.groups import BatchHierarchy, make_layout
from jobfeatures.errors import ParseError
from jobfeatures.records.model import Alias

SLUID = "s[0-9A-HJKMNP-TV-Z]{13}"
_ID = r"[1-9][0-9]{0,9}"
_STEP = r"(?:/step_(?P<step>[A-Za-z0-9_.+-]{1,64}))?(?:/|\Z)"
_V1 = make_layout(
    rf"/slurm(?:_(?P<node>[^/]{{1,255}}))?/uid_(?P<uid>0|{_ID})/job_(?P<job_id>{_ID}){_STEP}",
    ("slurm*", "uid_*", "job_*"),
    parents="",
    usual_parents=((),),
    distinctive_name=r"slurm(?:_[^/]{1,255})?",
)
_V2 = make_layout(
    r"/(?:(?P<node>[^/]{1,255})_)?slurmstepd\.scope/"
    rf"(?:job_(?P<job_id>{_ID})|(?P<alias>{SLUID})){_STEP}",
    ("*slurmstepd.scope", "[js]*"),
    # Only root makes slices at the root; users' own are below user.slice.
    parents=r"/(?!user\.slice/)[^/]{1,255}\.slice",
    usual_parents=(("*.slice",),),
    distinctive_name=r"(?:[^/]{1,255}_)?slurmstepd\.scope",
)

HIERARCHY = BatchHierarchy(
    "slurm",
    (_V1, _V2),
    daemons=dict.fromkeys(("slurmd", "slurmstepd"), ""),
    steps="step_",
    idle_step="extern",
    alias=Alias("sluid"),
)


def checked_sluid(text: str, *, field: str = "") -> str:
    """Return `text` as it is if it is a SLUID (Slurm's id of one run of a job), else raise ParseError."""
    if re.fullmatch(SLUID, text, re.ASCII) is None:
        raise ParseError("not a SLUID", field=field, text=text)
    return text
