"""Reads lsb.acct, LSF 10.1's accounting file: one record per line, JOB_FINISH for an ended job. Pure.

Source: https://www.ibm.com/docs/en/SSWRJV_10.1.0/lsf_config_ref/lsb.acct.5.html. Fields are separated by
blanks; strings are in double quotes, doubled inside. Lists are preceded by their length, so the position of a
field depends on the fields before it. Fields that newer versions append are ignored. Records of versions
before 10 are read up to the memory usage, as their fields are the same up to there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from jobfeatures.batch.basics import parse_epoch
from jobfeatures.batch.lsf.basics import NAME, parse_host_slots
from jobfeatures.batch.lsf.values import ENDS_BY_NUMBER
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.joblogs.nottaken import holds_information
from jobfeatures.records.model import JobState

KIB: Final = 1024
MAX_LINE_CHARACTERS: Final = 2**20
MAX_LIST: Final = 1_000_000
EXIT, DONE = 32, 64  # jStatus
JOB_FINISH: Final = "JOB_FINISH"
# Also in lsb.acct: ended reservations, and jobs whose allocation grew or shrank.
OTHER_RECORDS: Final = frozenset({"EVENT_ADRSV_FINISH", "JOB_RESIZE"})
USAGE_FIELDS: Final = 19  # of lsfRusage, from user time to exact user time

_HEAD = re.compile(r'\s*"(?:JOB_FINISH|EVENT_ADRSV_FINISH|JOB_RESIZE)" "[0-9]{1,3}(?:\.[0-9]{1,6})?" [0-9]')
_FIELD = re.compile(r'"([^"]*+(?:""[^"]*+)*+)"|([^\s"]++)')
_LINE = re.compile(r'(?:[ \t]*+(?:"[^"]*+(?:""[^"]*+)*+"|[^\s"]++)(?=[ \t]|\Z))*+[ \t]*+')
_WHOLE = re.compile(r"-?[0-9]{1,18}\Z")
_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,12})?\Z")
_VERSION = re.compile(r"([0-9]{1,3})(?:\.[0-9]{1,6})?\Z")


def recognise(head: str) -> bool:
    """Return whether `head`, the beginning of a log, is that of lsb.acct, by the type of its first record."""
    return _HEAD.match(head) is not None


def read_records(lines: Iterable[str], *, source: str, notes: Notes) -> Iterator[JobRecord | Rejected]:
    """Yield the jobs of a file in the order of its lines, and a Rejected for each malformed line.

    `source` names the file in errors; `notes` counts values that could not be read.
    """
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            yield from parse_line(text, notes=notes)
        except ParseError as error:
            yield Rejected.from_error(error.at(source, number))


def split_fields(text: str) -> list[tuple[str, bool]]:
    """Return the fields of a line, each with whether it was quoted. Raises ParseError if malformed."""
    if len(text) > MAX_LINE_CHARACTERS:
        raise ParseError(f"line is longer than {MAX_LINE_CHARACTERS} characters", text=text)
    whole = _LINE.match(text)
    if whole is None or whole.end() != len(text):
        raise ParseError("quotation marks are not balanced", text=text[whole.end() if whole else 0 :])
    return [
        (word, False) if word else (quoted.replace('""', '"') if '""' in quoted else quoted, True)
        for quoted, word in _FIELD.findall(text)
    ]


class _Fields:
    def __init__(self, fields: list[tuple[str, bool]]) -> None:
        self._fields = fields
        self.position = 0
        self.passed_over: list[str] = []  # names of skipped fields with a value
        self.unread: list[tuple[str, str]] = []  # names and texts of unreadable numbers

    def _take(self, name: str) -> tuple[str, bool]:
        if self.position >= len(self._fields):
            raise ParseError("the record ends before this field", field=name)
        self.position += 1
        return self._fields[self.position - 1]

    def text(self, name: str) -> str:
        value, _ = self._take(name)
        return value

    def whole(self, name: str) -> int:
        value, quoted = self._take(name)
        if quoted or not _WHOLE.match(value):
            raise ParseError("not a whole number", field=name, text=value)
        return int(value)

    def number(self, name: str) -> float:
        """Return the next field, an optional number; -1, as LSF writes for none, if it is unreadable."""
        value, quoted = self._take(name)
        if quoted:  # a text: the record has another layout
            raise ParseError("not a number", field=name, text=value)
        if not _NUMBER.match(value):
            self.unread.append((name, value))
            return -1
        return float(value)

    def optional(self, name: str) -> int:
        """Return the next field, an optional whole number; -1, LSF's word for none, if it is unreadable."""
        value = self.number(name)
        if value != int(value):
            self.unread.append((name, str(value)))
            return -1
        return int(value)

    def epoch(self, name: str) -> int:
        """Return the next field, a time in epoch seconds; 0 and -1 mean none."""
        value = self.whole(name)
        return value if value < 0 else parse_epoch(str(value), field=name)

    def skip(self, names: str, times: int = 1) -> None:
        """Skip the fields with these names, the whole `times` times."""
        for each in names.split(" ") * times:
            if holds_information(self._take(each)[0].removeprefix("-1")):
                self.passed_over.append(each)

    def count(self, name: str) -> int:
        value = self.whole(name)
        if not 0 <= value <= MAX_LIST:
            raise ParseError("not a count", field=name, text=str(value))
        return value

    def texts(self, name: str) -> list[str]:
        """Return the next fields, the texts of a list, which are preceded by their number."""
        return [self.text(name) for _ in range(self.count(name))]

    def are_limits(self) -> bool:
        """Return whether runLimit, options3, avgMem (whole numbers) and effectiveResReq (text) may follow."""
        ahead = self._fields[self.position : self.position + 4]
        are_whole = all(not quoted and _WHOLE.match(value) for value, quoted in ahead[:3])
        return len(ahead) == 4 and are_whole and ahead[3][1]


