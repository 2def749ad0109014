"""Jobs that may have been killed because memory ran out although no group shows it.

A group takes its count along when it is removed before it is read. The node counts all kills, and keeps the
count: one that no group of a job shows was of a group that has gone, or of nothing that is a job's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import replace

from jobfeatures.model import JobKey
from jobfeatures_exporter.snapshot import JobSample, WorkKey


class UnseenKills:
    """The kills that the node has counted and no group has shown, from one look to the next."""

    def __init__(self) -> None:
        self._node: int | None = None
        self._ahead = 0  # kills that groups have shown before the node's count, which is read first
        self._unsure: set[JobKey] = set()

    def doubt(
        self,
        node: int | None,
        before: Mapping[WorkKey, JobSample],
        jobs: MutableMapping[WorkKey, JobSample],
        final: MutableMapping[JobKey, JobSample],
        lost: Collection[JobKey | None],
    ) -> None:
        """Leave out that none of a job was killed where its groups, or some of them, went unread.

        `before` are the jobs of the last look, `lost` those of this one of which a group has gone unread.
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
        for key in self._unsure & known.keys():
            if known[key].oom_kills == 0:
                (final if key in ended else jobs)[key] = replace(known[key], oom_kills=None)
        self._unsure -= ended.keys()


def _kills(sample: JobSample | None) -> int:
    return 0 if sample is None else sample.oom_kills or 0
