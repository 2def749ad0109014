"""What prologs left behind about the jobs that they started: known at once, without asking anybody.

`jobfeatures publish` leaves one record a job, `jobfeatures remove` takes it
away. A record says nothing about a job's end, so a table is never complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager

from jobfeatures.clock import Clock
from jobfeatures.errors import ParseError, Rejected, SourceError
from jobfeatures.model import Job, JobKey, JobTable
from jobfeatures.publish.records import MAX_RECORD_BYTES, parse_record

NAME = "hooks"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class HookSource:
    """The records of a feature tree as a batch source."""

    name = NAME
    is_local = True

    def __init__(self, directory: str, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return the jobs that have a record. Raises SourceError if the folder cannot be listed."""
        del seen, claimed
        taken_at = self._clock.now_secs()
        try:
            names = sorted(name for name in os.listdir(self._directory) if name.endswith(".json"))
        except OSError as error:
            raise SourceError(f"{self._directory}: {error.strerror}") from error
        jobs: dict[JobKey, Job] = {}
        rejected: list[Rejected] = []
        for name in names:
            path = os.path.join(self._directory, name)
            try:
                job = parse_record(_read(path), source=path)
            except FileNotFoundError:
                continue  # its job ended between listing and reading
            except ParseError as error:
                rejected.append(Rejected.from_error(error))
            except OSError as error:
                rejected.append(Rejected(path, error.strerror or "cannot be read"))
            else:
                jobs[job.key] = job
        return JobTable(
            source=NAME, jobs=jobs, taken_at_secs=taken_at, complete=False, rejected=tuple(rejected)
        )

    def watch(self, notify: Callable[[], None]) -> AbstractContextManager[object]:
        """Notify when a record comes or goes."""
        from jobfeatures.watch import watch_directory  # only the daemon watches

        return watch_directory(self._directory, notify)


def _read(path: str) -> str:
    descriptor = os.open(path, _READ)
    try:
        content = os.read(descriptor, MAX_RECORD_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_RECORD_BYTES:
        raise ParseError("too large", source=path)
    return content.decode("utf-8", "replace")
