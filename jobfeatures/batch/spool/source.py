"""The batch source that reads the job objects in a spool folder."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final

from jobfeatures.batch.basics import Users, find_uid
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.spool import SpoolSettings
from jobfeatures.errors import (
    ConfigurationError,
    ParseError,
    Rejected,
    SourceError,
    failing_source,
    shown_name,
)
from jobfeatures.records.model import Job, JobKey, JobTable, Version
from jobfeatures.system.clock import Clock
from jobfeatures.system.privatefile import READ_UNFOLLOWED, opened, version_of

NAME: Final = "spool"
SUFFIX: Final = ".xml"
MAX_JOBS: Final = 100_000
MAX_BYTES_PER_POLL: Final = 64 * 2**20
MAX_REPORTED: Final = 100  # problems per table; each is logged as one line
MAX_NOTES: Final = 20  # problems per file
MAX_FILES: Final = 20_000
MAX_FILE_BYTES: Final = 2**20
UNSETTLED_SECS: Final = 2.0  # a file may change again within the same tick of its file system's clock

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class _File:
    """What is known about one file of the spool folder.

    `jobs` are from its last good content. `is_whole` promises that none is missing:
    the whole file was understood, now or before. `digest` is the hash of that
    content, empty while the file has a problem.
    """

    version: Version | None = None  # None: to be read at the next poll
    jobs: tuple[Job, ...] = ()
    notes: tuple[Rejected, ...] = ()
    is_whole: bool = False
    digest: bytes = b""
    reported_secs: float = 0.0  # when the file was last seen to report these jobs (epoch)

    def troubled(self, note: Rejected, version: Version | None = None) -> _File:
        """Return the file with `note`, its current problem; the jobs of its last good content stay."""
        return replace(self, version=version, notes=(note,), digest=b"")


@dataclass(slots=True)
class _Budget:
    bytes_left: int = MAX_BYTES_PER_POLL
    jobs_left: int = MAX_JOBS


class SpoolSource:
    """Source of this node's jobs: the files in a spool folder.

    A file that becomes unreadable or malformed keeps its previous jobs while it exists: a malformed file does
    not end a job. A table is complete unless there is a file whose jobs were never known. A job in two files
    is taken from the file whose name sorts last. A problem is in `JobTable.rejected` as long as it lasts.

    `node_name` is this node's name in the documents; without it, the process ids of all nodes count.
    """

    name = NAME
    is_local = True

    def __init__(self, config: SystemSettings[SpoolSettings], clock: Clock, node_name: str | None) -> None:
        """Raise ConfigurationError if ``spool.directory`` is not set."""
        if config.own.directory is None:
            raise ConfigurationError("spool.directory", "is not set: the spool source needs it")
        self._directory = config.own.directory
        self._clock = clock
        self._users = Users(clock, find_uid)
        self._node_name = node_name
        self._files: dict[str, _File] = {}
        self._identity: tuple[int, int] | None = None

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return the jobs of all files; only changed files are read. Raises SourceError if listing fails.

        `seen` and `claimed` are ignored.
        """
        del seen, claimed
        taken_at = self._clock.now_secs()
        with failing_source(self._directory, OSError), opened(self._directory, _FOLDER_FLAGS) as folder:
            entries, notes = self._list(folder)
            self._refuse_another_folder(folder, entries)
            self._files = self._read_files(folder, entries, taken_at)
        is_complete = not notes and all(file.is_whole for file in self._files.values())
        jobs = self._merge(notes)
        return JobTable(
            source=NAME,
            jobs=jobs,
            taken_at_secs=taken_at,
            complete=is_complete,
            rejected=_cut(notes, MAX_REPORTED, self._directory),
            # Jobs kept from files that are broken now.
            reported_secs={
                job.key: file.reported_secs
                for file in self._files.values()
                if not file.digest
                for job in file.jobs
            },
        )

    def watch(self, notify: Callable[[], None]) -> AbstractContextManager[object]:
        """Call `notify` when a job's file is created, changed or removed, until the context exits."""
        from jobfeatures.system.watch import watch_directory  # only the daemon watches

        self._users.on_late = notify
        return watch_directory(self._directory, notify, is_wanted=is_document_name)

    def _refuse_another_folder(self, folder: int, entries: Collection[str]) -> None:
        """Raise SourceError if an empty folder has replaced one with jobs.

        An unmounted file system looks like that, and ends no job. The folder is
        trusted once it holds a document, or once the old folder is back.
        """
        found = os.fstat(folder)
        identity = (found.st_dev, found.st_ino)
        if self._files and not entries and self._identity != identity:
            raise SourceError(f"{self._directory}: the folder is empty and was replaced: is it unmounted?")
        self._identity = identity

    def _list(self, folder: int) -> tuple[dict[str, os.stat_result], list[Rejected]]:
        """Return the status of each job's file, by name, and a note if the list is incomplete."""
        listed: dict[str, os.stat_result] = {}
        notes: list[Rejected] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if not is_document_name(entry.name):
                    continue
                if len(listed) >= MAX_FILES:
                    notes.append(Rejected(self._directory, f"more than {MAX_FILES} files: not all are read"))
                    break
                with contextlib.suppress(FileNotFoundError):
                    listed[entry.name] = entry.stat(follow_symlinks=False)
        # Known files come first if there are too many. One that was not listed may still be
        # there: a rename during the listing can hide the name that it replaces.
        kept: dict[str, os.stat_result] = {}
        for name in self._files:
            if name in listed:
                kept[name] = listed.pop(name)
                continue
            with contextlib.suppress(FileNotFoundError):
                kept[name] = os.stat(name, dir_fd=folder, follow_symlinks=False)
        new = sorted(listed)[: max(0, MAX_FILES - len(kept))]
        kept.update((name, listed[name]) for name in new)
        return kept, notes

    def _read_files(
        self, folder: int, entries: Mapping[str, os.stat_result], now_secs: float
    ) -> dict[str, _File]:
        files: dict[str, _File] = {}
        budget = _Budget()
        for name in sorted(entries):
            file = self._files.get(name, _File())
            if file.version is None or file.version != version_of(entries[name]):
                try:
                    file = self._read_file(folder, name, entries[name], file, now_secs, budget)
                except FileNotFoundError:
                    continue  # removed between listing and reading
            if file.digest:
                file = replace(file, reported_secs=now_secs)
            budget.jobs_left -= _weight(file.jobs)
            files[name] = file
        return files

    def _read_file(
        self, folder: int, name: str, status: os.stat_result, known: _File, now_secs: float, budget: _Budget
    ) -> _File:
        """Check and read a file; return what is known about it then. Raises FileNotFoundError."""
        import hashlib  # like XML, only needed where there is a spool

        from jobfeatures.formats.sss.job import parse_document

        path = os.path.join(self._directory, shown_name(name))
        try:
            _check_status(status)
            if status.st_size > budget.bytes_left:
                reason = f"left for the next poll, after {MAX_BYTES_PER_POLL} bytes"
                return known.troubled(Rejected(path, reason))
            status, data = read_document(folder, name)
            budget.bytes_left -= len(data)
            digest = hashlib.blake2b(data).digest()
            if digest == known.digest:  # recently modified, same content: only its age has changed
                return replace(known, version=_settled_version(status, now_secs))
            document = parse_document(data, source=path, node=self._node_name, max_bytes=MAX_FILE_BYTES)
            if _weight(document.jobs) > budget.jobs_left:
                reason = f"more than {MAX_JOBS} jobs, or jobs on very many nodes, in the folder"
                return known.troubled(Rejected(path, reason))
        except FileNotFoundError:
            raise
        except OSError as error:
            return known.troubled(Rejected.from_error(error, path))
        except ParseError as error:
            return known.troubled(Rejected.from_error(error, path), _settled_version(status, now_secs))
        jobs = document.jobs
        if document.rejected:  # a known job may be among them
            keys = {job.key for job in jobs}
            jobs += tuple(job for job in known.jobs if job.key not in keys)
        return _File(
            version=_settled_version(status, now_secs),
            jobs=jobs,
            notes=_cut((*document.rejected, *document.warnings), MAX_NOTES, path),
            is_whole=not document.rejected or known.is_whole,
            digest=digest,
        )

    def _merge(self, notes: list[Rejected]) -> dict[JobKey, Job]:
        """Return the jobs of all files; add problems in files and conflicts between them to `notes`."""
        jobs: dict[JobKey, Job] = {}
        for name, file in self._files.items():
            notes.extend(file.notes)
            for job in file.jobs:
                if job.key in jobs:
                    reason = f"also described in {shown_name(name)} or twice in it: the last one counts"
                    notes.append(Rejected(self._directory, reason, field="Id", text=job.key.job_id))
                jobs[job.key] = self._users.complete(job)
        return jobs


