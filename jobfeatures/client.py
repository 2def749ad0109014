"""Lets a batch job read its features, report its status, and know its end in time. To be imported or copied.

One file, which can also be run: ``python3 client.py run --signal USR1@300 -- PROGRAM``, or ``remaining``.
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
import sys
import time
from _thread import allocate_lock

TIMEOUT_SECS = 5.0  # of an HTTP request
WATCHING = "jobfeatures-run"  # the User-Agent of who waits for changes
MAX_VALUE_BYTES = 4096
CLOCK_SKEW_SECS = 300  # allowed between the batch system's server, which sets a job's start, and this machine

MACHINE = "machine"
JOB = "job"
VARIABLES = {MACHINE: "MACHINEFEATURES", JOB: "JOBFEATURES"}

_KEY_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_DIGITS = frozenset("0123456789")
_UNLIMITED = float("inf")
_PROC = "/proc"
_CGROUPS = "/sys/fs/cgroup"


class FeaturesError(Exception):
    """A feature could not be read. The absence of a key is not an error."""


class FeaturesLocationError(FeaturesError):
    """The name of a key, or the location in $MACHINEFEATURES or $JOBFEATURES, is malformed."""


class FeaturesUnreachableError(FeaturesError):
    """It could not be determined whether the key exists.

    No directory or server is given, it does not exist or does not answer, or its token has expired.
    """


class FeaturesValueError(FeaturesError):
    """A value is longer than 4096 bytes, the most that is read."""


# --- reading ------------------------------------------------------------------


class Remaining:
    """How long a job may still run.

    `bases` are the seconds left by what ends the job: "wall_limit", "cpu_limit" or "shutdown"; negative if
    the time has passed. `seconds` is the least of them, rounded down, or None if nothing is known to end the
    job. `details` explain, by the same keys, how each was computed, or that there is no limit; `notes` say
    which values were skipped because they are invalid.
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
        self._has_job = job is not None
        self._seen = {}  # by area: when its URL was last found to exist
        self._agent = None  # the name under which addresses are asked
        self._lock = None  # the descriptor that holds it

    @classmethod
    def from_environment(cls, environ=os.environ):
        """Return the features that $MACHINEFEATURES and $JOBFEATURES point to; each may be unset."""
        return cls(environ.get(VARIABLES[MACHINE]) or None, environ.get(VARIABLES[JOB]) or None)

    @property
    def has_address(self):
        """Return whether the machine's or the job's features are at an HTTP(S) address."""
        return any(map(_is_url, filter(None, self._locations.values())))

    def get(self, area, key):
        """Return a value of the area "machine" or "job" without its newline, None if there is none.

        It is read again each time. An area without a location has no values. Raises FeaturesLocationError for
        an invalid location or key name; FeaturesUnreachableError (neither area has a location, no such
        directory, no answer within 5 seconds, refused); FeaturesValueError (more than 4096 bytes).
        """
        location = self._locations[area]
        if location is None:
            if not any(self._locations.values()):
                raise FeaturesUnreachableError(
                    'neither $MACHINEFEATURES nor $JOBFEATURES is set; in a job: eval "$(jobfeatures env)"'
                )
            return None
        if not key or key[0] == "." or not _KEY_CHARACTERS.issuperset(key):
            raise FeaturesLocationError(f"{key!r} is not a valid name of a key")
        base = location.rstrip("/") + "/"
        if location.startswith("/"):
            content = _read_file(base + key)
            if content is None and not os.path.isdir(base):
                raise FeaturesUnreachableError(f"{location}: there is no such directory")
        elif _is_url(location):
            content = _read_url(base + key, self._agent)
            if content is None and time.monotonic() - self._seen.get(area, -TIMEOUT_SECS) >= TIMEOUT_SECS:
                if not _is_there(base):
                    raise FeaturesUnreachableError(
                        f"{location}: HTTP 404: not found: the job's token may have expired; "
                        'in a job that runs, set the address anew: eval "$(jobfeatures env --http)"'
                    )
                self._seen[area] = time.monotonic()
        else:
            raise FeaturesLocationError(
                f"${VARIABLES[area]}: must be an absolute path or an http(s) address, not {location!r}"
            )
        if content is None:
            return None
        if len(content) > MAX_VALUE_BYTES:
            raise FeaturesValueError(f"{base}{key}: larger than {MAX_VALUE_BYTES} bytes")
        text = content.decode("utf-8", "backslashreplace")
        return text[:-1] if text.endswith("\n") else text  # noqa: FURB188  # Python 3.8 has no removesuffix

    def watch(self):
        """Let this node's daemon know that somebody waits for a change; to be called before each reading.

        The daemon then asks the batch system about the job each minute. It notices the watcher by a shared
        lock on $JOBFEATURES, which ends with this process, or by our name in HTTP requests. Other providers
        ignore both.
        """
        location, self._agent = self._locations[JOB] or "", WATCHING
        if not location.startswith("/"):
            return
        try:
            held = os.open(location, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
            held, self._lock = self._lock, held  # a directory may have taken another's place
        except OSError:
            pass
        if held is not None:
            os.close(held)

    def find(self, key):
        """Return a value of the job or else of the machine, None if neither has one. Raises as `get` does."""
        value = self.get(JOB, key)
        return self.get(MACHINE, key) if value is None else value

    def remaining(self, now, used_cpu_secs=None):
        """Return how long the job may still run from `now` (epoch seconds) on.

                wall_limit: until jobstart_secs + wall_limit_secs, at most wall_limit_secs
                cpu_limit: until cpu_limit_secs is used up if all allocated processors are busy from now on;
                    not before wall_limit if it is only wall_limit_secs times allocated_cpu
                shutdown: until the earlier of shutdowntime and shutdowntime_job

        The CPU time used is `used_cpu_secs`, else that of the job's control group, else that of this
        session's processes in /proc; else all processors count as busy since the start. Raises
        FeaturesUnreachableError if a value could not be queried.
        """
        notes = []
        if not self._has_job:
            notes.append("$JOBFEATURES is not set: what limits the job is unknown")
        details = {}
        bases = {}
        start = self._seconds(JOB, "jobstart_secs", notes)
        wall = self._limit("wall_limit_secs", notes, details)
        if start is not None and wall is not None:
            bases["wall_limit"] = min(wall, start + wall - now)  # clocks differ: start may be after now
            if start - now > CLOCK_SKEW_SECS:
                notes.append(f"jobstart_secs: {start} is in the future: less may be left than it seems")
        elif wall is not None:
            notes.append("wall_limit_secs: cannot be used without jobstart_secs")
        limit = self._limit("cpu_limit_secs", notes, details)
        if limit is not None:
            elapsed = None if start is None else now - start
            left, detail = self._cpu_left(limit, wall, elapsed, used_cpu_secs, notes)
            if left is None:
                notes.append("cpu_limit_secs: cannot be used, " + detail)
            else:
                bases["cpu_limit"] = left
                details["cpu_limit"] = "; ".join(filter(None, (details.get("cpu_limit"), detail)))
        shutdowns = {
            key: self._seconds(area, key, notes)
            for area, key in ((MACHINE, "shutdowntime"), (JOB, "shutdowntime_job"))
        }
        known = {key: at for key, at in shutdowns.items() if at is not None}
        if known:
            first = min(known, key=known.get)
            bases["shutdown"] = known[first] - now
            details["shutdown"] = first
        return Remaining(bases, tuple(dict.fromkeys(notes)), details)

    def apart(self):
        """Return two `Features`, the first with the job's features alone, the other with the machine's."""
        parts = [Features(**{area: self._locations[area]}) for area in (JOB, MACHINE)]
        for each in parts:
            each._agent, each._has_job = self._agent, self._has_job  # noqa: SLF001  # of its own kind
        return parts

    def _limit(self, key, notes, details):
        """Return a limit in real seconds, None if unknown; a normalized one is divided by its factor."""
        limit = self._seconds(JOB, key, notes, unlimited=_UNLIMITED)
        if limit == _UNLIMITED:
            details[key[: -len("_secs")]] = "unlimited"
            return None
        normalized = self._seconds(JOB, key + "_lrms", notes) if limit is None else None
        if normalized is None:
            return limit
        factor = self._seconds(JOB, "cpufactor_lrms", notes)
        if not factor:
            notes.append(key + "_lrms: cannot be used without a cpufactor_lrms above 0")
            return None
        details[key[: -len("_secs")]] = f"{normalized:g} normalized seconds / {factor:g}"
        return normalized / factor

    def _cpu_left(self, limit, wall, elapsed, used, notes):
        """Return the seconds until a CPU limit, None if unknown, and how they were computed.

        `wall` is the wall limit. A CPU limit that is only this times the CPUs is nobody's, and ends no job
        that uses more: a CPU may be a core of two threads.
        """
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
                return None, "neither the used CPU time nor jobstart_secs is known"
            return (limit - most) / cpus, f"at worst: {detail}, and since the start"
        if most is not None and wall is not None and limit == wall * cpus:
            used = min(used, most)
        left = (limit - used) / cpus
        if most is not None and most > used:
            detail += f"; {(limit - most) / cpus:.0f} if since the start"
        return left, detail

    def _seconds(self, area, key, notes, unlimited=None):
        try:
            text = self.get(area, key)
        except FeaturesValueError as error:
            notes.append(str(error))
            return None
        if text is None:
            return None
        if unlimited is not None and text.strip().lower() == "unlimited":  # as some providers write
            return unlimited
        whole, _, fraction = text.strip().partition(".")
        # float() alone would also take "nan", "1e999" and "1_000".
        if whole and _DIGITS.issuperset(whole + fraction) and len(whole) <= 18:
            fraction = fraction[:18]  # a quotient of two such numbers is finite
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
        raise FeaturesUnreachableError(f"{path}: cannot be read: {error.strerror}") from error


def _is_there(url):
    """Return whether a URL that ends in a slash exists, even if it cannot be listed."""
    try:
        return _read_url(url) is not None
    except FeaturesUnreachableError:
        return True  # any answer but 404, or one a moment ago


def _is_url(location):
    return location.startswith(("http://", "https://"))


def _open_url(request, timeout_secs):
    """Return the answer to a request or URL. No proxy: it is this node's or this site's, and has a token."""
    from urllib.request import ProxyHandler, build_opener

    return build_opener(ProxyHandler({})).open(request, timeout=timeout_secs)


def _read_url(url, agent=None):
    """Return the content at a URL, at most one byte too many, None for 404."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request

    deadline = time.monotonic() + TIMEOUT_SECS
    try:
        request = Request(url, headers={} if agent is None else {"User-Agent": agent})  # noqa: S310  # as said
        with _open_url(request, TIMEOUT_SECS) as response:
            content = b""
            while len(content) <= MAX_VALUE_BYTES:
                chunk = response.read1(MAX_VALUE_BYTES + 1 - len(content))
                if not chunk:
                    break
                content += chunk
                if time.monotonic() > deadline:
                    raise FeaturesUnreachableError(f"{url}: transfer took longer than {TIMEOUT_SECS:g} s")
            promised = response.headers.get("Content-Length")
    except HTTPError as error:
        with error:
            if error.code == 404:
                return None
        raise FeaturesUnreachableError(f"{url}: HTTP {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)  # of an URLError
        raise FeaturesUnreachableError(f"{url}: {getattr(reason, 'strerror', None) or reason}") from error
    except ValueError as error:
        raise FeaturesLocationError(f"{url}: {error}") from error
    if promised is not None and promised != str(len(content)) and len(content) <= MAX_VALUE_BYTES:
        raise FeaturesUnreachableError(f"{url}: received {len(content)} bytes instead of {promised}")
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
    """Return the job's control group, a prefix of the path of one of its processes, None if it has none."""
    parts = path.split("/")
    for at, part in enumerate(parts):
        if _is_job_group(part.replace("\\x5b", "[").replace("\\x5d", "]"), parts[at - 1], job_id):
            return "/".join(parts[: at + 1])
    return None


def _is_job_group(name, above, job_id):
    """Return whether a control group, by its name and that of the one above it, is that of a job's top."""
    if above.endswith("slurmstepd.scope") and len(name) == 14 and name[0] == "s" and name[1:].isalnum():
        return True  # Slurm's SLUID in place of job_N
    if name.startswith("condor_") and (above == "htcondor" or "@" in name):
        return True  # HTCondor names its slot, which holds one job
    if not job_id:
        return False
    of_array = job_id.replace("[", "-").replace("]", "")  # Torque's former way to write 5[3]
    return (
        name in (job_id, of_array)  # PBS
        or name.startswith((job_id + ".", of_array + ".", "job." + job_id + "."))  # PBS and Torque; LSF
        or name == "job_" + job_id  # Slurm
        or ("OAR_JOB_ID" in os.environ and name.endswith(("_" + job_id, "-j" + job_id + ".slice")))
    )


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
    """Writes this job's $JOBSTATUS, a directory or an HTTP(S) address.

    A reader of the directory that locks used_CPU sees no incomplete update.

    The draft does not say which kind of lock it means: both flock(2) and fcntl(2)
    locks are taken, in this order. The directory has to be on a local file system:
    on NFS both are the same lock and conflict with each other.
    """

    def __init__(self, path, allocated_cpu=None, lock_timeout_secs=LOCK_TIMEOUT_SECS):
        """Open the directory `path`, or take the address. Raises OSError if there is no such directory."""
        self._path = path
        self._is_open = True
        self._allocated_cpu = allocated_cpu
        self._lock_timeout_secs = lock_timeout_secs
        self._known = {}  # as last written
        self._mutex = allocate_lock()  # fcntl locks belong to the process: they do not exclude other threads
        self._directory = None
        if not _is_url(path):
            self._directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()

    def close(self):
        """Close the directory; the written values stay."""
        if self._is_open and self._directory is not None:
            os.close(self._directory)
        self._is_open = False

    def update(self, **values):
        """Write these values; those of this writer's earlier updates stay, None removes one.

        The first update needs used_CPU. The directory then holds exactly this writer's values: a job has only
        one writer. An invalid name or value, or a set that contradicts itself, raises ValueError before
        anything is written, or when the server refuses it. Raises TimeoutError if others hold a lock for too
        long, OSError if writing fails: readers of a directory then refuse the set until the next update.
        """
        self._change(values, self._known)

    def amend(self, **values):
        """Merge these values into the set in the directory, whoever wrote it, under its lock.

        A set with a malformed value is replaced completely. Raises as `update` does.
        """
        self._change(values, None)

    def _change(self, values, start):
        if not self._mutex.acquire(timeout=self._lock_timeout_secs):
            raise TimeoutError(f"{self._path}: another thread is still writing: try again")
        try:
            self._check_values(values)
            if self._directory is None:
                self._send(values, start)
                return
            if start is None and USED_CPU not in os.listdir(self._directory):
                start = {}
            if start is not None:
                self._merge(start, values)  # refuses an invalid set before any file is created
            self._write(values, start)
        finally:
            self._mutex.release()

    def _check_values(self, given):
        if not self._is_open:
            raise ValueError(f"{self._path}: the writer is closed")
        for name, value in given.items():
            if name not in STATUS_KEYS:
                raise ValueError(f"{name}: must be one of {', '.join(STATUS_KEYS)}")
            limits = STATUS_KEYS[name]
            if value is None:
                continue
            if limits is None:
                if not isinstance(value, bool):
                    raise ValueError(f"{name}: must be True or False, not {value!r}")
            elif isinstance(value, bool) or not isinstance(value, int):
                raise ValueError(f"{name}: must be an integer, not {value!r}")
            elif not limits[0] <= value <= limits[1]:
                raise ValueError(f"{name}: must be {limits[0]} to {limits[1]}, not {value}")

    def _merge(self, old, new):
        known = {name: value for name, value in {**old, **new}.items() if value is not None}
        if USED_CPU not in known:
            raise ValueError(f"{USED_CPU} must be given")
        if self._allocated_cpu is not None and known[USED_CPU] > self._allocated_cpu:
            raise ValueError(
                f"{USED_CPU}: {known[USED_CPU]} is more than the {self._allocated_cpu} allocated CPUs"
            )
        first, last = known.get("first_exp_job_end"), known.get("last_exp_job_end")
        if first is not None and last is not None and first > last:
            raise ValueError(f"first_exp_job_end: {first} is after last_exp_job_end {last}")
        return known

    def _send(self, values, start):
        """Have the server replace the set (PUT), or merge the values into it (POST, without `start`)."""
        import json
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request

        known = {name: value for name, value in {**self._known, **values}.items() if value is not None}
        if start is not None:
            values = self._merge(start, values)
        method = "POST" if start is None else "PUT"
        body, headers = json.dumps(values).encode("ascii"), {"Content-Type": "application/json"}
        request = Request(self._path, body, headers, method=method)  # noqa: S310  # an http(s) address
        try:
            with _open_url(request, self._lock_timeout_secs) as answer:
                if answer.status != 204:  # urllib follows a redirect of a POST by a GET
                    raise ConnectionError(
                        f"{answer.geturl()}: HTTP {answer.status} {answer.reason}: not the "
                        "address of a job status"
                    )
                self._known = known
        except HTTPError as error:
            with error:
                try:
                    reason = error.read(1024).decode("utf-8", "backslashreplace")
                except (OSError, HTTPException):
                    reason = "the connection was closed before the end of the answer"
            if error.code == 422:
                shown = "".join(each if each.isprintable() else " " for each in reason).strip()
                raise ValueError(f"{self._path}: the server refused the values: {shown}") from error
            if error.code == 503:
                raise TimeoutError(f"{self._path}: HTTP 503: locked by another process, or busy") from error
            raise ConnectionError(f"{self._path}: HTTP {error.code} {error.reason}") from error
        except HTTPException as error:
            raise ConnectionError(f"{self._path}: {error}") from error

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
                        raise TimeoutError(f"{self._path}/{USED_CPU}: locked by another process") from None
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


# --- a program that is told before the end ------------------------------------

KILL_AFTER_SECS = 10.0
FORMATS = ("secs", "minutes", "hms", "epoch", "iso")
MAX_NOTICE_SECS = 10**9
NOT_EXECUTABLE, NOT_FOUND = 126, 127  # as a shell exits
_READ_SECS = {True: 20.0, False: 5.0}  # between two readings of features, by whether they have addresses
_FRESH_SECS = 2.0  # between readings shortly before a notice
_PATIENCE_SECS = 5.0  # so long before it these begin: a directory on a dead server never answers
_SHORT_SECS = 0.5  # a reading under way then may still take, if the last one is no older than that
_SET_UP_SECS = 1.0  # a program has for its handlers of signals
_MAX_SET_UP_SECS = 30.0  # for that of a signal that would end it by mistake
_LEAST_HOOK_SECS = 10.0
_LOOK_SECS, _MAX_LOOK_SECS = 0.05, 0.4  # between looks at what is left of a group: soon, then less often


class Notice:
    """A notice of the job's end: `secs` before it, send the signal numbered `signal`, or run `hook`."""

    __slots__ = ("hook", "secs", "signal")

    def __init__(self, secs, signal=None, hook=None):
        self.secs = secs
        self.signal = signal
        self.hook = hook


def parse_signal(text):
    """Return the notice for ``USR1@300``, ``SIGUSR1@300`` or ``10@300``. Raises ValueError for others."""
    import signal

    name, secs = _split_notice(text)
    known = {each.name: each.value for each in signal.Signals}
    number = known.get(name.upper(), known.get("SIG" + name.upper()))
    if number is None and _DIGITS.issuperset(name) and len(name) < 4 and 1 <= int(name) < signal.NSIG:
        number = int(name)
    if number is None:
        raise ValueError(f"{name!r} is not the name of a signal, such as USR1")
    return Notice(secs, signal=number)


def parse_hook(text):
    """Return the notice for ``PROGRAM@300``: run it 300 s before the end. Raises ValueError for others."""
    program, secs = _split_notice(text)
    return Notice(secs, hook=program)


def _split_notice(text):
    what, _at, secs = text.rpartition("@")
    if not (what and secs and len(secs) < 11 and _DIGITS.issuperset(secs) and int(secs) <= MAX_NOTICE_SECS):
        raise ValueError(f"{text!r} must end in @SECS, whole seconds before the job's end")
    return what, int(secs)


def run_noticed(command, notices=(), kill_after_secs=KILL_AFTER_SECS, features=None):
    """Run a program (a list of words), give it notice of the job's end, and return its exit status.

    The status is 128 + N if signal N ended the program; 126 or 127 if it cannot be run, as in a shell. A
    notice (`Notice`) is a signal to the program, or the run of a hook, some seconds before the job's end.
    Each of `notices` is given once; it is given at once if less time than that is left. The end is read
    repeatedly from `features` (None: from the places that the environment names). A hook is a second
    program. It gets the seconds left in $JOBFEATURES_LEFT_SECS, and the first program's process id in
    $JOBFEATURES_PID. It may run for as many seconds as its notice says, and for 10 in any case.

    The program gets the terminal, the standard streams and its own process group. Signals sent to the
    calling process are passed on to it. When it has ended, other processes of its group get SIGTERM, and
    SIGKILL after `kill_after_secs`. Call this function in the main thread and as the process's last work:
    its signal handlers stay.
    """
    return _Run(notices, kill_after_secs, Features.from_environment() if features is None else features).run(
        command
    )


def _say(text):
    try:
        sys.stderr.write(f"jobfeatures: {text}\n")
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):  # it is closed
        pass


