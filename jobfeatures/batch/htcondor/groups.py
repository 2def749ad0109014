"""HTCondor's control groups, one a slot: pure."""

from __future__ import annotations

import re

from jobfeatures.batch.groups import BatchHierarchy, Membership, unescape

# The slot begins at the last "_" in front of its "@", or of the path's end: slot1_1, backfill2.
_SLOT = re.compile(
    r"(?:/system\.slice(?:/[^/]{0,255}condor[^/]{0,255}\.service)?)?"
    r"/htcondor/condor(?:_[^/@]{1,255})?"
    r"_(?P<slot>[A-Za-z]{1,64}[0-9]{1,9}(?:_[0-9]{1,9})?(?:@[^/]{1,255})?)(?:/|\Z)",
    re.ASCII,
)


def match(path: str) -> Membership | None:
    """Return the slot that a path of HTCondor's names; no path of it names a job.

    Source: HTCondor manual, "Cgroup-Based Process Tracking", and BASE_CGROUP with its default:
    ``/htcondor/condor`` + EXECUTE with ``_`` for ``/`` + ``_`` + slot, on v2 below the control group of the
    daemon, such as ``/system.slice/condor.service/htcondor/condor_var_lib_condor_execute_slot1_1@host``.
    """
    found = _SLOT.match(path)
    if found is None:
        return None
    return Membership(batch_system="htcondor", slot=unescape(found["slot"]))


HIERARCHY = BatchHierarchy(
    "htcondor",
    match,
    (
        ("htcondor", "condor_*"),
        ("system.slice", "htcondor", "condor_*"),
        ("system.slice", "*condor*.service", "htcondor", "condor_*"),
    ),
)
