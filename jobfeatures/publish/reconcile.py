"""Plans which jobs' directories to write and which to remove. Pure.

The evidence about each job decides; see `jobs.evidence`. Where it is not
conclusive, the job's directories stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from jobfeatures.jobs.evidence import JobObservation, Presence
from jobfeatures.jobs.roster import KnownJobs
from jobfeatures.records.model import JobKey


class DirectoryChanges(NamedTuple):
    """Jobs whose directories are to be written, and jobs whose directories are to be removed; in no order."""

    write: tuple[JobObservation, ...]
    remove: tuple[JobKey, ...]


def plan_publication(known_jobs: KnownJobs, published: Collection[JobKey]) -> DirectoryChanges:
    """Return the changes that bring the published directories in line with what is known.

    The epilog of a completing job may already have removed its directory: such a job gets no new one. A job
    that has ended loses its directories and the record that its prolog left.
    """
    write: list[JobObservation] = []
    remove: list[JobKey] = []
    for key, finding in known_jobs.findings.items():
        is_due = finding.presence is Presence.HERE or (
            finding.presence is Presence.COMPLETING and key in published
        )
        if is_due and finding.known is not None:
            write.append(finding.known)
        elif finding.presence is Presence.LEFT and (key in published or key in known_jobs.versions):
            remove.append(key)
    return DirectoryChanges(tuple(write), tuple(remove))
