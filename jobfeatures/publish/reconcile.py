"""Which published directories are written and which removed: pure.

What the evidence of each job comes to decides; see `jobs.evidence`. A job of
which nothing is proven keeps what it has.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from jobfeatures.jobs.evidence import JobObservation, Presence
from jobfeatures.model import JobKey
from jobfeatures.roster import Roll


class Plan(NamedTuple):
    """What is to be done, in no particular order."""

    write: tuple[JobObservation, ...]
    remove: tuple[JobKey, ...]


def plan_publication(roll: Roll, published: Collection[JobKey]) -> Plan:
    """Return what brings the published directories in line with what is known.

    A job that is completing may have lost its directory to its epilog already: it gets no new one. With the
    directories of a job that has ended goes a record that its prolog left.
    """
    write: list[JobObservation] = []
    remove: list[JobKey] = []
    for key, finding in roll.findings.items():
        is_due = finding.presence is Presence.HERE or (
            finding.presence is Presence.COMPLETING and key in published
        )
        if is_due and finding.known is not None:
            write.append(finding.known)
        elif finding.presence is Presence.LEFT and (key in published or key in roll.versions):
            remove.append(key)
    return Plan(tuple(write), tuple(remove))
