"""Detects by frozen control groups that jobs are suspended, before the batch system reports it.

It does no I/O, but keeps state. The kernel shows at each sample what the batch system reports up to
`batch.refresh` later. A newer answer overrides an older freeze; if a batch system never reports suspensions,
the control group decides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from jobfeatures.jobs.evidence import Group, JobObservation
from jobfeatures.records.model import Job, JobKey, JobState


@dataclass(frozen=True, slots=True)
class SuspensionRules:
    """How batch systems treat suspension; the fields hold names of batch systems.

    Those in `silent` never report it; those in `waiting` do not count suspended time against wall limits.
    """

    silent: Collection[str] = ()
    waiting: Collection[str] = ()


@dataclass(slots=True)
class _Freeze:
    """A freeze. Times are epoch seconds; `ran_secs` is what the job had used of its wall limit, if known."""

    since_secs: float
    before: _Freeze | None = None  # the one before, until `ran_secs` is computed
    ran_secs: int | None = None
    thawed_secs: float | None = None


class Freezes:
    """Tracks, for each job with processes, when its control group was frozen and thawed."""

    def __init__(self, rules: SuspensionRules) -> None:
        self._rules = rules
        self._latest: dict[JobKey, _Freeze] = {}

    def follow(self, groups: Mapping[JobKey, Group], *, now_secs: float) -> None:
        """Note which control groups are frozen in the latest sample, taken at `now_secs` (epoch)."""
        latest, self._latest = self._latest, {}
        for key, group in groups.items():
            last = latest.get(key)
            if group.is_frozen and (last is None or last.thawed_secs is not None):
                last = _Freeze(now_secs, before=last)
            if last is not None:
                if not group.is_frozen and last.thawed_secs is None:
                    last.thawed_secs = now_secs
                self._latest[key] = last

    def has_changed(self, key: JobKey, since_secs: float) -> bool:
        """Return whether a job was frozen or thawed since its system's report at `since_secs` (epoch).

        False for batch systems that never report suspensions.
        """
        last = self._latest.get(key)
        if last is None or key.batch_system in self._rules.silent:
            return False
        return since_secs < (last.since_secs if last.thawed_secs is None else last.thawed_secs)

    def apply(self, known: JobObservation, *, ahead_secs: float) -> Job:
        """Return the job in a report, with its state and limit corrected by what its control group shows.

        `ahead_secs` is the batch system's clock minus this node's. Where suspended time does not count
        against the wall limit, a suspended job gets `ran_secs`, the time it ran before, and a resumed one a
        later `limit_end_secs`.
        """
        last = self._latest.get(known.job.key)
        if last is None or known.job.state not in _LIVING:
            return known.job
        if last.before is not None or (last.thawed_secs is None and last.ran_secs is None):
            job = known.job if last.before is None else self._with(known, last.before, ahead_secs)
            last.before, last.ran_secs = None, self._ran_secs(job, last.since_secs + ahead_secs)
        return self._with(known, last, ahead_secs)

    def _ran_secs(self, job: Job, at_secs: float) -> int | None:
        wall_secs, end_secs = job.limits.wall_secs, job.end_limit_secs
        if job.key.batch_system not in self._rules.waiting or not isinstance(wall_secs, int):
            return None
        if job.state is JobState.SUSPENDED:
            return job.ran_secs
        return None if end_secs is None else max(0, round(wall_secs - end_secs + at_secs))

    def _with(self, known: JobObservation, freeze: _Freeze, ahead_secs: float) -> Job:
        job, thawed_secs = known.job, freeze.thawed_secs
        is_silent = job.key.batch_system in self._rules.silent
        is_known = not is_silent and known.at_secs >= freeze.since_secs  # the freeze is older than the answer
        if thawed_secs is None:
            return job if is_known else replace(job, state=JobState.SUSPENDED, ran_secs=freeze.ran_secs)
        if is_known and (job.state is JobState.RUNNING or known.at_secs >= thawed_secs):
            return job
        ran_secs, wall_secs = job.ran_secs if is_known else freeze.ran_secs, job.limits.wall_secs
        if ran_secs is not None and isinstance(wall_secs, int):
            job = replace(job, limit_end_secs=round(thawed_secs + ahead_secs) + wall_secs - ran_secs)
        return replace(job, state=JobState.RUNNING)


_LIVING = frozenset({JobState.RUNNING, JobState.SUSPENDED})
