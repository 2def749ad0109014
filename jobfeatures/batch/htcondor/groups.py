"""HTCondor's control groups, one per slot. Pure.

Source: HTCondor manual, "Cgroup-Based Process Tracking", and BASE_CGROUP with its default:
``/htcondor/condor`` + EXECUTE with ``_`` for ``/`` + ``_`` + slot, on v2 below the control group of the
daemon, such as ``/system.slice/condor.service/htcondor/condor_var_lib_condor_execute_slot1_1@host``.
No path names a job.
"""

from __future__ import annotations

import re

from jobfeatures.batch.groups import BatchHierarchy

# The slot is a name as slot1_1 or backfill2 after a "_", up to the end of the path's component.
_SLOT = re.compile(
    r"(?:/system\.slice(?:/[^/]{0,255}condor[^/]{0,255}\.service)?)?"
    r"/htcondor/condor(?:_[^/@]{1,255})?"
    r"_(?P<slot>[A-Za-z]{1,64}[0-9]{1,9}(?:_[0-9]{1,9})?(?:@[^/]{1,255})?)(?:/|\Z)",
    re.ASCII,
)

HIERARCHY = BatchHierarchy(
    "htcondor",
    (_SLOT,),
    (
        ("htcondor", "condor_*"),
        ("system.slice", "htcondor", "condor_*"),
        ("system.slice", "*condor*.service", "htcondor", "condor_*"),
    ),
)
