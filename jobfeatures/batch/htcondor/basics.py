"""Names and job ids, shared by hooks, sources and the sampler. Pure, and quick to import."""

from __future__ import annotations

import re

from jobfeatures.errors import ParseError
from jobfeatures.formats.classad.ad import ClassAd

NAME = "htcondor"
KIB = 1024
MIB = 1024**2

_NUMBER = r"[1-9][0-9]{0,18}\.(?:0|[1-9][0-9]{0,18})"
_ID = re.compile(rf"{_NUMBER}(?:@[^#\s]{{1,255}})?\Z")
# Source: HTCondor manual, "Job ClassAd Attributes": schedd's name, ClusterId.ProcId and QDate.
_GLOBAL = re.compile(rf"(?P<schedd>[^#\s]{{1,255}})#(?P<number>{_NUMBER})#[0-9]+\Z")


def is_plain_id(text: str) -> bool:
    """Return whether a text is a job's id, and not the name of a slot."""
    return _ID.match(text) is not None


def parse_job_id(ad: ClassAd) -> str | None:
    """Return ``ClusterId.ProcId@schedd`` of a job ad, None where a number is missing or invalid.

    Each schedd numbers from 1; its name is the beginning of GlobalJobId, which the schedd sets whatever the
    user submits. Without that the id is the number alone.
    """
    cluster, proc = ad.integer("ClusterId"), ad.integer("ProcId")
    if cluster is None or proc is None or cluster <= 0 or proc < 0:
        return None
    number = f"{cluster}.{proc}"
    found = _GLOBAL.match(ad.text("GlobalJobId") or "")
    return f"{number}@{found['schedd']}" if found and found["number"] == number else number


def required_job_id(ad: ClassAd, *, source: str, field: str = "ClusterId") -> str:
    """Return the id of a job ad. Raises ParseError if there is none."""
    job_id = parse_job_id(ad)
    if job_id is None:
        raise ParseError("not the ad of a job", source=source, field=field)
    return job_id


def schedd_of(job_id: str) -> str | None:
    """Return the name of a job's schedd, None if its id has none."""
    return job_id.partition("@")[2] or None


def is_ad_of_slot(ad: ClassAd, slot: str) -> bool:
    """Return whether a machine ad may belong to a slot, given with or without its host."""
    name = ad.text("Name")
    return name is None or name == slot or ("@" not in slot and name.partition("@")[0] == slot)
