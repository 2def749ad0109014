"""Keeps the published directories in line with what the sources know, for as long as the daemon runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from jobfeatures.clock import Clock
from jobfeatures.errors import JobfeaturesError
from jobfeatures.features.machine import Machine
from jobfeatures.model import Job, JobKey, JobTable
from jobfeatures.publish.drainbook import NO_VIEW, DrainView
from jobfeatures.publish.drainstore import with_shutdown
from jobfeatures.publish.reconcile import plan_publication
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.publish.writing import write_job, write_machine
from jobfeatures.site import Site

log = logging.getLogger(__name__)

STALE_STAGING_SECS = 60.0  # a hook is bounded to seconds: what is older was left behind by one that died


@dataclass(frozen=True, slots=True)
class PublisherStatus:
    """What the publisher tells of itself; replaced as a whole."""

    published: int = 0
    failures: int = 0
    hook_failures: Mapping[str, int] = field(default_factory=dict)  # by what the hook was to do


class Publisher:
    """Applies the plan of `reconcile` to a tree. One thread calls `update`; `site` may be replaced by any."""

    def __init__(self, tree: FeatureTree, site: Site, clock: Clock) -> None:
        self._tree = tree
        self.site = site
        self._clock = clock
        self.status = PublisherStatus()

    def update(
        self, jobs: Mapping[JobKey, Job], tables: Collection[JobTable], drains: DrainView = NO_VIEW
    ) -> None:
        """Write and remove what is called for. Failures are logged and counted; the other jobs are served.

        `jobs` is merged from `tables`.
        """
        now = self._clock.now_secs()
        machine = with_shutdown(self.site.machine, drains.drains, drains.announced)
        failures = 0
        failures += self._attempt(
            "machine", lambda: write_machine(self._tree, self.site, machine, now_secs=now)
        )
        published = self._tree.published()
        plan = plan_publication(jobs, tables, published)
        present = set(published)
        for job in plan.write:
            if self._attempt(job.key.job_id, lambda job=job: self._write(job, machine, drains)):  # type: ignore[misc]
                failures += 1
            else:
                present.add(job.key)
        for key in plan.remove:
            if self._attempt(key.job_id, lambda key=key: self._tree.remove_job(key)):  # type: ignore[misc]
                failures += 1
            else:
                present.discard(key)
                log.info("job has ended: its directories are removed", extra={"job_id": key.job_id})
        failures += self._attempt("staging", lambda: self._tree.sweep(before_secs=now - STALE_STAGING_SECS))
        self.status = PublisherStatus(len(present), self.status.failures + failures, self._hook_failures())

    def _hook_failures(self) -> Mapping[str, int]:
        try:
            return self._tree.hook_failures()
        except (JobfeaturesError, OSError) as error:
            log.warning("failures of hooks are not known: %s", error)
            return {}

    def _write(self, job: Job, machine: Machine, drains: DrainView) -> None:
        write_job(self._tree, job, self.site, machine, shutdown_secs=drains.job_shutdown(job))

    @staticmethod
    def _attempt(what: str, action: Callable[[], object]) -> bool:
        """Do something that may fail by itself; True if it did fail."""
        try:
            action()
        except (JobfeaturesError, OSError) as error:
            log.error("cannot publish: %s", error, extra={"what": what})
            return True
        return False