class _End:
    """When the job ends, as far as is known. A thread reads it: that may take long, or never end."""

    def __init__(self, features, wake):
        self._features = features
        self._wake = wake
        self._is_reading = False
        self._began = 0.0
        self._said = set()
        self._found = None
        self._ends = {}  # epochs, by what ends the job
        self.every_secs = _READ_SECS[features.has_address]
        self.read_at = None  # by the monotonic clock
        self.at_secs = None  # epoch
        self.basis = ""

    def waited_secs(self):
        """Return for how long a reading has been waited for, None if none is under way."""
        return time.monotonic() - self._began if self._is_reading else None

    def begin(self):
        """Begin a reading, unless one is under way."""
        import threading

        if not self._is_reading:
            self._began = time.monotonic()
            self._is_reading = True
            try:
                threading.Thread(target=self._read, daemon=True).start()
            except RuntimeError as error:  # the job or its user has as many as it may
                self._found = time.time(), Remaining({}), error
                self._wake()

    def _read(self):
        now = time.time()
        try:
            self._features.watch()
            self._found = now, self._features.remaining(now), None
        except Exception as error:  # noqa: BLE001  # whatever it is, the program goes on
            self._found = now, self._read_in_part(now), error
        self._wake()

    def _read_in_part(self, now):
        """Return what the job's features alone say, or else the machine's: a container may have but one."""
        for part in self._features.apart():
            try:
                return part.remaining(now)
            except Exception:  # noqa: BLE001,S112  # the error of both is told
                continue
        return Remaining({})

    def take(self):
        """Take what has been read. Where nothing could be, what was known before stays."""
        if self._found is None:
            return
        (now, left, error), self._found, self._is_reading = self._found, None, False
        self.read_at = time.monotonic()
        ends = {basis: now + secs for basis, secs in left.bases.items()}
        for note in left.notes:
            self._once(note)
        if error is None:
            self._ends = ends
        else:
            if "shutdown" in ends:  # one of the two that may be
                ends["shutdown"] = min(ends["shutdown"], self._ends.get("shutdown", ends["shutdown"]))
            known = (
                "what was known still counts"
                if self._ends
                else f"only {' and '.join(sorted(ends))} counts"
                if ends
                else "no notice is given unless it becomes known"
            )
            self._once(f"the end of the job cannot be read, {known}: {error}")
            self._ends.update(ends)
        self.basis = min(self._ends, key=self._ends.get, default="")
        self.at_secs = self._ends.get(self.basis)
        if error is None and not self._ends:
            self._once("no limit is known: no notice is given unless one becomes known")

    def _once(self, text):
        if text not in self._said:
            self._said.add(text)
            _say(text)


