"""The published directories: every write is atomic, every path is opened without following links.

    ROOT/machinefeatures/KEY
    ROOT/jobfeatures/slurm-1234/KEY
    ROOT/jobstatus/slurm-1234/          owned by the job's user, who fills it
    ROOT/exports/slurm-1234             lines for a task prolog
    ROOT/records/slurm-1234.json        what a prolog knew of the job (private)
    ROOT/staging/                       half-made and half-removed things (private)

A job's directory appears at once with all its keys, a changed key is replaced
by a rename from `staging`, and a removed directory is renamed into `staging`
before it is emptied: a reader never meets a temporary or an empty file.
Everything but `jobstatus/*` belongs to the publisher.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator, Mapping

from jobfeatures.errors import UnsafePathError
from jobfeatures.model import JobKey

MACHINE = "machinefeatures"
JOBS = "jobfeatures"
STATUS = "jobstatus"
EXPORTS = "exports"
RECORDS = "records"
STAGING = "staging"

_MODES = {MACHINE: 0o755, JOBS: 0o755, STATUS: 0o755, EXPORTS: 0o755, RECORDS: 0o700, STAGING: 0o700}
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
MAX_VALUE_BYTES = 4096
SWEEP_ENTRIES = 10_000


class FeatureTree:
    """The directories below one root. Instances keep no descriptors and may be used by several processes."""

    def __init__(self, root: str) -> None:
        self.root = root

    # --- where things are -----------------------------------------------------

    @property
    def machine_path(self) -> str:
        """Return the value of $MACHINEFEATURES."""
        return f"{self.root}/{MACHINE}"

    def job_path(self, key: JobKey) -> str:
        """Return the value of $JOBFEATURES for a job."""
        return f"{self.root}/{JOBS}/{key.directory_name}"

    def status_path(self, key: JobKey) -> str:
        """Return the value of $JOBSTATUS for a job."""
        return f"{self.root}/{STATUS}/{key.directory_name}"

    def exports_path(self, key: JobKey) -> str:
        """Return the file with the lines of a job's task prolog."""
        return f"{self.root}/{EXPORTS}/{key.directory_name}"

    @property
    def records_path(self) -> str:
        """Return the folder of what prologs knew."""
        return f"{self.root}/{RECORDS}"

    # --- writing ----------------------------------------------------------------

    def prepare(self) -> None:
        """Make the folders below the root. Raises UnsafePathError if one of them is not ours alone."""
        with self._folder(MACHINE), self._folder(JOBS), self._folder(STATUS):
            pass
        with self._folder(EXPORTS), self._folder(RECORDS), self._folder(STAGING):
            pass

    def write_machine(self, values: Mapping[str, str]) -> None:
        """Make $MACHINEFEATURES hold exactly these keys. Raises OSError, e.g. on a full disk."""
        with self._folder(MACHINE) as folder, self._folder(STAGING) as staging:
            _update(folder, staging, values)

    def write_job(self, key: JobKey, values: Mapping[str, str]) -> None:
        """Make $JOBFEATURES of a job hold exactly these keys; only what changed is written."""
        with self._folder(JOBS) as folder, self._folder(STAGING) as staging:
            self._write_directory(folder, staging, key.directory_name, values)

    def make_status(self, key: JobKey, uid: int | None, gid: int = -1) -> None:
        """Make the job's empty $JOBSTATUS, owned by its user; one that exists is left alone.

        Without the right to give directories away (not root) it stays ours,
        which is right where the daemon and its jobs are one user's.
        """
        name = key.directory_name
        with self._folder(STATUS) as folder, self._folder(STAGING) as staging:
            if _exists(folder, name):
                return
            temporary = _unique(name)
            os.mkdir(temporary, 0o700, dir_fd=staging)
            with _opened(temporary, _DIRECTORY, staging) as made:
                if uid is not None and uid != os.geteuid() and os.geteuid() == 0:
                    os.fchown(made, uid, gid)
                os.fchmod(made, 0o755)
            self._into_place(temporary, name, folder, staging)

    def write_exports(self, key: JobKey, text: str) -> None:
        """Write the lines of the job's task prolog."""
        with self._folder(EXPORTS) as folder, self._folder(STAGING) as staging:
            _replace(folder, staging, key.directory_name, text.encode(), 0o644)

    def write_record(self, key: JobKey, text: str) -> None:
        """Write what a prolog knows about the job."""
        with self._folder(RECORDS) as folder, self._folder(STAGING) as staging:
            _replace(folder, staging, f"{key.directory_name}.json", text.encode(), 0o600)

    # --- removing ----------------------------------------------------------------

    def remove_job(self, key: JobKey) -> bool:
        """Take everything about a job away; True if there was something. Emptying is left to `sweep`."""
        name, found = key.directory_name, False
        with self._folder(STAGING) as staging:
            for each in (EXPORTS, JOBS, STATUS):
                with self._folder(each) as folder, contextlib.suppress(FileNotFoundError):
                    os.rename(name, _unique(name), src_dir_fd=folder, dst_dir_fd=staging)
                    found = True
            with self._folder(RECORDS) as folder, contextlib.suppress(FileNotFoundError):
                os.unlink(f"{name}.json", dir_fd=folder)
                found = True
        return found

    def sweep(self, max_entries: int = SWEEP_ENTRIES, before_secs: float | None = None) -> bool:
        """Empty `staging` as far as `max_entries` deletions go; True if it is empty then.

        A user may have nested directories deeper than any recursion, or filled
        one with a million files: nested ones are moved up and met again, and
        what is left waits for the next call. With `before_secs` (epoch) things
        touched since then are spared: another process may be making them.
        """
        budget = max_entries
        with self._folder(STAGING) as staging:
            names = [name for name in os.listdir(staging) if _untouched(staging, name, before_secs)]
            while names and budget > 0:
                name = names.pop()
                budget -= 1
                with contextlib.suppress(OSError):
                    if not _is_directory(staging, name):
                        os.unlink(name, dir_fd=staging)
                        continue
                    left, moved = _empty(staging, name, budget)
                    budget = left
                    names += moved
                    if budget > 0:
                        os.rmdir(name, dir_fd=staging)
            return not os.listdir(staging)

    # --- looking ------------------------------------------------------------------

    def published(self) -> dict[JobKey, float]:
        """Return the jobs that have a directory, with the time (epoch seconds) of its last change."""
        found: dict[JobKey, float] = {}
        try:
            folder = os.open(f"{self.root}/{JOBS}", _DIRECTORY)
        except FileNotFoundError:
            return found
        with _closing(folder), os.scandir(folder) as entries:
            for entry in entries:
                key = JobKey.from_directory_name(entry.name)
                with contextlib.suppress(OSError):
                    if key is not None and entry.is_dir(follow_symlinks=False):
                        found[key] = entry.stat(follow_symlinks=False).st_mtime
        return found

    # --- inside --------------------------------------------------------------------

    @contextlib.contextmanager
    def _folder(self, name: str) -> Iterator[int]:
        """Open a folder below the root, made if absent, and prove that nobody else can write to it."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.root, 0o755)
        with _opened(self.root, _DIRECTORY) as root:
            _must_be_ours(root, self.root)
            try:
                descriptor = os.open(name, _DIRECTORY, dir_fd=root)
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=root)
                descriptor = os.open(name, _DIRECTORY, dir_fd=root)
                os.fchmod(descriptor, _MODES[name])
            except OSError as error:
                raise UnsafePathError(f"{self.root}/{name}: {error.strerror}") from error
        with _closing(descriptor):
            _must_be_ours(descriptor, f"{self.root}/{name}")
            yield descriptor

    def _write_directory(self, folder: int, staging: int, name: str, values: Mapping[str, str]) -> None:
        if not _exists(folder, name):
            temporary = _unique(name)
            os.mkdir(temporary, 0o700, dir_fd=staging)
            with _opened(temporary, _DIRECTORY, staging) as made:
                for key, value in values.items():
                    _create(made, key, f"{value}\n".encode(), 0o644)
                os.fchmod(made, 0o755)
            if self._into_place(temporary, name, folder, staging):
                return
        with _opened(name, _DIRECTORY, folder) as directory:
            _must_be_ours(directory, f"{self.root}/{JOBS}/{name}")
            _update(directory, staging, values)

    @staticmethod
    def _into_place(temporary: str, name: str, folder: int, staging: int) -> bool:
        """Rename a finished directory to its place; False if another process was faster."""
        try:
            os.rename(temporary, name, src_dir_fd=staging, dst_dir_fd=folder)
        except OSError:
            if not _exists(folder, name):
                raise
            return False  # the loser stays in staging until the next sweep
        return True


def _update(directory: int, staging: int, values: Mapping[str, str]) -> None:
    """Make a directory hold exactly these keys, touching only what differs."""
    for name in os.listdir(directory):
        if name not in values:
            os.unlink(name, dir_fd=directory)
    for key, value in values.items():
        wanted = f"{value}\n".encode()
        if _content(directory, key) != wanted:
            _replace(directory, staging, key, wanted, 0o644)


def _content(directory: int, name: str) -> bytes | None:
    try:
        with _opened(name, _OLD_FILE, directory) as file:
            return os.read(file, MAX_VALUE_BYTES)
    except OSError:
        return None  # absent or odd: it is replaced


def _replace(directory: int, staging: int, name: str, content: bytes, mode: int) -> None:
    temporary = _unique(name)
    _create(staging, temporary, content, mode)
    try:
        os.rename(temporary, name, src_dir_fd=staging, dst_dir_fd=directory)
    except OSError:
        os.unlink(temporary, dir_fd=staging)
        raise


def _create(directory: int, name: str, content: bytes, mode: int) -> None:
    with _opened(name, _NEW_FILE, directory, 0o600) as file:
        try:
            os.fchmod(file, mode)
            written = 0
            while written < len(content):
                written += os.write(file, content[written:])
        except OSError:
            os.unlink(name, dir_fd=directory)  # a full disk must not leave an empty file
            raise


def _empty(staging: int, name: str, budget: int) -> tuple[int, list[str]]:
    """Unlink a directory's files and move its directories up; return the budget left and what was moved."""
    moved: list[str] = []
    with _opened(name, _DIRECTORY, staging) as directory:
        while budget > 0:
            with os.scandir(directory) as entries:
                batch = [
                    (each.name, each.is_dir(follow_symlinks=False)) for each in itertools.islice(entries, 256)
                ]
            if not batch:
                break
            for entry, is_directory in batch:
                budget -= 1
                if is_directory:
                    moved.append(_unique("nested"))
                    os.rename(entry, moved[-1], src_dir_fd=directory, dst_dir_fd=staging)
                else:
                    os.unlink(entry, dir_fd=directory)
    return budget, moved


def _unique(name: str) -> str:
    return f"{name[:160]}.{os.urandom(8).hex()}"


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_directory(folder: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _untouched(folder: int, name: str, before_secs: float | None) -> bool:
    if before_secs is None:
        return True
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_ctime < before_secs
    except OSError:
        return False


def _must_be_ours(descriptor: int, path: str) -> None:
    found = os.fstat(descriptor)
    if found.st_uid not in (0, os.geteuid()):
        raise UnsafePathError(f"{path}: belongs to uid {found.st_uid}")
    if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        raise UnsafePathError(f"{path}: writable by others (mode {stat.S_IMODE(found.st_mode):o})")


@contextlib.contextmanager
def _opened(name: str, flags: int, folder: int | None = None, mode: int = 0o777) -> Iterator[int]:
    descriptor = os.open(name, flags, mode, dir_fd=folder)
    with _closing(descriptor):
        yield descriptor


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)
