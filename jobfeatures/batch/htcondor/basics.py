"""Names and job ids, shared by hooks, sources and the sampler. Pure, and quick to import."""

from __future__ import annotations

import re

from jobfeatures.formats.classad.ad import ClassAd

NAME = "htcondor"
KIB = 1024
MIB = 1024**2

_ID = re.compile(r"[1-9][0-9]{0,18}\.(?:0|[1-9][0-9]{0,18})\Z")


def is_plain_id(text: str) -> bool:
    """Return whether a text is ``ClusterId.ProcId``."""
    return _ID.match(text) is not None


def parse_job_id(ad: ClassAd) -> str | None:
    """Return ``ClusterId.ProcId`` of a job ad, None where one of them is missing or invalid."""
    cluster, proc = ad.integer("ClusterId"), ad.integer("ProcId")
    if cluster is None or proc is None or cluster <= 0 or proc < 0:
        return None
    return f"{cluster}.{proc}"


def is_ad_of_slot(ad: ClassAd, slot: str) -> bool:
    """Return whether a machine ad may belong to a slot, given with or without its host."""
    name = ad.text("Name")
    return name is None or name == slot or ("@" not in slot and name.partition("@")[0] == slot)