def is_document_name(name: str) -> bool:
    """Return whether a file of this name in a spool folder is read: ``*.xml``, without a leading dot."""
    return name.endswith(SUFFIX) and not name.startswith(".")


def _check_status(status: os.stat_result) -> None:
    """Raise ParseError unless this is the status of a regular file within the size limit."""
    if not stat.S_ISREG(status.st_mode):
        raise ParseError("not a regular file")
    if status.st_size > MAX_FILE_BYTES:
        raise ParseError(f"larger than {MAX_FILE_BYTES} bytes")


def read_document(folder: int, name: str) -> tuple[os.stat_result, bytes]:
    """Return the stat result and the content of a file in a spool folder; `folder` is the open folder.

    The stat result is from before reading, so that any later change differs from it. Raises OSError, and
    ParseError if it is not a regular file, or larger than the limit.
    """
    with opened(name, READ_UNFOLLOWED, folder) as file:
        status = os.fstat(file)
        _check_status(status)
        data = bytearray()
        while chunk := os.read(file, MAX_FILE_BYTES + 1 - len(data)):
            data += chunk
            if len(data) > MAX_FILE_BYTES:
                raise ParseError(f"larger than {MAX_FILE_BYTES} bytes")
    return status, bytes(data)


def _weight(jobs: Sequence[Job]) -> int:
    """Return how much memory jobs take, as a number of typical jobs."""
    return sum(1 + (len(job.nodes) + len(job.processes) + len(job.sessions)) // 16 for job in jobs)


def _settled_version(status: os.stat_result, now_secs: float) -> Version | None:
    """Return a file's version, None if it may still change with its timestamps unchanged."""
    return version_of(status) if now_secs - status.st_ctime >= UNSETTLED_SECS else None


def _cut(notes: Sequence[Rejected], limit: int, source: str) -> tuple[Rejected, ...]:
    if len(notes) <= limit:
        return tuple(notes)
    return (*notes[:limit], Rejected(source, f"{len(notes) - limit} more problems"))