def parse_line(text: str, *, notes: Notes) -> Iterable[JobRecord]:
    """Return the job of one line, or the tasks of an array that ended while it waited.

    Sample, shortened: ``"JOB_FINISH" "10.1" 1795264361 123 6001 33554435 6 1795264200 0 0 1795264260 "alice"
    "normal" … 0 2 "4*n1" "2*n2" 64 60.0 "ok" "sleep 100" 0.5 0.1 … 0 2048 0 …``. `notes` counts values that
    could not be read. Raises ParseError if the line is malformed.
    """
    fields = _Fields(split_fields(text))
    kind = fields.text("event type")
    if kind != JOB_FINISH:
        if kind in OTHER_RECORDS:
            notes.not_taken[f"record {kind}"] += 1
            return ()
        raise ParseError("line is not a record of lsb.acct", text=text)
    version = _VERSION.match(fields.text("version"))
    if version is None:
        raise ParseError("not a version", field="version", text=text)
    ended, number, uid = fields.epoch("event time"), fields.whole("jobId"), fields.optional("userId")
    fields.skip("options")
    requested, submitted = fields.optional("numProcessors"), fields.epoch("submitTime")
    eligible = fields.optional("beginTime")
    fields.skip("termTime")
    started = fields.epoch("startTime")
    user, queue = fields.text("userName"), fields.text("queue")
    fields.skip("resReq dependCond preExecCmd fromHost cwd inFile outFile errFile jobFile")
    fields.texts("askedHosts")
    exec_slots = parse_host_slots(fields.texts("execHosts"), field="execHosts")
    status = fields.whole("jStatus")
    fields.number("hostFactor")
    name = fields.text("jobName")
    fields.skip("command")
    user_secs, system_secs = fields.number("ru_utime"), fields.number("ru_stime")
    fields.skip("lsfRusage", USAGE_FIELDS - 2)
    fields.skip("mailUser")
    project = fields.text("projectName")
    exit_status = fields.optional("exitStatus")
    fields.skip("maxNumProcessors loginShell timeEvent")
    index = fields.whole("idx")
    memory_kib = fields.optional("maxRMem")
    tail = _tail(fields, is_unsplit=index < 0) if int(version[1]) >= 10 else _Tail()
    if number <= 0:
        raise ParseError("not a job id", field="jobId", text=str(number))
    if index < 0 and not tail.tasks:
        raise ParseError("job has an array index, but no ranges of tasks", field="idx", text=str(index))
    notes.not_taken.update(fields.passed_over)
    for unread, word in fields.unread:
        notes.count_unread(unread, word)
    has_started = started > 0
    signal = exit_status & 0x7F if exit_status > 0 else 0  # exitStatus is a status of wait(2)
    slots = tail.slots or exec_slots
    record = JobRecord(
        batch_system=NAME,
        job_id=str(number),
        state=_state(status, tail.exit_info, has_started),
        name=name or None,
        user=user or None,
        uid=uid if uid >= 0 else None,
        account=project or None,
        queue=queue or None,
        reservation=tail.reservation or None,
        submit_secs=submitted or None,
        eligible_secs=eligible if eligible > 0 else None,
        start_secs=started if has_started else None,
        end_secs=ended,
        run_secs=tail.run_secs if has_started and (tail.run_secs or 0) > 0 else None,
        suspended_secs=_suspended(tail.run_secs, started, ended) if has_started else None,
        exit_status=None if signal or exit_status < 0 else (exit_status >> 8) & 0xFF,
        exit_signal=signal or None,
        nodes=tuple(slots),
        total_nodes=len(slots) or None,
        total_cpus=sum(slots.values()) or None,
        requested_cpus=requested if requested > 0 else None,
        wall_limit_secs=tail.run_limit,
        used_cpu_secs=None if user_secs < 0 or system_secs < 0 else round(user_secs + system_secs, 6),
        user_cpu_secs=None if user_secs < 0 else user_secs,
        system_cpu_secs=None if system_secs < 0 else system_secs,
        used_memory_bytes=memory_kib * KIB if memory_kib > 0 else None,
    )
    tasks = [index] if index > 0 else chain.from_iterable(tail.tasks if index < 0 else ())
    return [record] if index == 0 else (_task_of(record, task) for task in tasks)