# Not passed on: ended and stopped children, our own errors, and what only a terminal's background gets.
_OWN_SIGNALS = ("CHLD", "ILL", "TRAP", "BUS", "FPE", "SEGV", "PIPE", "TTIN", "TTOU", "XFSZ", "SYS")

_ENDING_SIGNALS = ("HUP", "INT", "QUIT", "KILL", "TERM", "STOP")  # who does not catch them is to end, or stop


def plan_notice(until, age, waited, every_secs, unready_secs):
    """Return whether to read the job's end anew, whether to give the notice, and the seconds to sleep.

    The notice is due in `until` seconds, infinity if no end is known. The last reading is `age` seconds old;
    a reading in progress has taken `waited` seconds so far, None if there is none. Readings usually begin
    every `every_secs`. The program is ready for signals in `unready_secs`.
    """
    every = every_secs if until > _PATIENCE_SECS else _FRESH_SECS
    begins = waited is None and age >= every
    if begins:
        waited = 0.0
    if until > 0:
        wait = until - _PATIENCE_SECS if until > _PATIENCE_SECS else until
    else:
        wait = unready_secs
        if waited is not None:
            wait = max(wait, (_SHORT_SECS if age <= _PATIENCE_SECS else _PATIENCE_SECS) - waited)
        if wait <= 0:
            return begins, True, 0.0
    return begins, False, wait if waited is not None else min(wait, every - age)


