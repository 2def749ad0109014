"""Finds jobs that may have had OOM kills that no group shows.

The count of a group that is removed before it is read is lost. The node counts all kills: one that no group
of a job shows was in a removed group, or outside all jobs. Such a job has no series, rather than a 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.snapshot import JobSample, WorkKey


class UnseenKills:
    """The kills that the node has counted and no group has shown, from one sample to the next."""

    def __init__(self) -> None:
        self._node: int | None = None
        self._ahead = 0  # kills shown by groups but not yet by the node's count, which is read first
        self._unsure: set[JobKey] = set()

    def doubt(
        self,
        node: int | None,
        before: Mapping[WorkKey, JobSample],
        jobs: Mapping[WorkKey, JobSample],
        final: Mapping[JobKey, JobSample],
        lost: Collection[JobKey | None],
    ) -> tuple[Mapping[WorkKey, JobSample], Mapping[JobKey, JobSample]]:
        """Return `jobs` and `final`; a count of 0 is unknown for those that may have lost kills.

        `before` are the jobs of the last sample, `lost` those of which a group was removed unread since.
        """
        ended = {
            key: final.get(key, each)
            for key, each in before.items()
            if isinstance(key, JobKey) and key not in jobs
        }
        known = {**ended, **{key: each for key, each in jobs.items() if isinstance(key, JobKey)}}
        if node is not None and self._node is not None:
            shown = sum(
                max(0, (each.oom_kills or 0) - _kills(before.get(key))) for key, each in known.items()
            )
            unseen = node - self._node - self._ahead - shown
            self._ahead = max(0, -unseen)
            if unseen > 0:
                self._unsure.update(ended, filter(None, lost))
        self._node = node
        unsure = [key for key in self._unsure & known.keys() if known[key].oom_kills == 0]
        self._unsure -= ended.keys()
        if not unsure:
            return jobs, final
        unknown = {key: replace(known[key], oom_kills=None) for key in unsure}
        living, gone = dict(jobs), dict(final)
        living.update((key, each) for key, each in unknown.items() if key not in ended)
        gone.update((key, each) for key, each in unknown.items() if key in ended)
        return living, gone


def _kills(sample: JobSample | None) -> int:
    return 0 if sample is None else sample.oom_kills or 0
