"""Lets a batch job read its features and report its status. One file, to be imported or copied.

It needs nothing but Python's standard library (3.6 or later, Linux) and
starts fast: heavy modules are imported where they are needed. The types are in client.pyi.

    from jobfeatures.client import Features, StatusWriter

    left = Features.from_environment().remaining(time.time())
    if left.seconds is not None and left.seconds < 600:
        ...

    with StatusWriter(os.environ["JOBSTATUS"], allocated_cpu=8) as status:
        status.update(used_CPU=5, last_job_start=int(time.time()))

Sources: Machine/Job Features, HSF-TN-2016-02 (the features), and its draft
0.99 of 2014-05-15, sections 3.1 to 3.9 (the status).
"""

import errno
import fcntl
import os
import time
from _thread import allocate_lock

TIMEOUT_SECS = 5.0  # of an HTTP request
MAX_VALUE_BYTES = 4096
CLOCK_SKEW_SECS = 300  # allowed between the batch system's server, which sets a job's start, and this machine

MACHINE = "machine"
JOB = "job"
VARIABLES = {MACHINE: "MACHINEFEATURES", JOB: "JOBFEATURES"}

_KEY_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_DIGITS = frozenset("0123456789")
_PROC = "/proc"
_CGROUPS = "/sys/fs/cgroup"


class FeaturesError(Exception):
    """A feature could not be read. The absence of a key is not an error."""


class FeaturesLocationError(FeaturesError):
    """A key, or the value of $MACHINEFEATURES or $JOBFEATURES, is malformed."""


class FeaturesUnreachableError(FeaturesError):
    """It could not be determined whether the key exists.

    No directory or server is given, it does not exist or does not answer, or its token has expired.
    """


class FeaturesValueError(FeaturesError):
    """A value is longer than any value can be."""


# --- reading ------------------------------------------------------------------


