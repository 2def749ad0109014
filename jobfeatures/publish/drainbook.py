"""Keeps track of the drains in force: operators' requests and batch systems' announcements."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from jobfeatures.drains.drain import NO_DRAINS, NOT_ANNOUNCED, Announced, Drains, compute_announced
from jobfeatures.errors import JobfeaturesError
from jobfeatures.publish.drainstore import DrainStore
from jobfeatures.records.model import Job, JobKey, JobTable
from jobfeatures.system.clock import Clock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DrainView:
    """All drains of this node at one time; immutable.

    `drains` are operators' requests, `announced` are the batch systems' announcements. `problem` says why the
    stored requests cannot be read, empty if they can.
    """

    drains: Drains = NO_DRAINS
    announced: Announced = NOT_ANNOUNCED
    problem: str = ""

    def job_shutdown(self, job: Job) -> int | None:
        """Return the shutdown time (epoch seconds) requested for a job, None without a request."""
        drain = self.drains.of_job(job.key, job.start_secs)
        return None if drain is None else drain.at_secs


NO_VIEW = DrainView()


class DrainBook:
    """Keeps `view`, the drains in force, up to date. One thread calls `refresh` and `forget_ended`."""

    def __init__(self, store: DrainStore | None, clock: Clock) -> None:
        """Without a store, there are only announcements, and they are lost when the daemon ends."""
        self._store = store
        self._clock = clock
        self._has_started = False
        self.view = NO_VIEW

    def refresh(self, tables: Collection[JobTable], sources: Collection[str]) -> None:
        """Update `view` from the stored requests and the announcements in `tables`, the sources' answers.

        Requests that cannot be read stay as they were. `sources` names the sources in use; announcements of
        any other are dropped.
        """
        old = self.view
        drains, before, problem = old.drains, old.announced, ""
        if self._store is not None:
            try:
                drains = self._store.read()
                if not self._has_started:
                    before = self._store.read_announced()
            except (JobfeaturesError, OSError) as error:
                problem = str(error)
        announced = compute_announced(before, tables, now_secs=self._clock.now_secs())
        # Until a system has answered, its announcements from before the daemon's start stay.
        silent = set(sources) - {table.source for table in tables if table.node is not None}
        kept = {name: at for name, at in before.shutdowns.items() if name in silent}
        flags = {name: flag for name, flag in before.draining.items() if name in silent}
        slots = {name: count for name, count in before.job_slots.items() if name in silent}
        announced = Announced(
            {**flags, **announced.draining},
            {**kept, **announced.shutdowns},
            {**slots, **announced.job_slots},
            announced.features or before.features,
        )
        if self._store is not None and announced != before and not problem:
            try:
                self._store.write_announced(announced)
            except (JobfeaturesError, OSError) as error:
                problem = str(error)
        self._has_started = self._has_started or not problem
        if problem and problem != old.problem:  # log each problem once
            log.error("shutdowns cannot be read or saved: %s; the previous ones stay in force", problem)
        text = describe(drains, announced)
        if text != describe(old.drains, old.announced):
            log.info("announced shutdowns have changed", extra={"drains": text})
        self.view = DrainView(drains, announced, problem)

    def forget_ended(self, jobs: Mapping[JobKey, Job], published: Collection[JobKey]) -> None:
        """Delete operators' shutdown times of jobs that have ended and whose features are not `published`.

        `jobs` are the jobs that batch systems report.
        """
        ended = [
            key
            for key in self.view.drains.jobs
            if key not in published and (key not in jobs or jobs[key].state.is_finished)
        ]
        if not ended or self._store is None or self.view.problem:
            return

        def without_ended(drains: Drains) -> Drains:
            for key in ended:
                drains = drains.with_drain(key, None)
            return drains

        try:
            self.view = replace(self.view, drains=self._store.change(without_ended))
        except (JobfeaturesError, OSError) as error:
            log.warning("cannot yet delete the shutdown times set for jobs that have ended: %s", error)


def describe(drains: Drains, announced: Announced) -> str:
    """Return all requested and announced shutdown times as text for the log."""
    parts = [f"machine={drains.machine.at_secs} by {drains.machine.set_by}"] if drains.machine else []
    parts += [f"{key.directory_name}={drain.at_secs} by {drain.set_by}" for key, drain in drains.jobs.items()]
    parts += [f"machine={at} by {name}" for name, at in announced.shutdowns.items()]
    parts += [f"{name} drains" for name, flag in announced.draining.items() if flag]
    return ", ".join(parts) or "none"
