"""Names, creates and locks the folders below the features' root."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator

from jobfeatures.errors import ConfigurationError, UnsafePathError
from jobfeatures.publish.files import DIRECTORY, LOCK_FILE, has_locked, must_be_ours
from jobfeatures.records.model import JobKey
from jobfeatures.system.privatefile import closing, opened

MACHINE = "machinefeatures"
JOBS = "jobfeatures"
STATUS = "jobstatus"
EXPORTS = "exports"
ORIGINS = "origins"
DRAINS = "drains"
RECORDS = "records"
KNOWN = "known"
LOCKS = "locks"
TOKENS = "tokens"
URLS = "urls"
INTAKE = "intake"
FAILURES = "failures"
STAGING = "staging"

_MODES = {
    **dict.fromkeys((MACHINE, JOBS, STATUS, EXPORTS, ORIGINS, URLS), 0o755),
    **dict.fromkeys((DRAINS, RECORDS, KNOWN, LOCKS, TOKENS, INTAKE, FAILURES, STAGING), 0o700),
}
LOCK_FILES = 64
_DAEMON = "daemon"  # the lock that a daemon holds to its end
_FLOCK = "hhqqi4x"  # struct flock on 64-bit Linux
LOCK_SECS = 0.5  # for which a writer waits for another one: each needs milliseconds


class Folders:
    """Names, creates and locks the folders below one root.

    `jobfeatures.publish.tree` lists what is in them.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.machine_path = f"{root}/{MACHINE}"  # the value of $MACHINEFEATURES
        self.tokens_path = f"{root}/{TOKENS}"  # secrets
        self.drains_path = f"{root}/{DRAINS}"  # requests to shut down
        self.intake_path = f"{root}/{INTAKE}"  # requests of hooks
        self.records_path = f"{root}/{RECORDS}"  # what prologs knew
        self.known_path = f"{root}/{KNOWN}"  # what the daemon knew when it published jobs

    def job_path(self, key: JobKey) -> str:
        """Return the path of the directory of a job's features, the value of $JOBFEATURES."""
        return f"{self.root}/{JOBS}/{key.directory_name}"

    def status_path(self, key: JobKey) -> str:
        """Return the path of the directory of a job's status, the value of $JOBSTATUS."""
        return f"{self.root}/{STATUS}/{key.directory_name}"

    def exports_path(self, key: JobKey) -> str:
        """Return the path of the file with a job's export lines, for its task prolog."""
        return f"{self.root}/{EXPORTS}/{key.directory_name}"

    def origins_path(self, key: JobKey | None = None) -> str:
        """Return the path of the file that says where a job's, or (None) the machine's, values come from."""
        return f"{self.root}/{ORIGINS}/{origins_name(key)}"

    def urls_path(self, key: JobKey) -> str:
        """Return the path of the file with the export lines that have a job's HTTP URLs."""
        return f"{self.root}/{URLS}/{key.directory_name}"

    def prepare(self) -> None:
        """Create the folders below the root. Raises UnsafePathError if others may write to one of them."""
        for name in _MODES:
            with self.folder(name):
                pass

    @contextlib.contextmanager
    def locked(self, key: JobKey, timeout_secs: float = LOCK_SECS) -> Iterator[None]:
        """Hold a job's lock in a ``with`` block, as prolog, epilog and daemon do to write.

        Raises TimeoutError, an OSError. The lock ends with its holder's process. Jobs share `LOCK_FILES`
        locks, so a process must not hold two.
        """
        name = f"{sum(key.directory_name.encode()) % LOCK_FILES:02x}"
        with self.folder(LOCKS) as folder, opened(name, LOCK_FILE, folder, 0o600) as file:
            if not has_locked(file, timeout_secs):
                raise TimeoutError(f"{self.root}/{LOCKS}/{name}: locked by another process")
            yield

    @contextlib.contextmanager
    def kept_by_one_daemon(self) -> Iterator[None]:
        """Hold, in a ``with`` block, the lock that only one daemon per root can hold.

        Raises ConfigurationError if another daemon holds it. The lock ends with this process; a program
        started by it does not hold the lock. If the lock cannot be taken for lack of disk space or
        permission, the block runs without it: nothing can be published either, until that changes.
        """
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError, UnsafePathError):
                with self.folder(LOCKS) as folder:
                    file = stack.enter_context(opened(_DAEMON, LOCK_FILE, folder, 0o600))
                try:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    reason = f"{self.root} is kept by {_holder(file)}"
                    raise ConfigurationError("features.root", reason) from None
            yield

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[tuple[int, int]]:
        """Open a folder below the root, and `staging`, in which new entries are made, in a ``with`` block.

        Yields the descriptors of both.
        """
        with self.folder(name) as folder, self.folder(STAGING) as staging:
            yield folder, staging

    @contextlib.contextmanager
    def folder(self, name: str) -> Iterator[int]:
        """Open a folder below the root in a ``with`` block, created if absent, and yield its descriptor.

        Raises OSError, and UnsafePathError if it is no folder, or it or the root is another user's or
        writable by others.
        """
        is_new = False
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.root, 0o755)
            is_new = True
        with opened(self.root, DIRECTORY) as root:
            must_be_ours(root, self.root)
            if is_new:
                os.fchmod(root, 0o755)  # jobs need access, whatever our umask
            try:
                descriptor = os.open(name, DIRECTORY, dir_fd=root)
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=root)
                descriptor = os.open(name, DIRECTORY, dir_fd=root)
                os.fchmod(descriptor, _MODES[name])
            except OSError as error:
                raise UnsafePathError(f"{self.root}/{name}: cannot be made: {error.strerror}") from error
        with closing(descriptor):
            must_be_ours(descriptor, f"{self.root}/{name}")
            yield descriptor


def _holder(file: int) -> str:
    """Return who has locked a file, for a message."""
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    pid = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))[4]
    return f"another daemon, process {pid}" if pid > 0 else "another daemon"


def origins_name(key: JobKey | None) -> str:
    """Return the name of the file that says where a job's, or (None) the machine's, values come from."""
    return key.directory_name if key else "machine"  # never a job's: those names contain a dash