def _task_of(record: JobRecord, task: int) -> JobRecord:
    return replace(
        record, job_id=f"{record.job_id}[{task}]", array_job_id=record.job_id, array_task_id=str(task)
    )


class _Tail:
    """The fields after the memory usage, which are only read for version 10."""

    reservation = ""
    exit_info = 0
    run_limit: int | None = None
    run_secs: int | None = None
    slots: Mapping[str, int] = {}
    tasks: Sequence[range] = ()  # of an array that was never split, where the index is -1


def _tail(fields: _Fields, *, is_unsplit: bool) -> _Tail:
    tail = _Tail()
    fields.skip("maxRSwap inFileSpool commandSpool")
    tail.reservation = fields.text("rsvId")
    fields.skip("sla exceptMask additionalInfo")
    tail.exit_info = fields.optional("exitInfo")
    fields.skip("warningAction warningTimePeriod")
    fields.skip("chargedSAAP licenseProject app postExecCmd runtimeEstimation")
    fields.skip("jobGroupName requeueEvalues options2 resizeNotifyCmd lastResizeTime")
    tail.reservation = fields.text("rsvId") or tail.reservation  # names of more than 120 characters
    fields.skip("jobDescription")
    fields.skip("submitEXT", 2 * fields.count("submitEXT"))
    _skip_host_usage(fields)
    # The manual lists options3 before runLimit. Published records have the reverse order: 43200 0
    # for a job with bsub -W 12:00, -1 and a power of two for jobs that asked for no limit.
    run_limit = fields.optional("runLimit")
    tail.run_limit = run_limit if run_limit > 0 else None
    fields.skip("options3 avgMem effectiveResReq srcCluster srcJobId dstCluster dstJobId")
    fields.skip("forwardTime flow_id acJobWaitTime totalProvisionTime outdir")
    tail.run_secs = fields.optional("runTime")
    fields.skip("subcwd")
    fields.skip("networkAlloc", 2 * fields.count("num_network"))
    fields.skip("affinity serial_job_energy cpi gips gbs gflops")
    tail.slots = parse_host_slots(fields.texts("allocSlots"), field="allocSlots")
    if is_unsplit:
        fields.skip("ineligiblePendingTime")
        tail.tasks = [_range(fields) for _ in range(fields.count("indexRangeCnt"))]
        if sum(map(len, tail.tasks)) > MAX_LIST:
            raise ParseError(f"more than {MAX_LIST} tasks", field="indexRangeCnt", text="")
    return tail


def _range(fields: _Fields) -> range:
    first, last, step = (fields.whole(f"indexRange{name}") for name in ("Start", "End", "Step"))
    if not (0 < first <= last < 2**31 and step > 0):
        raise ParseError("not a valid range of tasks", field="indexRangeStart", text=f"{first}-{last}:{step}")
    return range(first, last + 1, step)


def _skip_host_usage(fields: _Fields) -> None:
    """Skip the usage of each host: name, memory, swap, user and system time.

    In published records each host also has a list of pairs, preceded by its
    length, that the manual lacks. The layout is chosen that leads to three integers
    and a string (runLimit, options3, avgMem, effectiveResReq).
    """
    count = fields.count("numHostRusage")
    start = fields.position
    for has_pairs in (True, False):
        fields.position = start
        try:
            for _ in range(count):
                fields.skip("hostRusage")
                for _ in range(4):
                    fields.whole("hostRusage")
                if has_pairs:
                    fields.skip("hostRusage", 2 * fields.count("hostRusage"))
        except ParseError:
            continue
        if fields.are_limits():
            return
    raise ParseError("the number of fields for each host is wrong", field="hostRusage")


def _state(status: int, exit_info: int, has_started: bool) -> JobState:
    if status == DONE:
        return JobState.COMPLETED
    if status != EXIT:
        return JobState.UNKNOWN
    if exit_info in ENDS_BY_NUMBER:
        return ENDS_BY_NUMBER[exit_info]
    return JobState.FAILED if has_started else JobState.CANCELLED


def _suspended(run_secs: int | None, started: int, ended: int) -> int | None:
    """Return for how many seconds a started job was suspended; None if it was not, or is unknown."""
    if not run_secs or run_secs < 0:
        return None
    return max(0, ended - started - run_secs) or None
