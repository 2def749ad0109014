"""Reads the records that prologs leave about the jobs they started: available at once, without a query.

`jobfeatures publish` writes one record per job, `jobfeatures remove` deletes it. Jobs without a prolog leave
no record, and a record says nothing about its job's end. So the table of jobs that is read from the records
is always marked as incomplete: a job that is not in this table may still run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager

from jobfeatures.errors import ParseError, Rejected, failing_source
from jobfeatures.jobs.evidence import HOOKS
from jobfeatures.jobs.jobrecords import MAX_RECORD_BYTES, parse_record
from jobfeatures.publish.files import DIRECTORY, HeldFolder
from jobfeatures.records.model import Job, JobKey, JobTable, Version
from jobfeatures.system.clock import Clock
from jobfeatures.system.privatefile import opened, read_bounded, version_of


class HookSource:
    """A source of jobs: the records that prologs have left below a root."""

    name = HOOKS
    is_local = True

    def __init__(self, directory: str, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._held = HeldFolder()
        self._replacements = 0

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return the jobs that have a record. Raises SourceError if the folder cannot be listed.

        The arguments, which other sources need, are ignored.
        """
        del seen, claimed
        taken_at = self._clock.now_secs()
        with failing_source(self._directory, OSError), opened(self._directory, DIRECTORY) as folder:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
            self._replacements += self._held.is_another(folder)
        jobs: dict[JobKey, Job] = {}
        reported_secs: dict[JobKey, float] = {}
        versions: dict[JobKey, Version] = {}
        rejected: list[Rejected] = []
        for name in names:
            path = os.path.join(self._directory, name)
            key = JobKey.from_directory_name(name.removesuffix(".json"))
            try:
                content, found = read_bounded(path, MAX_RECORD_BYTES)
                if key is not None:
                    versions[key] = version_of(found)
                record = parse_record(content.decode("utf-8", "replace"), source=path)
            except FileNotFoundError:
                continue  # its job ended between listing and reading
            except (ParseError, OSError) as error:
                rejected.append(Rejected.from_error(error, path))
            else:
                if record.job.key != key:
                    rejected.append(Rejected(path, "not of the job that names the file", field="job_id"))
                    continue
                jobs[key] = record.job
                # A record from the future means that the clock was set back.
                reported_secs[key] = min(taken_at, record.reported_at_secs or found.st_mtime)
        return JobTable(
            source=HOOKS,
            jobs=jobs,
            taken_at_secs=taken_at,
            complete=False,
            rejected=tuple(rejected),
            reported_secs=reported_secs,
            versions=versions,
            replacements=self._replacements,
        )

    def watch(self, notify: Callable[[], None]) -> AbstractContextManager[object]:
        """Call `notify` when a record appears or disappears, until the returned context manager is left."""
        from jobfeatures.system.watch import watch_directory  # only the daemon watches

        return watch_directory(self._directory, notify)
