"""What a batch job needs to read its features and to tell its status. One file, to be imported or copied.

It needs nothing but Python's standard library (3.8 or later, Linux) and
starts fast: what is heavy is imported where it is needed.

    from jobfeatures.client import Features, StatusWriter

    left = Features.from_environment().remaining(time.time())
    if left.seconds is not None and left.seconds < 600:
        ...

    with StatusWriter(os.environ["JOBSTATUS"], allocated_cpu=8) as status:
        status.update(used_CPU=5, last_job_start=int(time.time()))

Sources: Machine/Job Features, HSF-TN-2016-02 (the features), and its draft
0.99 of 2014-05-15, sections 3.1 to 3.9 (the status).
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from _thread import allocate_lock

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_SECS = 5.0  # of an HTTP request
MAX_VALUE_BYTES = 4096

MACHINE = "machine"
JOB = "job"
VARIABLES = {MACHINE: "MACHINEFEATURES", JOB: "JOBFEATURES"}

_KEY_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_DIGITS = frozenset("0123456789")


class FeaturesError(Exception):
    """A feature could not be had. That a key is absent is not an error."""


class FeaturesLocationError(FeaturesError):
    """A key, or the value of $MACHINEFEATURES or $JOBFEATURES, cannot name anything."""


class FeaturesUnreachableError(FeaturesError):
    """A directory or server did not answer: nobody knows whether the key is there."""


class FeaturesValueError(FeaturesError):
    """A value is longer than any value can be."""


# --- reading ------------------------------------------------------------------


class Remaining:
    """How long a job may still run.

    `bases` are seconds by what ends the job, "wall_limit" or "shutdown",
    negative where that has passed; `seconds` is the least of them, whole and
    not negative, or None if nothing is known to end the job; `notes` say
    which values were skipped because they are not what they should be.
    """

    __slots__ = ("bases", "notes", "seconds")

    def __init__(self, bases: Mapping[str, float], notes: tuple[str, ...] = ()) -> None:
        self.bases = bases
        self.notes = notes
        self.seconds = max(0, int(min(bases.values()) // 1)) if bases else None

    def __repr__(self) -> str:
        return f"Remaining({self.bases!r}, {self.notes!r})"


class Features:
    """The machine's and the job's features, each from a local directory or an HTTP(S) address."""

    def __init__(self, machine: str | None = None, job: str | None = None) -> None:
        self._locations = {MACHINE: machine, JOB: job}

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Features:
        """Return the features that $MACHINEFEATURES and $JOBFEATURES point to; each may be unset."""
        return cls(environ.get(VARIABLES[MACHINE]) or None, environ.get(VARIABLES[JOB]) or None)

    def get(self, area: str, key: str) -> str | None:
        """Return a value of the area "machine" or "job" without its newline, None if there is none.

        A value is read anew each time. Raises FeaturesLocationError,
        FeaturesUnreachableError (no answer, refused, or not within 5 seconds
        of reading), or FeaturesValueError (more than 4096 bytes).
        """
        location = self._locations[area]
        if location is None:
            return None
        if not key or key[0] == "." or not _KEY_CHARACTERS.issuperset(key):
            raise FeaturesLocationError(f"{key!r} is not the name of a key")
        if location.startswith("/"):
            content = _read_file(location.rstrip("/") + "/" + key)
        elif location.startswith(("http://", "https://")):
            content = _read_url(location.rstrip("/") + "/" + key)
        else:
            raise FeaturesLocationError(
                f"${VARIABLES[area]}: neither an absolute path nor an http(s) address: {location!r}"
            )
        if content is None:
            return None
        if len(content) > MAX_VALUE_BYTES:
            raise FeaturesValueError(f"{location}/{key}: more than {MAX_VALUE_BYTES} bytes")
        text = content.decode("utf-8", "backslashreplace")
        return text[:-1] if text.endswith("\n") else text  # noqa: FURB188  # Python 3.8 has no removesuffix

    def find(self, key: str) -> str | None:
        """Return a value of the job or else of the machine, None if neither has one. Raises as `get` does."""
        value = self.get(JOB, key)
        return self.get(MACHINE, key) if value is None else value

    def remaining(self, now: float) -> Remaining:
        """Return how long the job may still run from `now` (epoch seconds) on.

        wall_limit: jobstart_secs + wall_limit_secs; shutdown: the earlier of
        shutdowntime and shutdowntime_job. Raises FeaturesUnreachableError if
        one could not be asked for: that is not the same as no limit.
        """
        notes: list[str] = []
        start = self._seconds(JOB, "jobstart_secs", notes)
        limit = self._seconds(JOB, "wall_limit_secs", notes)
        shutdowns = [
            each
            for each in (
                self._seconds(MACHINE, "shutdowntime", notes),
                self._seconds(JOB, "shutdowntime_job", notes),
            )
            if each is not None
        ]
        bases: dict[str, float] = {}
        if start is not None and limit is not None:
            bases["wall_limit"] = start + limit - now
        elif limit is not None:
            notes.append("wall_limit_secs: of no use without jobstart_secs")
        if shutdowns:
            bases["shutdown"] = min(shutdowns) - now
        return Remaining(bases, tuple(notes))

    def _seconds(self, area: str, key: str, notes: list[str]) -> float | None:
        try:
            text = self.get(area, key)
        except FeaturesValueError as error:
            notes.append(str(error))
            return None
        if text is None:
            return None
        whole, _, fraction = text.strip().partition(".")
        # float() alone would also take "nan", "1e999" and "1_000".
        if whole and _DIGITS.issuperset(whole + fraction) and len(whole) <= 18:
            return float(f"{whole}.{fraction}") if fraction.strip("0") else int(whole)
        notes.append(f"{key}: not a number: {text[:80]!r}")
        return None


def _read_file(path: str) -> bytes | None:
    """Return the content of a file up to one byte too many, None if there is no such file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(file, MAX_VALUE_BYTES + 1)
        finally:
            os.close(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FeaturesUnreachableError(f"{path}: {error.strerror}") from error


def _read_url(url: str) -> bytes | None:
    """Return what a server has under an address up to one byte too many, None for 404."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import ProxyHandler, build_opener

    deadline = time.monotonic() + TIMEOUT_SECS
    # No proxy: the address is this node's or this site's, and would mean another machine to a proxy.
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(url, timeout=TIMEOUT_SECS) as response:
            content = b""
            while len(content) <= MAX_VALUE_BYTES:
                chunk = response.read1(MAX_VALUE_BYTES + 1 - len(content))
                if not chunk:
                    break
                content += chunk
                if time.monotonic() > deadline:
                    raise FeaturesUnreachableError(f"{url}: no end after {TIMEOUT_SECS:g} s")
            promised = response.headers.get("Content-Length")
    except HTTPError as error:
        with error:
            if error.code == 404:
                return None
        raise FeaturesUnreachableError(f"{url}: {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        raise FeaturesUnreachableError(f"{url}: {error}") from error
    except ValueError as error:
        raise FeaturesLocationError(f"{url}: {error}") from error
    if promised is not None and promised != str(len(content)) and len(content) <= MAX_VALUE_BYTES:
        raise FeaturesUnreachableError(f"{url}: {len(content)} bytes instead of {promised}")
    return content


# --- writing ------------------------------------------------------------------

MAX_INTEGER = 2**63 - 1
MAX_EPOCH_SECS = 2**40
LOCK_TIMEOUT_SECS = 10.0
_ATTEMPT_INTERVAL_SECS = 0.005

USED_CPU = "used_CPU"
CAN_POSTPONE = "can_postpone_last_job"

# Least and greatest value of each key; None for the one that is True or False.
STATUS_KEYS = {
    USED_CPU: (0, MAX_INTEGER),
    "last_job_start": (0, MAX_EPOCH_SECS),
    "first_exp_job_end": (0, MAX_EPOCH_SECS),
    "last_exp_job_end": (0, MAX_EPOCH_SECS),
    "last_max_job_end": (0, MAX_EPOCH_SECS),
    "add_uncom_time": (0, MAX_INTEGER),
    "add_final_exp_waste": (0, MAX_INTEGER),
    CAN_POSTPONE: None,
    "priority_factor": (-MAX_INTEGER, MAX_INTEGER),
}


class StatusWriter:
    """Writes this job's $JOBSTATUS, so that a reader who locks used_CPU sees one update or the next.

    The draft does not say which kind of lock is meant: flock(2) and fcntl(2)
    locks are both held, taken in this order. The directory has to be on a local
    file system: on NFS the two are one lock and shut each other out.
    """

    def __init__(
        self, path: str, allocated_cpu: int | None = None, lock_timeout_secs: float = LOCK_TIMEOUT_SECS
    ) -> None:
        """Open the directory `path`. Raises OSError if that fails."""
        self._path = path
        self._allocated_cpu = allocated_cpu
        self._lock_timeout_secs = lock_timeout_secs
        self._known: dict[str, int | bool] = {}  # as last written
        self._mutex = allocate_lock()  # fcntl locks belong to the process: threads do not shut each other out
        self._directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> StatusWriter:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the directory; what was written stays."""
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1

    def update(self, **values: int | bool | None) -> None:
        """Write these values; those of this writer's earlier updates stay, None takes one away.

        The first update needs used_CPU. The directory then holds exactly what
        this writer knows: a job has one writer. A bad name or value, or a set
        that contradicts itself, raises ValueError before anything is touched.
        Raises TimeoutError if others hold a lock for too long, OSError if
        writing fails: readers then refuse the set until the next update.
        """
        self._change(values, self._known)

    def amend(self, **values: int | bool | None) -> None:
        """Write these values into the set that is in the directory, whoever wrote it, under its lock.

        A set with a malformed value is replaced whole. Raises as `update` does.
        """
        self._change(values, None)

    def _change(
        self, values: Mapping[str, int | bool | None], start: Mapping[str, int | bool] | None
    ) -> None:
        if not self._mutex.acquire(timeout=self._lock_timeout_secs):
            raise TimeoutError(f"{self._path}: another thread is writing")
        try:
            self._check_values(values)
            if start is None and USED_CPU not in os.listdir(self._directory):
                start = {}
            if start is not None:
                self._merge(start, values)  # refuses a bad set before a file is made
            self._write(values, start)
        finally:
            self._mutex.release()

    def _check_values(self, given: Mapping[str, object]) -> None:
        if self._directory < 0:
            raise ValueError(f"{self._path}: the writer is closed")
        for name, value in given.items():
            if name not in STATUS_KEYS:
                raise ValueError(f"{name}: no such key; there are {', '.join(STATUS_KEYS)}")
            limits = STATUS_KEYS[name]
            if value is None:
                continue
            if limits is None:
                if not isinstance(value, bool):
                    raise ValueError(f"{name}: neither True nor False: {value!r}")
            elif isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name}: not an integer: {value!r}")
            elif not limits[0] <= value <= limits[1]:
                raise ValueError(f"{name}: not within {limits[0]} and {limits[1]}: {value}")

    def _merge(
        self, old: Mapping[str, int | bool], new: Mapping[str, int | bool | None]
    ) -> dict[str, int | bool]:
        known = {name: value for name, value in {**old, **new}.items() if value is not None}
        if USED_CPU not in known:
            raise ValueError(f"{USED_CPU} has to be given")
        if self._allocated_cpu is not None and known[USED_CPU] > self._allocated_cpu:
            raise ValueError(
                f"{USED_CPU}: {known[USED_CPU]} is more than the {self._allocated_cpu} allocated"
            )
        first, last = known.get("first_exp_job_end"), known.get("last_exp_job_end")
        if first is not None and last is not None and first > last:
            raise ValueError(f"first_exp_job_end: {first} is after last_exp_job_end {last}")
        return known

    def _write(self, values: Mapping[str, int | bool | None], start: Mapping[str, int | bool] | None) -> None:
        # In place, as a rename would leave the lock on a file that is no longer there. used_CPU
        # is empty until all others are written: a writer that dies on the way leaves a set that
        # readers refuse, not a mixed one.
        used_cpu = self._open(USED_CPU)
        try:
            self._lock(used_cpu)
            known = self._merge(self._read(used_cpu) if start is None else start, values)
            os.ftruncate(used_cpu, 0)
            for name in STATUS_KEYS:
                if name == USED_CPU:
                    continue
                if name in known:
                    file = self._open(name)
                    try:
                        os.ftruncate(file, 0)
                        _write_all(file, known[name])
                    finally:
                        os.close(file)
                else:
                    try:  # noqa: SIM105  # contextlib is slow to import
                        os.unlink(name, dir_fd=self._directory)
                    except FileNotFoundError:
                        pass
            _write_all(used_cpu, known[USED_CPU])
            self._known = known
        finally:
            os.close(used_cpu)  # and so both locks are gone

    def _read(self, used_cpu: int) -> dict[str, int | bool]:
        """Return the set that is there, empty if any of it is malformed."""
        found: dict[str, int | bool] = {}
        for name in STATUS_KEYS:
            try:
                file = used_cpu
                if name != USED_CPU:
                    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                    file = os.open(name, flags, dir_fd=self._directory)
            except FileNotFoundError:
                continue
            try:
                value = _parse(name, os.pread(file, 65, 0))
            finally:
                if name != USED_CPU:
                    os.close(file)
            if value is None:
                return {}
            found[name] = value
        return found

    def _open(self, name: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(name, flags, 0o644, dir_fd=self._directory)
        if os.fstat(file).st_mode & 0o777 != 0o644:
            os.fchmod(file, 0o644)  # whatever the umask: others have to read it
        return file

    def _lock(self, file: int) -> None:
        deadline = time.monotonic() + self._lock_timeout_secs
        for lock in (fcntl.flock, fcntl.lockf):
            while True:
                try:
                    lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except (BlockingIOError, PermissionError):  # fcntl(2): EAGAIN or EACCES
                    if time.monotonic() >= deadline:
                        raise TimeoutError(f"{self._path}/{USED_CPU}: locked by somebody else") from None
                    time.sleep(_ATTEMPT_INTERVAL_SECS)


def _parse(name: str, content: bytes) -> int | bool | None:
    """Return the value in a file of the directory, None if it is malformed."""
    text = content.decode("ascii", "replace").strip()
    limits = STATUS_KEYS[name]
    if limits is None:
        return {"True": True, "False": False}.get(text)
    digits = text.lstrip("-")
    if not digits or len(text) > 20 or len(text) - len(digits) > 1 or not _DIGITS.issuperset(digits):
        return None
    return int(text) if limits[0] <= int(text) <= limits[1] else None


def _write_all(file: int, value: int | bool) -> None:
    content = f"{value}\n".encode("ascii")
    if os.write(file, content) != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # a few bytes: only a full disk cuts them