class Remaining:
    """How long a job may still run.

    `bases` are seconds by what ends the job, "wall_limit", "cpu_limit" or "shutdown", negative if that has
    passed; `seconds` is the least of them, rounded down, or None if nothing is known to end the job;
    `details` explain by basis how it was computed; `notes` say which values were skipped because they are
    invalid.
    """

    __slots__ = ("bases", "details", "notes", "seconds")

    def __init__(self, bases, notes=(), details=None):
        self.bases = bases
        self.notes = notes
        self.details = details or {}
        self.seconds = int(min(bases.values()) // 1) if bases else None

    def __repr__(self):
        return f"Remaining({self.bases!r}, {self.notes!r}, {self.details!r})"


class Features:
    """The machine's and the job's features, each from a local directory or an HTTP(S) address."""

    def __init__(self, machine=None, job=None):
        self._locations = {MACHINE: machine, JOB: job}
        self._seen = {}  # by area: when its URL was last found to exist

    @classmethod
    def from_environment(cls, environ=os.environ):
        """Return the features that $MACHINEFEATURES and $JOBFEATURES point to; each may be unset."""
        return cls(environ.get(VARIABLES[MACHINE]) or None, environ.get(VARIABLES[JOB]) or None)

    def get(self, area, key):
        """Return a value of the area "machine" or "job" without its newline, None if there is none.

        A value is read again each time. An area without a location has no values, but one area must have a
        location. Raises FeaturesLocationError, FeaturesUnreachableError (no location, no such directory, no
        answer, refused, or not read within 5 seconds), or FeaturesValueError (more than 4096 bytes).
        """
        location = self._locations[area]
        if location is None:
            if not any(self._locations.values()):
                raise FeaturesUnreachableError(
                    'neither $MACHINEFEATURES nor $JOBFEATURES is set; in a job: eval "$(jobfeatures env)"'
                )
            return None
        if not key or key[0] == "." or not _KEY_CHARACTERS.issuperset(key):
            raise FeaturesLocationError(f"{key!r} is not the name of a key")
        base = location.rstrip("/") + "/"
        if location.startswith("/"):
            content = _read_file(base + key)
            if content is None and not os.path.isdir(base):
                raise FeaturesUnreachableError(f"{location}: there is no such directory")
        elif location.startswith(("http://", "https://")):
            content = _read_url(base + key)
            if content is None and time.monotonic() - self._seen.get(area, -TIMEOUT_SECS) >= TIMEOUT_SECS:
                if not _is_there(base):
                    raise FeaturesUnreachableError(
                        f"{location}: 404: nothing is there, a token may have expired"
                    )
                self._seen[area] = time.monotonic()
        else:
            raise FeaturesLocationError(
                f"${VARIABLES[area]}: neither an absolute path nor an http(s) address: {location!r}"
            )
        if content is None:
            return None
        if len(content) > MAX_VALUE_BYTES:
            raise FeaturesValueError(f"{base}{key}: more than {MAX_VALUE_BYTES} bytes")
        text = content.decode("utf-8", "backslashreplace")
        return text[:-1] if text.endswith("\n") else text  # noqa: FURB188  # Python 3.8 has no removesuffix

    def find(self, key):
        """Return a value of the job or else of the machine, None if neither has one. Raises as `get` does."""
        value = self.get(JOB, key)
        return self.get(MACHINE, key) if value is None else value

    def remaining(self, now, used_cpu_secs=None):
        """Return how long the job may still run from `now` (epoch seconds) on.

        wall_limit: until jobstart_secs + wall_limit_secs, at most the limit. cpu_limit: until cpu_limit_secs
        is used up, with all allocated processors busy from now on. The CPU time used so far is
        `used_cpu_secs`, or else that of the job's control group, or else that of this session's processes in
        /proc; or else all processors are assumed to have been busy since the start, the worst case. shutdown:
        the earlier of shutdowntime and shutdowntime_job. Raises FeaturesUnreachableError if a value could not
        be queried: that is not the same as no limit.
        """
        notes = []
        details = {}
        bases = {}
        start = self._seconds(JOB, "jobstart_secs", notes)
        limit = self._seconds(JOB, "wall_limit_secs", notes)
        if start is not None and limit is not None:
            bases["wall_limit"] = min(limit, start + limit - now)  # clocks differ: start may be after now
        elif limit is not None:
            notes.append("wall_limit_secs: of no use without jobstart_secs")
        limit = self._seconds(JOB, "cpu_limit_secs", notes)
        if limit is not None:
            left, detail = self._cpu_left(limit, None if start is None else now - start, used_cpu_secs, notes)
            if left is None:
                notes.append("cpu_limit_secs: of no use, " + detail)
            else:
                bases["cpu_limit"] = left
                details["cpu_limit"] = detail
        shutdowns = {
            key: self._seconds(area, key, notes)
            for area, key in ((MACHINE, "shutdowntime"), (JOB, "shutdowntime_job"))
        }
        known = {key: at for key, at in shutdowns.items() if at is not None}
        if known:
            first = min(known, key=known.get)
            bases["shutdown"] = known[first] - now
            details["shutdown"] = first
        return Remaining(bases, tuple(notes), details)

    def _cpu_left(self, limit, elapsed, used, notes):
        """Return the seconds until a CPU limit, None if unknown, and how they were computed."""
        cpus = self._seconds(JOB, "allocated_cpu", notes)
        if cpus is None:
            cpus = self._seconds(JOB, "allocated_CPU", notes)
        detail = f"{cpus or 0:g} CPUs busy from now on"
        if not cpus:
            cpus = len(os.sched_getaffinity(0))
            detail = f"{cpus} CPUs busy from now on, as many as this process may use"
        most = None if elapsed is None else max(0, cpus * elapsed)
        if used is not None:
            detail = f"{used:g} s used; {detail}"
        else:
            try:
                job_id = self.get(JOB, "job_id")
            except FeaturesValueError:
                job_id = None
            used, reported = _used_cpu_secs(job_id, None if elapsed is None else time.time() - elapsed)
            if used is not None:
                detail = f"{used:.0f} s used by {reported}; {detail}"
        if used is None:
            if most is None:
                return None, "neither what was used nor jobstart_secs is known"
            return (limit - most) / cpus, f"at worst: {detail}, and since the start"
        left = (limit - used) / cpus
        if most is not None and most > used:
            detail += f"; {(limit - most) / cpus:.0f} if since the start"
        return left, detail

    def _seconds(self, area, key, notes):
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
            return float(whole + "." + fraction) if fraction.strip("0") else int(whole)
        is_negative = whole[:1] == "-" and _DIGITS.issuperset(whole[1:] + fraction)
        notes.append(f"{key}: {'is negative' if is_negative else 'not a number'}: {text[:80]!r}")
        return None


def _read_file(path):
    """Return the content of a file, at most one byte too many, None if there is no such file."""
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


def _is_there(url):
    """Return whether a URL that ends in a slash exists, even if it cannot be listed."""
    try:
        return _read_url(url) is not None
    except FeaturesUnreachableError:
        return True  # any answer but 404, or one a moment ago


def _read_url(url):
    """Return the content at a URL, at most one byte too many, None for 404."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import ProxyHandler, build_opener

    deadline = time.monotonic() + TIMEOUT_SECS
    # No proxy: the URL is this node's or this site's, and could mean another machine to a proxy.
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
        reason = getattr(error, "reason", error)  # of an URLError
        raise FeaturesUnreachableError(f"{url}: {getattr(reason, 'strerror', None) or reason}") from error
    except ValueError as error:
        raise FeaturesLocationError(f"{url}: {error}") from error
    if promised is not None and promised != str(len(content)) and len(content) <= MAX_VALUE_BYTES:
        raise FeaturesUnreachableError(f"{url}: {len(content)} bytes instead of {promised}")
    return content


# --- CPU time used --------------------------------------------------------------


def _used_cpu_secs(job_id, start):
    """Return the CPU seconds that this process's job has used, None if unknown, and their source."""
    try:
        with open(_PROC + "/self/cgroup", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        lines = []
    for line in lines:
        controllers, _, path = line.partition(":")[2].partition(":")
        group = _job_group(path, job_id)
        if group is None:
            continue
        for mount in ("", "/unified") if not controllers else ("/" + controllers, "/cpuacct"):
            used = _group_cpu_secs(_CGROUPS + mount + group)
            if used is not None:
                return used, "control group " + group
    return _session_cpu_secs(start), "this session's processes and their children, or more"


def _job_group(path, job_id):
    """Return the job's control group, a prefix of the path, None if it has none."""
    parts = path.split("/")
    for at, part in enumerate(parts):
        # Slurm, LSF, PBS and Grid Engine name the job; HTCondor names its slot, which holds one job.
        is_named = job_id and (
            part in ("job_" + job_id, job_id) or part.startswith(("job." + job_id + ".", job_id + "."))
        )
        if is_named or (part.startswith("condor_") and parts[at - 1] == "htcondor"):
            return "/".join(parts[: at + 1])
    return None


def _group_cpu_secs(path):
    """Return the CPU seconds of a control group of version 2 or else 1, None if unknown."""
    try:
        with open(path + "/cpu.stat", encoding="ascii") as file:
            for line in file:
                name, _, value = line.partition(" ")
                if name == "usage_usec":
                    return int(value) / 1e6
    except (OSError, ValueError):
        pass
    try:
        with open(path + "/cpuacct.usage", encoding="ascii") as file:
            return int(file.read()) / 1e9
    except (OSError, ValueError):
        return None


def _session_cpu_secs(start):
    """Return the CPU seconds of this session's processes and their children, None if unknown.

    A session with a process from before the job's start is not the job's. CPU time
    of ended processes whose parent did not wait for them is missing. Source: proc(5),
    /proc/PID/stat: session, starttime, and utime, stime, cutime, cstime.
    """
    own = os.getsid(0)
    ticks = os.sysconf("SC_CLK_TCK")
    found = {}
    try:
        with open(_PROC + "/stat", "rb") as file:
            boot = next(int(line.split()[1]) for line in file if line.startswith(b"btime "))
        for name in os.listdir(_PROC):
            if name.isdigit():
                try:
                    with open(_PROC + "/" + name + "/stat", "rb") as file:
                        fields = file.read().rpartition(b")")[2].split()
                    times = sum(map(int, fields[11:15])), boot + int(fields[19]) / ticks
                    found[int(name)] = (int(fields[1]), int(fields[3]), *times)
                except (OSError, ValueError, IndexError):
                    continue  # it has just ended
    except (OSError, StopIteration):
        return None
    ours = {pid for pid, process in found.items() if process[1] == own}
    if not ours or (start is not None and min(found[pid][3] for pid in ours) < start - CLOCK_SKEW_SECS):
        return None
    more = ours
    while more:
        more = {pid for pid, process in found.items() if process[0] in more} - ours
        ours |= more
    return sum(found[pid][2] for pid in ours) / ticks


# --- writing ------------------------------------------------------------------

MAX_INTEGER = 2**63 - 1
MAX_EPOCH_SECS = 2**40
LOCK_TIMEOUT_SECS = 10.0
_ATTEMPT_INTERVAL_SECS = 0.005

USED_CPU = "used_CPU"
CAN_POSTPONE = "can_postpone_last_job"

# Least and greatest value of each key; None for the Boolean one.
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
    """Writes this job's $JOBSTATUS, so that a reader that locks used_CPU sees no incomplete update.

    The draft does not say which kind of lock it means: both flock(2) and fcntl(2)
    locks are taken, in this order. The directory has to be on a local file system:
    on NFS both are the same lock and conflict with each other.
    """

    def __init__(self, path, allocated_cpu=None, lock_timeout_secs=LOCK_TIMEOUT_SECS):
        """Open the directory `path`. Raises OSError if that fails."""
        self._path = path
        self._allocated_cpu = allocated_cpu
        self._lock_timeout_secs = lock_timeout_secs
        self._known = {}  # as last written
        self._mutex = allocate_lock()  # fcntl locks belong to the process: they do not exclude other threads
        self._directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()

    def close(self):
        """Close the directory; the written values stay."""
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1

    def update(self, **values):
        """Write these values; those of this writer's earlier updates stay, None removes one.

        The first update needs used_CPU. The directory then holds exactly this writer's values: a job has only
        one writer. An invalid name or value, or a set that contradicts itself, raises ValueError before
        anything is written. Raises TimeoutError if others hold a lock for too long, OSError if writing fails:
        readers then refuse the set until the next update.
        """
        self._change(values, self._known)

    def amend(self, **values):
        """Merge these values into the set in the directory, whoever wrote it, under its lock.

        A set with a malformed value is replaced completely. Raises as `update` does.
        """
        self._change(values, None)

    def _change(self, values, start):
        if not self._mutex.acquire(timeout=self._lock_timeout_secs):
            raise TimeoutError(f"{self._path}: another thread is writing")
        try:
            self._check_values(values)
            if start is None and USED_CPU not in os.listdir(self._directory):
                start = {}
            if start is not None:
                self._merge(start, values)  # refuses an invalid set before any file is created
            self._write(values, start)
        finally:
            self._mutex.release()

    def _check_values(self, given):
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

    def _merge(self, old, new):
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

    def _write(self, values, start):
        # In place, as a rename would leave the lock on a file that no longer has the name. used_CPU
        # is empty until all others are written: a writer that dies midway leaves a set that
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
                        # This file's time has to be that of its last change: see `jobfeatures report`.
                        if name != CAN_POSTPONE or _parse(name, os.pread(file, 65, 0)) is not known[name]:
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
            os.close(used_cpu)  # releases both locks

    def _read(self, used_cpu):
        """Return the set in the directory, empty if any of it is malformed."""
        found = {}
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

    def _open(self, name):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(name, flags, 0o644, dir_fd=self._directory)
        if os.fstat(file).st_mode & 0o777 != 0o644:
            os.fchmod(file, 0o644)  # whatever the umask, others must be able to read it
        return file

    def _lock(self, file):
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


def _parse(name, content):
    """Return the value in a file of the directory, None if it is malformed."""
    text = content.decode("ascii", "replace").strip()
    limits = STATUS_KEYS[name]
    if limits is None:
        return {"True": True, "False": False}.get(text)
    digits = text.lstrip("-")
    if not digits or len(text) > 20 or len(text) - len(digits) > 1 or not _DIGITS.issuperset(digits):
        return None
    return int(text) if limits[0] <= int(text) <= limits[1] else None


def _write_all(file, value):
    content = f"{value}\n".encode("ascii")
    if os.write(file, content) != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # so few bytes are cut only by a full disk
