"""Keeps the published directories in line with what the daemon's sources report."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from jobfeatures.errors import JobfeaturesError, ParseError
from jobfeatures.features.machine import Machine
from jobfeatures.jobs.evidence import REMEMBERED, JobObservation, Presence
from jobfeatures.jobs.jobrecords import format_record, parse_record
from jobfeatures.jobs.roster import KnownJobs
from jobfeatures.publish.contradictions import Contradictions
from jobfeatures.publish.drainbook import NO_VIEW, DrainView
from jobfeatures.publish.drainstore import with_announced
from jobfeatures.publish.files import HeldFolder
from jobfeatures.publish.folders import KNOWN
from jobfeatures.publish.reconcile import plan_publication
from jobfeatures.publish.site import Site
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.publish.writing import write_job, write_machine
from jobfeatures.records.model import Job, JobKey
from jobfeatures.system.clock import Clock

log = logging.getLogger(__name__)

NO_LIMITS: Mapping[JobKey, int] = {}
LACKS = "; root needs CAP_CHOWN, CAP_FOWNER and CAP_DAC_OVERRIDE for it"
STALE_STAGING_SECS = 60.0  # a hook is bounded to seconds: anything older was left by one that died


@dataclass(frozen=True, slots=True)
class PublisherStatus:
    """The publisher's counts and state; immutable.

    `published` is the number of jobs with directories, None if they cannot be listed. `failures` counts
    failed writes and removals, `hook_failures` those of hooks by action and reason, and `contradictions`
    values that contradict the specification. `is_complete` says that nothing failed at the last update.
    """

    published: int | None = None  # None if the directories cannot be listed
    failures: int = 0
    hook_failures: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by action and reason
    is_complete: bool = True  # nothing failed at the last update
    contradictions: int = 0  # see `Contradictions`


class Publisher:
    """Writes and removes the directories of features, as `reconcile` plans.

    Only one thread may call `update`; any thread may assign new settings to `site`.
    """

    def __init__(self, tree: FeatureTree, site: Site, clock: Clock) -> None:
        self._tree = tree
        self.site = site
        self._clock = clock
        self._noted: set[JobKey] = set()  # jobs for which we have written a note
        self._notes_folder = HeldFolder()
        self._withdrawn: dict[JobKey, float | None] = {}
        self._contradictions = Contradictions()
        self.status = PublisherStatus()

    def update(
        self,
        known_jobs: KnownJobs,
        drains: DrainView = NO_VIEW,
        swap_limits: Mapping[JobKey, int] = NO_LIMITS,
    ) -> None:
        """Write and remove directories as `reconcile` plans. Failures are logged and counted, job by job.

        `drains` are the shutdowns in force. `swap_limits` are control groups' limits (bytes), for jobs whose
        batch system reports none.
        """
        now = self._clock.now_secs()
        self._attempt("notes", self._forget_if_replaced)
        machine = with_announced(self.site.machine, drains.drains, drains.announced)
        failures = int(
            self._attempt("machine", lambda: write_machine(self._tree, self.site, machine, now_secs=now))
        )
        self._contradictions.check(
            None,
            shutdown_secs=machine.shutdown_secs,
            promised_secs=machine.grace_secs,
            now_secs=now,
            was_known=True,
        )
        present: set[JobKey] | None = None
        try:
            present = set(self._tree.published())
        except OSError as error:  # then remove nothing, but still try to write each job
            log.error("cannot publish: %s", error, extra={"what": "jobs"})
            failures += 1
        else:
            self._noted -= set(_known_to_have_left(known_jobs, self._noted - present))
        self._note_published(present)
        plan = plan_publication(known_jobs, present or ())
        for reported in plan.write:
            key = reported.job.key
            job = _with_swap_limit(reported.job, swap_limits.get(key))
            write = partial(self._write, job, reported, machine, drains)
            if self._change(key, known_jobs, write):
                failures += 1
            elif present is not None:
                present.add(key)
                self._note_published(present)  # a round over thousands of jobs takes many seconds
        for key in () if present is None else plan.remove:
            if self._change(key, known_jobs, lambda key=key: self._remove(key)):  # type: ignore[misc]
                failures += 1
            elif present is not None:
                present.discard(key)
                self._note_published(present)
        failures += self._attempt("staging", lambda: self._tree.sweep(before_secs=now - STALE_STAGING_SECS))
        self.status = replace(
            self.status,
            failures=self.status.failures + failures,
            hook_failures=self._hook_failures(),
            is_complete=not failures,
            contradictions=self._contradictions.count,
        )

    def _note_published(self, present: Collection[JobKey] | None) -> None:
        self.status = replace(self.status, published=None if present is None else len(present))

    def take_withdrawn(self) -> dict[JobKey, float | None]:
        """Return the jobs whose epilog has been noticed since the last call, and when (epoch seconds).

        The time is None if a prolog has left a record of the job after that.
        """
        withdrawn, self._withdrawn = self._withdrawn, {}
        return withdrawn

    def remembered(self) -> list[JobObservation]:
        """Return what was known of each published job when last published, also by an earlier daemon."""
        found: list[JobObservation] = []
        try:
            texts = self._tree.read_all_notes()
        except (JobfeaturesError, OSError) as error:
            log.warning("cannot read the saved records of published jobs: %s", error)
            return found
        for text in texts:
            try:
                record = parse_record(text, source=self._tree.known_path)
            except ParseError as error:
                log.warning("a saved record of a published job is skipped: %s", error)
                continue
            self._noted.add(record.job.key)
            found.append(
                JobObservation(REMEMBERED, record.reported_at_secs or 0.0, record.job, record.start_source)
            )
        return found

    def _forget_if_replaced(self) -> None:
        """Publish everything anew if the folders were emptied or mounted over: no epilog has done that."""
        with self._tree.folder(KNOWN) as folder:
            if self._notes_folder.is_another(folder):
                log.warning("the folders below %s were replaced: all is published anew", self._tree.root)
                self._noted.clear()

    def _change(self, key: JobKey, known_jobs: KnownJobs, action: Callable[[], None]) -> bool:
        """Change a job's directories under its lock; return True if that failed.

        Do nothing if its hook has changed the record meanwhile: `known_jobs` is old, an update follows.
        """

        def change() -> None:
            with self._tree.locked(key):
                if self._tree.record_version(key) != known_jobs.versions.get(key):
                    return
                action()

        return self._attempt(key.job_id, change)

    def _hook_failures(self) -> Mapping[tuple[str, str], int]:
        try:
            return self._tree.hook_failures()
        except (JobfeaturesError, OSError) as error:
            log.warning("cannot read how often prologs and epilogs failed: %s", error)
            return {}

    def _write(self, job: Job, reported: JobObservation, machine: Machine, drains: DrainView) -> None:
        if job.key in self._noted and not self._tree.has_note(job.key):
            # An epilog has run, or another job's prolog: what `reported` says is of a run that is over.
            self._noted.discard(job.key)
            has_record = self._tree.record_version(job.key) is not None
            self._withdrawn[job.key] = None if has_record else self._clock.now_secs()
            return
        shutdown_secs = drains.job_shutdown(job)
        self._contradictions.check(
            job.key,
            shutdown_secs=min(filter(None, (shutdown_secs, job.deadline_secs)), default=None),
            promised_secs=self.site.terms(job).grace_secs,
            start_secs=job.start_secs,
            now_secs=self._clock.now_secs(),
            was_known=job.key in self._noted,
        )
        text = format_record(
            reported.job, reported_at_secs=reported.at_secs, start_source=reported.start_clock
        )
        write_job(
            self._tree,
            job,
            self.site,
            machine,
            reported_at_secs=reported.at_secs,
            shutdown_secs=shutdown_secs,
            noted=text,
        )
        self._noted.add(job.key)
        if reported.source == job.key.batch_system:
            self._tree.release_prolog(job.key, reported.at_secs)

    def _remove(self, key: JobKey) -> None:
        self._tree.remove_job(key)
        self._noted.discard(key)
        self._contradictions.forget(key)
        log.info("job has ended: its directories are removed", extra={"job_id": key.job_id})

    @staticmethod
    def _attempt(what: str, action: Callable[[], object]) -> bool:
        """Call `action`, log an error that it raises, and return whether it failed."""
        try:
            action()
        except (JobfeaturesError, OSError) as error:
            hint = LACKS if isinstance(error, PermissionError) and os.geteuid() == 0 else ""
            log.error("cannot publish: %s%s", error, hint, extra={"what": what})
            return True
        return False


def _known_to_have_left(known_jobs: KnownJobs, keys: Collection[JobKey]) -> Iterator[JobKey]:
    """Yield the jobs that are known to have left, so that the removal of their records proves nothing new."""
    for key in keys:
        found = known_jobs.findings.get(key)
        if found is None or found.presence is Presence.LEFT:
            yield key


def _with_swap_limit(job: Job, limit: int | None) -> Job:
    if limit is None or job.limits.swap_bytes is not None:
        return job
    return replace(job, limits=replace(job.limits, swap_bytes=limit))
