"""Makes a job from the texts of the files in its directory in ``active_jobs``. Pure.

sge_execd writes ``config`` for the job's shepherd: lines ``name=value``, some with unescaped values from
users: a job's argument, folder or path may contain newlines and so forge complete lines. A name with two
different values is therefore not trusted. ``pe_hostfile`` is described in sge_pe(5), the variables of
``environment`` in qsub(1), "ENVIRONMENTAL VARIABLES".
"""

from __future__ import annotations

from collections.abc import Callable

from jobfeatures.batch.basics import Note, Texts
from jobfeatures.batch.gridengine.basics import (
    known,
    make_key,
    parse_job_id,
    parse_limit_bytes,
    parse_limit_secs,
)
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.records.model import Job, JobState, Limit, Limits, multiplied
from jobfeatures.records.nodelist import expand_nodes
from jobfeatures.records.quantities import parse_count

CONFIG = "active_jobs/config"
DEFAULT_ACCOUNT = "sge"  # the account of jobs submitted without -A


class Lines(Texts):
    """Parses the lines ``name=value`` of a file.

    A name that occurs with two different values has no value, and is reported to `note`.
    """

    def __init__(self, text: str, *, source: str, note: Note) -> None:
        values: dict[str, str] = {}
        self._doubled: set[str] = set()
        for line in text.split("\n"):
            name, equals, value = line.partition("=")
            if equals and values.setdefault(name, value) != value:
                self._doubled.add(name)
        super().__init__(values, note, source=source, nothing=())

    def text(self, *names: str) -> str | None:
        """Return the text of the first of `names` in the file; None if absent, or if there are two values."""
        doubled = next((name for name in names if name in self._doubled), None)
        if doubled is not None:
            self.reject(ParseError("occurs twice"), doubled, self.values[doubled])
            return None
        return next((self.values[name] for name in names if name in self.values), None)


def parse_spooled_job(
    name: str,
    config: str,
    *,
    environment: str = "",
    hosts: str = "",
    uid: int | None = None,
    start_secs: int | None = None,
    note: Note = lambda _: None,
) -> Job:
    """Return the job whose directory is called `name`, ``<job>.<task>``; its state is RUNNING.

    Sample of `config`, shortened: ``h_vmem=1g h_vmem_is_consumable_job=0 h_cpu=1800 h_rss=2G job_owner=alice
    pe=smp pe_slots=2 host_slots=2 queue=all.q job_name=par job_id=10 ja_task_id=0 account=sge
    submission_time=1795268001 acct_project=none``, one a line.

    `config`, `environment` and `hosts` are the contents of the files ``config``, ``environment`` and
    ``pe_hostfile``. Limits are those that the shepherd sets: the lower of the request and the queue's limit;
    INFINITY means none. `config` has neither the wall limit nor the start time: `start_secs` is when the
    daemon wrote the directory (epoch). Malformed or ambiguous values are reported to `note` and stay unknown.
    Raises ParseError if `name` is not a job's.
    """
    job_id = parse_job_id(name, config)
    if job_id is None:
        raise ParseError("not a job's directory", source=CONFIG, text=name)
    number, _, task = job_id.partition(".")
    source = f"{CONFIG} of {job_id}"
    lines = Lines(config, source=source, note=note)
    variables = Lines(environment, source=f"active_jobs/environment of {job_id}", note=note)
    granted: tuple[tuple[str, int], ...] = ()
    try:
        granted = parse_hosts(hosts)
    except ParseError as error:
        note(Rejected.from_error(error.at(source, field="pe_hostfile")))
    total = lines.read(_parse_slots, "pe_slots") or sum(slots for _, slots in granted) or None
    here = lines.read(_parse_slots, "host_slots")
    if here is None and len(granted) == 1:
        here = granted[0][1]
    return Job(
        key=make_key(number, task or None),
        state=JobState.RUNNING,
        name=known(lines.text("job_name")),
        user=known(lines.text("job_owner")),
        uid=uid,
        account=account_of(lines.text("acct_project"), lines.text("account")),
        partition=known(lines.text("queue")),
        submit_secs=lines.read(parse_timestamp, "submission_time"),
        start_secs=start_secs,
        nodes=tuple(host for host, _ in granted),
        total_nodes=len(granted) or None,
        total_cpus=total,
        allocated_cpus=here,
        limits=Limits(
            cpu_secs=_per_slot(lines, "h_cpu", parse_limit_secs, total), memory_bytes=_memory(lines, here)
        ),
        array_job_id=number if task else None,
        array_task_id=task or None,
        restarts=0 if variables.text("RESTARTED") == "0" else None,  # else restarted, but not how often
    )


def account_of(project: str | None, account: str | None) -> str | None:
    """Return a job's project, else its account unless that is "sge", the default."""
    return known(project) or (None if account == DEFAULT_ACCOUNT else known(account))


def parse_timestamp(text: str) -> int:
    """Parse a timestamp in seconds, milliseconds or microseconds to epoch seconds. Raises ParseError.

    Univa's and later Grid Engines write milliseconds or microseconds; seconds have ten digits until the year
    2286. Raises ParseError if it is not a number.
    """
    return scale_epoch(parse_count(text))[0]


def scale_epoch(stamp: int) -> tuple[int, int]:
    """Return a timestamp as whole seconds and microseconds; its magnitude shows its unit (s, ms or µs)."""
    for limit, unit in ((10**14, 10**6), (10**11, 10**3)):
        if stamp >= limit:
            return stamp // unit, stamp % unit * (10**6 // unit)
    return stamp, 0


def parse_hosts(text: str) -> tuple[tuple[str, int], ...]:
    """Return hosts and slots in ``pe_hostfile``: ``node1 2 all.q@node1 UNDEFINED``.

    Raises ParseError if a line is malformed.
    """
    granted: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if len(words) < 2:
            raise ParseError("line must be HOST SLOTS QUEUE", source="pe_hostfile", line=number, text=line)
        for host in expand_nodes(words[0]):
            granted[host] = granted.get(host, 0) + parse_count(words[1], field="slots")
    return tuple(granted.items())


def _parse_slots(text: str) -> int | None:
    return parse_count(text) or None


def _per_slot(lines: Lines, name: str, parse: Callable[[str], Limit], slots: int | None) -> Limit:
    """Return a limit multiplied by slots, unless the resource is consumed once per job."""
    limit = lines.read(parse, name)
    return limit if lines.text(f"{name}_is_consumable_job") == "1" else multiplied(limit, slots)


def _memory(lines: Lines, slots: int | None) -> Limit:
    """Return the resident memory limit, else the virtual one, which resident memory cannot exceed."""
    resident = lines.read(parse_limit_bytes, "h_rss")
    if isinstance(resident, int):
        return resident
    virtual = _per_slot(lines, "h_vmem", parse_limit_bytes, slots)
    return virtual if isinstance(virtual, int) or resident is not None else None