class _Run:
    """One run of a program; see `run_noticed`."""

    def __init__(self, notices, kill_after_secs, features):
        self._notices = sorted(notices, key=lambda each: -each.secs)
        self._kill_after_secs = kill_after_secs
        self._reading, self._writing = os.pipe()
        for each in (self._reading, self._writing):
            os.set_blocking(each, False)
        self._end = _End(features, lambda: os.write(self._writing, b"\0"))
        self._own = ()  # numbers of signals
        self._terminal = None
        self._pid = 0
        self._began = 0.0  # by the monotonic clock
        self._status = None
        self._hooks = {}  # by process: its program, and until when it may run by the monotonic clock

    def run(self, command):
        """Run it to its end."""
        import signal

        self._own = {getattr(signal, "SIG" + name) for name in _OWN_SIGNALS}
        signal.set_wakeup_fd(self._writing)
        for number in range(1, signal.NSIG):
            try:
                # What is ignored, as by nohup, stays so for the program, too; but children that
                # nobody wants to hear of leave no status.
                if number == signal.SIGCHLD or (
                    number not in self._own and signal.getsignal(number) not in (signal.SIG_IGN, None)
                ):
                    signal.signal(number, lambda *_: None)
            except (OSError, ValueError):
                continue  # not one that can be caught
        # What launchers leave blocked would never come, to us and to the program.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, set(signal.Signals))
        try:  # noqa: SIM105  # contextlib is slow to import
            self._terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            pass
        status = self._start(command)
        if status is not None:
            return status
        # The terminal is the program's: what we say there, and giving it back, must not stop us.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        while self._status is None:
            self._take(self._wait(self._look()))
        self._end_rest()
        if self._front() == self._pid:
            self._to_front(os.getpgrp())
        while self._hooks:
            self._take(self._wait(self._end_hooks()))
        return self._status

    def _start(self, command):
        import subprocess

        # In a pipeline others may read from the terminal; there the program gets it when it wants it.
        is_front = self._front() == os.getpgrp() and os.isatty(0) and os.isatty(1)

        def prepare():
            os.setpgid(0, 0)
            if is_front:
                self._to_front(os.getpid())

        path = _which(command[0])
        if path is None:
            _say(f"{command[0]}: {os.strerror(errno.ENOENT)}")
            return NOT_FOUND
        for words in (command, ["/bin/sh", path, *command[1:]]):
            program = path if words is command else words[0]
            try:
                # Descriptors beyond the standard ones are the program's, too: as those of PMI, or of make.
                made = subprocess.Popen(words, executable=program, close_fds=False, preexec_fn=prepare)  # noqa: PLW1509  # no threads yet
            except (OSError, ValueError) as error:
                number = getattr(error, "errno", None)
                if number == errno.ENOEXEC and words is command:
                    continue  # a script without #!: a shell's
                _say(f"{command[0]}: {getattr(error, 'strerror', None) or error}")
                if is_front:
                    self._to_front(os.getpgrp())
                return NOT_FOUND if number in (errno.ENOENT, errno.ENOTDIR) else NOT_EXECUTABLE
            made.returncode = 0  # it is waited for here
            self._pid = made.pid
            self._began = time.monotonic()
            break
        return None

    def _wait(self, secs):
        """Return the numbers of the signals that have come within so many seconds; 0 is none."""
        import select

        select.select([self._reading], [], [], secs)
        try:
            return os.read(self._reading, 4096)
        except BlockingIOError:
            return b""

    def _take(self, numbers):
        import signal

        self._reap()
        for number in numbers:
            if number == signal.SIGCONT and self._front() == os.getpgrp():
                self._to_front(self._pid)
            if number in self._own or not number:
                continue
            typed = (
                number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP) and self._front() == os.getpgrp()
            )
            if (
                typed or number == signal.SIGCONT or self._status is not None
            ):  # a terminal's go to all of a group
                for group in (self._pid, *(self._hooks if self._status is not None else ())):
                    _killpg(group, number)
            else:
                self._kill(number)
        self._reap()

    def _kill(self, number):
        """Send the program a signal. One that has become another user, as sudo does, gets none."""
        try:
            os.kill(self._pid, number)
        except OSError as error:
            _say(f"process {self._pid} does not get signal {number}: {error.strerror}")

    def _reap(self):
        """Take what has ended or was stopped; process 1 also gets what others have left."""
        for wanted in (-1,) if os.getpid() == 1 else (self._pid, *self._hooks):
            while True:
                try:
                    pid, status = os.waitpid(wanted, os.WNOHANG | os.WUNTRACED)
                except ChildProcessError:
                    break
                if pid == 0:
                    break
                if os.WIFSTOPPED(status):
                    if pid == self._pid:
                        self._stopped(os.WSTOPSIG(status))
                    continue
                ended = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                if pid == self._pid and self._status is None:
                    self._status = ended
                elif pid in self._hooks and ended:
                    _say(f"{self._hooks[pid][0]}: the hook ended with status {ended}")
                self._hooks.pop(pid, None)

    # --- notices

    def _look(self):
        """Give the notices that are due, and return for how long to sleep."""
        self._end.take()
        now = time.monotonic()
        next_secs = [self._end_hooks()]
        if self._notices:
            waited = self._end.waited_secs()
            age = float("inf") if self._end.read_at is None else now - self._end.read_at
            left = None if self._end.at_secs is None else self._end.at_secs - time.time()
            until = float("inf") if left is None else left - self._notices[0].secs
            begins, gives, wait_secs = plan_notice(
                until, age, waited, self._end.every_secs, self._unready_secs(left)
            )
            if begins:
                self._end.begin()
            if gives:
                self._give(self._notices.pop(0), left)
                return 0.0
            next_secs.append(wait_secs)
        return max(0.0, min(next_secs))

    def _unready_secs(self, left):
        """Return for how long the program cannot take the next notice.

        One that is still setting up does not catch a signal such as USR1 yet, which would end it. Nobody
        waits for that past the following notice, or once less is left than has passed since the start.
        """
        import signal

        ran_secs = time.monotonic() - self._began
        number = self._notices[0].signal
        if (
            ran_secs < _SET_UP_SECS
            or left is None
            or ran_secs >= min(_MAX_SET_UP_SECS, left)
            or any(left <= each.secs for each in self._notices[1:])
            or number in {None, *(getattr(signal, "SIG" + name) for name in _ENDING_SIGNALS)}
            or _catches(self._pid, number)
        ):
            return _SET_UP_SECS - ran_secs
        return _MAX_LOOK_SECS

    def _give(self, notice, left):
        import signal
        import subprocess

        until = f"{left // 1:.0f} s are left by {self._end.basis}"
        if notice.signal is not None:
            try:
                name = signal.Signals(notice.signal).name
            except ValueError:
                name = f"signal {notice.signal}"
            _say(f"{until}: {name} is sent to process {self._pid}")
            self._kill(notice.signal)
            return
        _say(f"{until}: {notice.hook} is run")
        environ = dict(os.environ, JOBFEATURES_LEFT_SECS=str(int(left // 1)), JOBFEATURES_PID=str(self._pid))
        try:
            hook = subprocess.Popen(
                [notice.hook], stdin=subprocess.DEVNULL, env=environ, start_new_session=True
            )
        except (OSError, ValueError) as error:
            _say(f"{notice.hook}: the hook cannot be run: {getattr(error, 'strerror', None) or error}")
            return
        hook.returncode = 0  # it is waited for here
        self._hooks[hook.pid] = notice.hook, time.monotonic() + max(_LEAST_HOOK_SECS, notice.secs)

    def _end_hooks(self):
        """Kill hooks whose time is over, and return for how long none is."""
        import signal

        now = time.monotonic()
        for pid, (program, until) in self._hooks.items():
            if now >= until:
                _say(f"{program}: the hook takes too long and is killed")
                _killpg(pid, signal.SIGKILL)
                self._hooks[pid] = program, float("inf")
        return min([until - now for _, until in self._hooks.values()] + [self._end.every_secs])

    # --- its process group, and the terminal

    def _end_rest(self):
        """End what is left of the program's group."""
        import signal

        for number, secs in ((signal.SIGTERM, self._kill_after_secs), (signal.SIGKILL, 1.0)):
            _killpg(self._pid, number)
            _killpg(self._pid, signal.SIGCONT)
            deadline = time.monotonic() + secs
            look_secs = _LOOK_SECS
            while _is_running(self._pid) and time.monotonic() < deadline:
                self._take(self._wait(look_secs))
                look_secs = min(2 * look_secs, _MAX_LOOK_SECS)

    def _stopped(self, number):
        """Stop with the program where somebody at a terminal can continue both, as a shell its jobs."""
        import signal

        if self._front() is None:
            return
        if number in (signal.SIGTTIN, signal.SIGTTOU) and self._front() == os.getpgrp():
            self._to_front(self._pid)
            _killpg(self._pid, signal.SIGCONT)
        elif not _is_orphaned():
            if self._front() == self._pid:
                self._to_front(os.getpgrp())
            os.killpg(os.getpgrp(), signal.SIGSTOP)  # a script that waits for us, too; SIGCONT comes to all
        elif number != signal.SIGSTOP:
            _killpg(self._pid, signal.SIGCONT)  # nobody would: the kernel does not stop such either

    def _front(self):
        """Return the process group to which the terminal belongs, None without a terminal."""
        try:
            return None if self._terminal is None else os.tcgetpgrp(self._terminal)
        except OSError:
            return None

    def _to_front(self, group):
        import signal

        # Whoever does this in the background is stopped otherwise.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            os.tcsetpgrp(self._terminal, group)
        except OSError:
            pass
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _which(program):
    """Return the path of a program as a shell finds it, None if it is nowhere."""
    if "/" in program:
        return program
    paths = [os.path.join(folder or ".", program) for folder in os.get_exec_path() if program]
    files = [path for path in paths if os.path.isfile(path)]
    return next((path for path in files if os.access(path, os.X_OK)), files[0] if files else None)


def _catches(pid, number):
    """Return whether a process has a handler for a signal, also if that cannot be known."""
    try:
        with open(f"{_PROC}/{pid}/status", "rb") as file:
            caught = next(line for line in file if line.startswith(b"SigCgt:"))
        return bool(int(caught.split()[1], 16) >> (number - 1) & 1)
    except (OSError, ValueError, IndexError, StopIteration):
        return True


def _killpg(group, number):
    """Send a signal to a process group; return whether there is one."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _is_running(group):
    """Return whether a process group has more than zombies, which stay where a process 1 reaps none."""
    if not _killpg(group, 0):
        return False
    states = set()
    for name in filter(str.isdigit, os.listdir(_PROC)):
        try:
            with open(f"{_PROC}/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has just ended
        if len(fields) > 2 and int(fields[2]) == group:
            states.add(fields[0])
    return not states or not states <= {b"Z", b"X"}


def _is_orphaned():
    """Return whether no shell could continue our process group: see "orphaned process group" in POSIX."""
    pid = os.getpid()
    try:
        while os.getpgid(pid) == os.getpgrp():
            with open(f"{_PROC}/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
            if pid == 0:
                return True
        return os.getsid(pid) != os.getsid(0)
    except (OSError, ValueError, IndexError):
        return True


# --- commands ------------------------------------------------------------------

DONE, FAILED, WRONG, UNREADABLE = 0, 1, 2, 3


def _checked(parse):
    """Return a type of argparse that says what `parse` raises."""

    def checking(text):
        from argparse import ArgumentTypeError

        try:
            return parse(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return checking


def add_run_arguments(parser):
    """Add the arguments of ``run`` to a parser of argparse."""
    add = parser.add_argument
    add(
        "--signal",
        metavar="SIG@SECS",
        dest="notices",
        default=[],
        type=_checked(parse_signal),
        action="append",
        help="send the program this signal so many seconds before the end; may be repeated",
    )
    add(
        "--hook",
        metavar="PROGRAM@SECS",
        dest="notices",
        default=[],
        type=_checked(parse_hook),
        action="append",
        help="run another program then; may be repeated",
    )
    add(
        "--kill-after",
        metavar="SECS",
        dest="kill_after_secs",
        default=KILL_AFTER_SECS,
        type=_checked(_parse_secs),
        help="when the program has ended, what it leaves gets SIGTERM, so much later SIGKILL (default: 10)",
    )
    add("command_line", metavar="-- PROGRAM [ARGUMENT]", nargs="...", help="the program that is run")


def add_remaining_arguments(parser):
    """Add the arguments of ``remaining`` to a parser of argparse."""
    add = parser.add_argument
    add("--explain", action="store_true", help="print what the answer is based on")
    add("--margin", metavar="SECS", type=_checked(_parse_secs), help="less by so much, and never below 0")
    add(
        "--default",
        metavar="SECS",
        type=_checked(_parse_secs),
        help="printed, without the margin, where no limit is known (status 0) or none can be read (3)",
    )
    add(
        "--format",
        choices=FORMATS,
        help="never below 0: secs; minutes; hms, as 49:05:00; or when that is, as epoch "
        "or as iso, 2026-11-29T16:00:00Z",
    )


def _parse_secs(text):
    if not (text and len(text) < 11 and _DIGITS.issuperset(text)):
        raise ValueError(f"{text!r} is not a whole number of seconds")
    return int(text)


def run_command(arguments, complain=_say):
    """Run the program that the arguments of ``run`` name; return the exit status.

    `complain` prints a message on what is wrong with the arguments.
    """
    words = arguments.command_line
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        complain("a program to run is missing: jobfeatures run --signal USR1@300 -- PROGRAM")
        return WRONG
    return run_noticed(words, arguments.notices, arguments.kill_after_secs)


def print_remaining(arguments, complain=_say):
    """Print how long the job may still run, as the arguments of ``remaining`` say; return the exit status.

    `complain` prints a message on what is wrong or missing.
    """
    now = time.time()
    status, details, bases, left = DONE, {}, {}, None
    try:
        found = Features.from_environment().remaining(now)
    except FeaturesUnreachableError as error:
        complain(f"no features can be read: {error}")
        status = UNREADABLE
    except FeaturesError as error:
        complain(error)
        status = FAILED if arguments.default is None else UNREADABLE
    else:
        details, bases, left = found.details, found.bases, found.seconds
        for note in found.notes:
            complain(note)
    if left is None and arguments.default is None:
        if status == DONE:
            complain("no limit is known for this job; jobfeatures show lists what is known")
        return status or FAILED
    shown = arguments.default if left is None else left - (arguments.margin or 0)
    if arguments.margin is not None or arguments.format is not None:
        shown = max(0, shown)
    print(_formatted(shown, arguments.format, int(now)))
    if arguments.explain:
        whole = {basis: int(secs // 1) for basis, secs in bases.items()}
        for basis in sorted(whole, key=lambda basis: (whole[basis], basis)):
            detail = f" ({details[basis]})" if basis in details else ""
            print(f"{basis} {whole[basis]}{detail}")
        for basis in sorted(details.keys() - bases.keys()):
            print(f"{basis} {details[basis]}")
        if left is None:
            why = "no limit is set, or none is known" if status == DONE else "nothing can be read"
            print(f"default {arguments.default} ({why})")
    return status


def _formatted(left, form, now):
    """Return seconds in one of the `FORMATS`, counted from `now` on, an epoch."""
    if form == "minutes":
        return str(left // 60)
    if form == "hms":
        return f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02}"
    if form == "epoch":
        return str(now + left)
    if form == "iso":
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(min(now + left, MAX_EPOCH_SECS)))
    return str(left)


def main(argv=None):
    """Do with this file alone what ``jobfeatures run`` and ``remaining`` do; return the exit status."""
    import argparse

    parser = argparse.ArgumentParser(
        description="Be told before the job ends; print how long it may still run."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.required = True
    add_run_arguments(commands.add_parser("run", help="run a program and signal it before the job ends"))
    add_remaining_arguments(
        commands.add_parser("remaining", help="print how many seconds the job may still run")
    )
    arguments = parser.parse_args(argv)
    if arguments.command == "run":
        return run_command(arguments)
    try:
        status = print_remaining(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        _say(f"standard output: cannot write: {error.strerror}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else the interpreter complains once more at its end
        return FAILED
    return status


if __name__ == "__main__":
    sys.exit(main())
