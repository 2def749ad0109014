"""The layout of HTCondor's control groups: one per slot. Pure.

Source: HTCondor manual, "Cgroup-Based Process Tracking", and BASE_CGROUP with its default. A path is
``/htcondor/condor`` + EXECUTE with ``_`` for ``/`` + ``_`` + slot, on v2 below the control group of the
daemon, such as ``/system.slice/condor.service/htcondor/condor_var_lib_condor_execute_slot1_1@host``. No path
has a job id.
"""

from __future__ import annotations

from jobfeatures.batch.groups import BatchHierarchy, make_layout
from jobfeatures.records.model import Alias

# The slot is a name as slot1_1 or backfill2 after a "_", up to the end of the path's component.
_GROUP = r"condor(?:_[^/@]{1,255})?_(?P<alias>[A-Za-z]{1,64}[0-9]{1,9}(?:_[0-9]{1,9})?"
_HOST = r"@[^/]{1,255}"
_SLOT = make_layout(
    rf"/{_GROUP}(?:{_HOST})?)(?:/|\Z)",
    ("condor_*",),
    parents=r"(?:/system\.slice(?:/[^/]{0,255}condor[^/]{0,255}\.service)?)?/htcondor",
    usual_parents=(
        ("htcondor",),
        ("system.slice", "htcondor"),
        ("system.slice", "*condor*.service", "htcondor"),
    ),
    distinctive_name=rf"{_GROUP}{_HOST})",
    below_found=rf"/{_GROUP}{_HOST})(?:/|\Z)",
)

HIERARCHY = BatchHierarchy(
    "htcondor",
    (_SLOT,),
    daemons=dict.fromkeys(("condor_master", "condor_startd", "condor_starter"), ""),
    alias=Alias(
        "slot",
        is_reused=True,
        remedy="give each startd a name of its own (STARTD_NAME, NETWORK_HOSTNAME)",
    ),
)
