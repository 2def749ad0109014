"""Reads ended jobs from what ``condor_history`` prints, and from history files as logs of jobs.

Manual: https://htcondor.readthedocs.io/en/latest/man-pages/condor_history.html. A history file contains ads
in long form, each followed by a line such as ``*** Offset = 0 ClusterId = 12 ProcId = 0 Owner = "alice"
CompletionDate = 1795246000``; ``condor_history`` prints this with ``-long``, and JSON with ``-json``. Sizes
are in MiB (MemoryUsage, RequestMemory) and KiB (ResidentSetSize), durations in seconds; the time of a future
event is 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from jobfeatures.batch.htcondor.evaluate import find_evaluator
from jobfeatures.batch.htcondor.fields import (
    KIB,
    MIB,
    NAME,
    AdReadingOptions,
    Evaluate,
    Fields,
    required_job_id,
)
from jobfeatures.batch.htcondor.jobad import (
    ENDED,
    common_fields,
    end_of,
    had_one_machine,
    host_of,
    machine_secs_of,
    restarts_of,
    slots_of,
    state_of,
    wall_limit,
)
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.classad.ad import ClassAd, Value
from jobfeatures.formats.classad.jsonform import read_json_ads
from jobfeatures.formats.classad.longform import NOT_OF_A_JOB, read_long_ads
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.joblogs.nottaken import TrackingDict, count_not_taken, count_unreadable
from jobfeatures.records.model import JobState

HISTORY_SOURCE = "condor_history"
HISTORY_ATTRIBUTES = (
    *("ClusterId", "ProcId", "GlobalJobId", "JobStatus", "JobUniverse", "Owner", "AcctGroup"),
    *("AccountingGroup", "Cmd", "JobBatchName", "JobPrio", "QDate", "JobStartDate", "JobCurrentStartDate"),
    *("CompletionDate", "EnteredCurrentStatus", "ExitBySignal", "ExitCode", "ExitSignal"),
    *("JobSuccessExitCode", "RemoteHost", "LastRemoteHost"),
    *("MaxHosts", "RequestCpus", "CpusProvisioned", "RequestMemory", "RequestGPUs", "GPUsProvisioned"),
    *("AllowedJobDuration", "AllowedExecuteDuration", "NumJobStarts", "NumShadowStarts", "TotalSubmitProcs"),
    *("DAGManJobId", "CumulativeSuspensionTime", "TotalSuspensions", "RemoteUserCpu", "RemoteSysCpu"),
    *("ResidentSetSize", "ResidentSetSize_RAW", "MemoryUsage", "RemoteWallClockTime"),
    *("LastRemoteWallClockTime", "LastJobStatus", "CommittedSuspensionTime"),
)
# A job whose state or times cannot be read is rejected; any other value may be unknown.
NEEDED = frozenset({"JobStatus", "QDate", "JobStartDate", "JobCurrentStartDate", "CompletionDate"})

_NAMES = r"(?:ClusterId|GlobalJobId|JobStatus|ProcId|QDate)"
_LONG = re.compile(rf"^{_NAMES} ?= ?[^\s=?!]", re.MULTILINE)
_TEXT = r'"(?:[^"\\]|\\.)*+"'
_NESTED = rf'\{{(?:{_TEXT}|[^"{{}}]++)*+\}}'  # such as ToE
_JSON = re.compile(rf'\A[\s\[]*\{{(?>(?!"{_NAMES}"\s*:)(?:{_TEXT}|[^"{{}}]++|{_NESTED}))*+"{_NAMES}"\s*:')
_JSON_HEAD = re.compile(r'\A[\s\[]*\{\s*"[A-Za-z_][A-Za-z0-9_]*"\s*:')


def recognise(head: str) -> bool:
    """Return whether a text that begins with `head` contains job ads, in long form or JSON."""
    if _JSON_HEAD.match(head):
        return _JSON.match(head) is not None
    return _LONG.search(head) is not None and not head.lstrip().startswith(("{", "[", "<"))


def read_records(lines: Iterable[str], *, source: str, notes: Notes) -> Iterator[JobRecord | Rejected]:
    """Yield the jobs of a history file, or of what ``condor_history -long`` or ``-json`` printed.

    A malformed ad is yielded as Rejected. `source` names the log in errors; `notes` counts unreadable values.
    """
    evaluate = find_evaluator()
    for each in read_ads(lines, source=source):
        yield each if isinstance(each, Rejected) else _record_or_fault(each, source, evaluate, notes)


def _record_or_fault(
    reported: ClassAd, source: str, evaluate: Evaluate | None, notes: Notes
) -> JobRecord | Rejected:
    faults: list[Rejected] = []
    values = TrackingDict[Value](reported.values)
    job = Fields(ClassAd(values), source, AdReadingOptions(faults.append, evaluate))
    try:
        record = parse_record(job)
    except ParseError as error:
        return Rejected.from_error(error)
    if (fault := count_unreadable(faults, NEEDED, notes)) is not None:
        return fault
    count_not_taken(notes, values)
    notes.not_taken.update(f"{name}: expression without a value" for name in job.without_value)
    return record


def read_ads(lines: Iterable[str], *, source: str) -> Iterator[ClassAd | Rejected]:
    """Yield the ads of a text in long form or JSON, as its first character shows; bad ones as Rejected."""
    rest = iter(lines)
    first = next((line for line in rest if line.strip()), "")
    again = chain([first], rest)
    begin = first.lstrip()[:1]
    if begin and begin in "[{":
        return read_json_ads(again, source=source)
    return read_long_ads(again, source=source)


def parse_record(job: Fields) -> JobRecord:
    """Return the record of a job from its ad. Raises ParseError without a job id, and for an ad of one run.

    If a job ran several times, its start, CPUs and CPU time are those of its last run; for a pending job they
    are None. An ad of one run, with the attribute EpochWriteDate, is from HTCondor's epoch history.
    """
    job_id = required_job_id(job.ad, source=job.source)
    if job.has("EpochWriteDate"):
        raise ParseError(NOT_OF_A_JOB, source=job.source, field="EpochWriteDate")
    state = state_of(job)
    by_signal, starts = job.flag("ExitBySignal"), job.count("NumJobStarts")
    ended = job.whole("JobStatus") == ENDED
    nodes = slots_of(job)
    user_secs, system_secs = job.seconds("RemoteUserCpu"), job.seconds("RemoteSysCpu")
    # When the last run began; JobStartDate is the start of the first.
    start = job.epoch("JobCurrentStartDate") or (job.epoch("JobStartDate") if had_one_machine(job) else None)
    host = host_of(job.text("LastRemoteHost") or job.text("RemoteHost"))
    run_secs, suspended = _run_and_suspension(job, starts, ended=ended)
    if state is JobState.PENDING:
        start = run_secs = user_secs = system_secs = None
        host = ()
    elif state.is_on_node:  # HTCondor adds a run when it has ended: this is what earlier ones took
        run_secs = None

    def of_all(amount: int | None) -> int | None:
        return None if amount is None or nodes is None else amount * nodes

    return JobRecord(
        **common_fields(job),
        batch_system=NAME,
        job_id=job_id,
        state=state,
        executable=job.text("Cmd"),
        start_secs=start,
        end_secs=end_of(job, state),
        suspended_secs=suspended,
        restarts=restarts_of(job, state),
        exit_status=job.whole("ExitCode") if ended and not by_signal else None,
        exit_signal=job.integer("ExitSignal") if ended and by_signal else None,
        nodes=host,
        total_nodes=nodes if start is not None else None,
        total_cpus=of_all(job.count("CpusProvisioned")) if start is not None else None,
        total_gpus=of_all(job.count("GPUsProvisioned")) if start is not None else None,
        requested_nodes=nodes,
        requested_cpus=of_all(job.count("RequestCpus")),
        requested_gpus=of_all(job.count("RequestGPUs")),
        requested_memory_bytes=of_all(job.count("RequestMemory", MIB)),
        wall_limit_secs=wall_limit(job),
        run_secs=run_secs,
        used_cpu_secs=None if user_secs is None or system_secs is None else user_secs + system_secs,
        user_cpu_secs=user_secs,
        system_cpu_secs=system_secs,
        used_memory_bytes=used_memory(job),
        workflow_id=None if (dag := job.count("DAGManJobId")) is None else str(dag),
    )


def _run_and_suspension(
    job: Fields, starts: int | None, *, ended: bool
) -> tuple[int | float | None, int | float | None]:
    """Return the seconds that a job ran in its last run, and those that it was suspended in it, if known."""
    of_all_runs = job.seconds("CumulativeSuspensionTime")
    if not of_all_runs and job.count("TotalSuspensions"):
        return None, None  # it is added when the job goes on: here a hold came first
    machine_secs, suspended = machine_secs_of(job), of_all_runs
    if of_all_runs and starts != 1:  # committed is what an eviction did not undo: that of the last run
        suspended = job.seconds("CommittedSuspensionTime") if ended else None
        if suspended is None:
            return None, None
    if machine_secs is None or not suspended:
        return machine_secs, suspended
    return (machine_secs - suspended, suspended) if suspended <= machine_secs else (None, None)


def used_memory(job: Fields) -> int | None:
    """Return the most memory that was measured for a job, in bytes; None if nothing was measured.

    ResidentSetSize is preferred to MemoryUsage, which is rounded or an expression of other attributes.
    """
    for name, unit in (("ResidentSetSize_RAW", KIB), ("ResidentSetSize", KIB), ("MemoryUsage", MIB)):
        if size := job.count(name, unit):  # 0 is what stands there before the first measurement
            return size
    return None
