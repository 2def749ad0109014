"""Finds jobs that may have had OOM kills which no control group shows.

The count of a group that is removed before it is read is lost. The node counts all kills. So a kill that no
group of a job shows was in a removed group, or outside all jobs. The count of a job is then unknown rather
than 0 if the job has lost a group since, or on v1 has once reached its limit: a step may have begun and ended
between two samples.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import JobSample, WorkKey

AT_LIMIT = 0.9  # of the limit: where swap is limited too, it takes less


class UnseenKills:
    """Finds jobs that may have had OOM kills which the node has counted but no job's group shows."""

    def __init__(self) -> None:
        self._node: int | None = None
        self._ahead = 0  # kills shown by groups but not yet by the node's count, which is read first
        self._was_unseen = False
        self._unsure: set[JobKey] = set()

    def blank_uncertain(
        self,
        node: int | None,
        before: Mapping[WorkKey, JobSample],
        jobs: Mapping[WorkKey, JobSample],
        final: Mapping[JobKey, JobSample],
        lost: Collection[JobKey | None],
    ) -> tuple[Mapping[WorkKey, JobSample], Mapping[JobKey, JobSample]]:
        """Return `jobs` and `final` with None instead of 0 OOM kills for jobs that may have had one unseen.

        `jobs` has the records of this sample, `final` the last records of jobs that have ended, `before`
        those of the last sample. `node` is the node's count of OOM kills, and `lost` are the jobs of which a
        group was removed since.
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
            self._ahead = min(shown, max(0, -unseen))  # not what was shown twice, as a renamed job's is
            if unseen > 0:
                self._unsure.update(ended, filter(None, lost))
            if unseen > 0 or self._was_unseen:  # then perhaps of a job that had not been listed yet
                self._unsure.update(key for key, each in known.items() if _is_at_limit(each))
            self._was_unseen = unseen > 0
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


def _is_at_limit(sample: JobSample) -> bool:
    """Return whether a job has once used all of its memory; on v1, which counts no kills of steps in it."""
    limit = sample.memory.limit
    return sample.cgroup_version == 1 and limit is not None and (sample.memory.peak or 0) >= AT_LIMIT * limit


def _kills(sample: JobSample | None) -> int:
    return 0 if sample is None else sample.oom_kills or 0
