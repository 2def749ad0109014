"""Second readers of accounting, from the formats' documentation alone: no code of the project's own readers."""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Callable, Mapping
from typing import Any

from jobfeatures.records.model import UNLIMITED, JobState
from tests.jobfeatures.mutated.lines import BadError, Fields

PartialReport = Mapping[str, Callable[[Fields], Any]]
LATEST = 2**40  # epoch seconds from here on are milliseconds


def of(
    name: str, convert: Callable[[str], Any] = str, unknown: tuple[Any, ...] = ("", None)
) -> Callable[[Fields], Any]:
    """Return a reader of one field that is absent where it has a value of `unknown`."""

    def read(values: Fields) -> Any:
        return None if values.get(name) in unknown else convert(values[name])

    return read


def whole(text: Any) -> int:
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,18}", text):
        raise BadError
    return int(text)


def positive(text: Any) -> int | None:
    return whole(text) or None


def epoch(text: Any) -> int | None:
    if whole(text) >= LATEST:
        raise BadError
    return whole(text) or None


def number(text: Any) -> float:
    if isinstance(text, str) and not re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})?", text):
        raise BadError
    return float(text)


def _job_id(text: str) -> str:
    if not re.fullmatch("[1-9][0-9]{0,9}", text):
        raise BadError
    return text


def iso(text: str) -> int:
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", text):
        raise BadError
    return timegm(tuple(int(part) for part in re.split("[-T:]", text)))


def clock(text: str) -> float:
    """``[days-][[hours:]minutes:]seconds``, as sacct(1) and PBS write durations."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d+)?)", text, re.ASCII)
    if match is None:
        raise BadError
    days, hours, minutes, seconds = match.groups(default="0")
    return int(days) * 86400 + int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def whole_clock(text: str) -> int:
    return int(clock(text))


# ---------------------------------------------------------------- Grid Engine: accounting(5), sge_status(5)


def _any_unit(text: Any) -> float | None:
    """accounting(5) of Univa Grid Engine: times in milliseconds; sge_accounting(5): in microseconds."""
    stamp = whole(text)
    return (stamp if stamp < 10**11 else stamp / 1000 if stamp < 10**14 else stamp / 10**6) or None


_NONE = ("", "NONE", "none", None)


def _grid_engine_state(values: Fields) -> JobState | None:
    failed = whole(values["failed"]) if values["failed"] else None
    try:
        status = whole(values["exit_status"])
    except BadError:  # an unreadable one says no more than none
        status = None
    if failed in {24, 25}:
        return JobState.PREEMPTED
    if failed in {19, 21}:
        return JobState.NODE_FAIL
    if not failed and status is None:
        return JobState.UNKNOWN
    return JobState.COMPLETED if not failed and status == 0 else JobState.FAILED


def _specified(text: str) -> int:
    """sge_types(5), time_specifier: a number, or three of which each may be empty."""
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return int(float(text))
    if not re.fullmatch("[0-9]*:[0-9]*:[0-9]+", text):
        raise BadError
    hours, minutes, seconds = (int(part or 0) for part in text.split(":"))
    return hours * 3600 + minutes * 60 + seconds


def _grid_engine_limit(values: Fields) -> int | None:
    category = values["category"].replace("\ufffd", ":")
    found = [_specified(text) for text in re.findall(r"[hs]_rt=([^, ]*)", category) if text]
    return min(found, default=None)


def _grid_engine_id(values: Fields) -> str:
    task = of("task_number", positive)(values)
    return _job_id(values["job_number"]) + (f".{task}" if task else "")


def _grid_engine_run_secs(values: Fields) -> Any:
    ran = of("ru_wallclock", number)(values)
    times = of("start_time", _any_unit)(values), of("end_time", _any_unit)(values)
    return None if ran == 0 and all(times) and times[1] - times[0] > 1 else ran


GRID_ENGINE: PartialReport = {
    "job_id": _grid_engine_id,
    "queue": of("qname", unknown=_NONE),
    "nodes": lambda values: (values["hostname"],) if values["hostname"] not in _NONE else (),
    "group": of("group", unknown=_NONE),
    "account": lambda values: (
        of("project", unknown=_NONE)(values) or of("account", unknown=("sge", *_NONE))(values)
    ),
    "user": of("owner", unknown=_NONE),
    "name": of("job_name"),
    "submit_secs": of("submission_time", _any_unit),
    "start_secs": of("start_time", _any_unit),
    "end_secs": of("end_time", _any_unit),
    "exit_status": of("exit_status", whole),
    "run_secs": _grid_engine_run_secs,
    "user_cpu_secs": of("ru_utime", number),
    "system_cpu_secs": of("ru_stime", number),
    "used_cpu_secs": of("cpu", number),
    "used_memory_bytes": of("ru_maxrss", lambda text: int(number(text) * 1024) or None),
    "total_cpus": of("slots", positive),
    "requested_cpus": of("slots", positive),
    "wall_limit_secs": _grid_engine_limit,
    "state": _grid_engine_state,
    "step": of("pe_taskid", unknown=_NONE),
    "reservation": of("arid", unknown=("", "0", None)),
}
GRID_ENGINE_FIELDS: tuple[str, ...] = (
    *(
        "qname",
        "hostname",
        "group",
        "owner",
        "job_name",
        "job_number",
        "account",
        "priority",
        "submission_time",
    ),
    *("start_time", "end_time", "failed", "exit_status", "ru_wallclock", "ru_utime", "ru_stime", "ru_maxrss"),
    *("ru_ixrss", "ru_ismrss", "ru_idrss", "ru_isrss", "ru_minflt", "ru_majflt", "ru_nswap", "ru_inblock"),
    *(
        "ru_oublock",
        "ru_msgsnd",
        "ru_msgrcv",
        "ru_nsignals",
        "ru_nvcsw",
        "ru_nivcsw",
        "project",
        "department",
    ),
    *("granted_pe", "slots", "task_number", "cpu", "mem", "io", "category", "iow", "pe_taskid", "maxvmem"),
    *("arid", "ar_sub_time"),
)


# ---------------------------------------------------------------- Slurm: sacct(1)

_UNKNOWN = ("", "Unknown", "None", "NONE", "N/A", "(null)", None)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


def binary(text: str, bare: str = "") -> int:
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([KMGTP]?)", text)
    if match is None:
        raise BadError
    return int(float(match[1]) * 1024 ** _POWERS[match[2] or bare])


def _requested_memory(values: Fields) -> int | None:
    text = values["ReqMem"]
    if text in _UNKNOWN:
        return _of_list("ReqTRES", "mem", binary)(values) if "ReqTRES" in values else None
    count = {"n": values["NNodes"], "c": values["ReqCPUS"]}.get(text[-1])
    return binary(text.rstrip("nc") if count else text, "M") * (whole(count) if count else 1)


def _of_list(name: str, wanted: str, convert: Callable[[str], Any]) -> Callable[[Fields], Any]:
    """``billing=2,cpu=2,mem=200M,node=1``."""

    def read(values: Fields) -> Any:
        pairs = [part.partition("=") for part in values[name].split(",") if part]
        if any(not mark or not key for key, mark, _ in pairs):
            raise BadError
        return next((convert(text) for key, _, text in pairs if key == wanted), None)

    return read


_SACCT_STATES = {
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "TIMEOUT",
    "RUNNING",
    "PENDING",
    "NODE_FAIL",
    "PREEMPTED",
}


def _sacct_state(values: Fields) -> JobState:
    word = values["State"].split(" ")[0].rstrip("+")
    if not re.fullmatch("[A-Z_]+", word):
        raise BadError
    return JobState[word] if word in _SACCT_STATES else JobState.UNKNOWN


def _exit_code(place: int) -> Callable[[str], int | None]:
    def read(text: str) -> int | None:
        match = re.fullmatch("([0-9]{1,10}):([0-9]{1,10})", text)
        if match is None:
            raise BadError
        status, signal = int(match[1]), int(match[2])
        return (signal or None) if place else (status or None) if signal else status

    return read


def _time(text: str) -> int | None:
    return epoch(text) if text.isdigit() else iso(text)


def _nodes(text: str) -> tuple[str, ...]:
    if not re.fullmatch("[A-Za-z0-9._-]+", text):
        raise BadError
    return (text,)


def _sacct_end(values: Fields) -> int | None:
    start, elapsed = of("Start", _time, _UNKNOWN)(values), of("ElapsedRaw", whole, _UNKNOWN)(values)
    end = of("End", _time, _UNKNOWN)(values)
    return start + elapsed if end is None and start is not None and elapsed is not None else end


def _or(one: Callable[[Fields], Any], other: Callable[[Fields], Any]) -> Callable[[Fields], Any]:
    return lambda values: other(values) if (found := one(values)) is None else found


SACCT: PartialReport = {
    "job_id": lambda values: _job_id(values["JobIDRaw"].partition(".")[0]),
    "step": lambda values: values["JobIDRaw"].partition(".")[2] or None,
    "array_job_id": lambda values: _job_id(values["JobID"].partition(".")[0]) and None,
    "user": of("User", unknown=_UNKNOWN),
    "uid": of("UID", whole, _UNKNOWN),
    "group": of("Group", unknown=_UNKNOWN),
    "account": of("Account", unknown=_UNKNOWN),
    "partition": of("Partition", unknown=_UNKNOWN),
    "name": lambda values: values["JobName"],
    "state": _sacct_state,
    "submit_secs": of("Submit", _time, _UNKNOWN),
    "eligible_secs": of("Eligible", _time, _UNKNOWN),
    "start_secs": of("Start", _time, _UNKNOWN),
    "end_secs": _sacct_end,
    "run_secs": of("ElapsedRaw", whole, _UNKNOWN),
    "exit_status": lambda values: (
        status
        if (status := of("ExitCode", _exit_code(0), _UNKNOWN)(values)) or values["State"] != "FAILED"
        else None
    ),
    "exit_signal": of("ExitCode", _exit_code(1), _UNKNOWN),
    "total_cpus": _or(of("AllocCPUS", binary, _UNKNOWN), _of_list("AllocTRES", "cpu", whole)),
    "requested_cpus": of("ReqCPUS", binary, _UNKNOWN),
    "total_nodes": _or(of("NNodes", binary, _UNKNOWN), _of_list("AllocTRES", "node", whole)),
    "requested_memory_bytes": _requested_memory,
    "wall_limit_secs": of(
        "TimelimitRaw", lambda text: UNLIMITED if text == "UNLIMITED" else whole(text) * 60, _UNKNOWN
    ),
    "used_cpu_secs": of("TotalCPU", clock, _UNKNOWN),
    "nodes": lambda values: () if values["NodeList"] in _UNKNOWN else _nodes(values["NodeList"]),
}


# ---------------------------------------------------------------- PBS and Torque: "Accounting Log", "Accounting records"


def _pbs_size(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15})([kmgtp]?)b", text, re.IGNORECASE)
    if match is None and re.fullmatch("[0-9]{1,15}", text):
        return int(text)
    if match is None:
        raise BadError
    return int(match[1]) * 1024 ** _POWERS[match[2].upper()]


def _pbs_exit(values: Fields) -> int | None:
    text = values.get("Exit_status")
    if text in ("", None):
        return None
    if not re.fullmatch("-?[0-9]{1,18}", text):
        raise BadError
    return int(text)


def _pbs_state(values: Fields) -> JobState:
    status = _pbs_exit(values)
    if status is None:
        return JobState.UNKNOWN
    ran, limit = (
        of(name, whole_clock)(values) for name in ("resources_used.walltime", "Resource_List.walltime")
    )
    if status in {265, 271} and ran and limit and ran >= limit:
        return JobState.TIMEOUT
    return JobState.COMPLETED if status == 0 else JobState.FAILED


def _stamp(values: Fields) -> int:
    match = re.fullmatch("([0-9]{2})/([0-9]{2})/([0-9]{4}) ([0-9:]{8})", values.get("stamp", ""))
    if match is None:
        raise BadError
    return iso(f"{match[3]}-{match[1]}-{match[2]}T{match[4]}")


_pbs_used = of("resources_used.ncpus", whole)


def _pbs_requested(values: Fields) -> int | None:
    """``nodes=2:ppn=4+n7:ppn=1+3``, a node without ppn having one CPU; without nodes, ncpus."""
    nodes = (values.get("Resource_List.nodes") or "").partition(" ")[0]  # a blank ends a value
    if not nodes:
        return of("Resource_List.ncpus", whole)(values)
    total = 0
    for part in nodes.split("+"):
        match = re.fullmatch(r"([0-9]{1,7}|[A-Za-z][\w.-]*)((?::[\w.#-]+(?:=[\w.,#-]+)?)*)", part)
        if match is None:
            raise BadError
        per_node = re.findall(":ppn=([0-9]{1,7})(?=:|$)", match[2])
        if len(per_node) != match[2].count("ppn="):
            raise BadError
        total += int((per_node or ["1"])[0]) * (int(match[1]) if match[1].isdigit() else 1)
    return total


def _pbs_shares(values: Fields) -> dict[str, tuple[int, int | None]]:
    """CPUs and GPUs by host: ``exec_vnode`` tells both, ``exec_host`` numbers of CPUs or of slots."""
    found: dict[str, tuple[int, int | None]] = {}

    def add(host: str, cpus: int, gpus: int | None) -> None:
        before = found.get(host, (0, None))
        found[host] = before[0] + cpus, gpus if before[1] is None else before[1] + (gpus or 0)

    vnodes, hosts = values.get("exec_vnode") or "", values.get("exec_host") or ""
    for part in hosts.split("+") if hosts else ():
        match = re.fullmatch(r"([A-Za-z0-9._-]+)/(?:([0-9]+)\*([0-9]{1,6})|([0-9,-]+))", part)
        if match is None:
            raise BadError
        add(match[1], int(match[3]) if match[3] else _slots(match[4]), None)
    if not vnodes or (hosts and hosts.count("+") != vnodes.count("+")):
        return found
    found.clear()
    for part in vnodes.split("+"):
        match = re.fullmatch(r"\(([A-Za-z0-9._-]+)((?::[^:=+()]+=[^:+()]*)*)\)", part)
        if match is None:
            raise BadError
        amounts = dict(each.split("=", 1) for each in match[2].split(":") if each)
        add(match[1], int(amounts.get("ncpus", 0)), int(amounts["ngpus"]) if "ngpus" in amounts else None)
    return found


def _slots(text: str) -> int:
    total = 0
    for part in text.split(","):
        match = re.fullmatch("([0-9]+)(?:-([0-9]+))?", part)
        if match is None:
            raise BadError
        total += int(match[2] or match[1]) - int(match[1]) + 1
    return total


def _pbs_secs(name: str) -> Callable[[Fields], Any]:
    def read(values: Fields) -> Any:
        secs = of(name, whole_clock)(values)
        start, end = PBS["start_secs"](values), PBS["end_secs"](values)
        span = None if None in {start, end} else end - start
        ran = of("resources_used.walltime", whole_clock)(values)
        if span is None or ran is None:
            return secs
        is_scaled = "end" in values and ran > span * 1.05 + 60
        return None if is_scaled or (ran == 0 and span > 1 and not secs) else secs

    return read


PBS: PartialReport = {
    "user": of("user"),
    "group": of("group"),
    "account": of("account"),
    "name": of("jobname"),
    "queue": of("queue"),
    "submit_secs": lambda values: of("ctime", epoch)(values) or of("qtime", epoch)(values),
    "eligible_secs": of("etime", epoch),
    "start_secs": of("start", epoch),
    "end_secs": lambda values: (stamp := _stamp(values)) and (of("end", epoch)(values) or stamp),
    "restarts": of("run_count", lambda text: max(0, whole(text) - 1)),
    "requested_cpus": _pbs_requested,
    "nodes": lambda values: tuple(_pbs_shares(values)),
    "total_nodes": lambda values: len(_pbs_shares(values)) or None,
    "total_cpus": lambda values: sum(cpus for cpus, _ in _pbs_shares(values).values()) or _pbs_used(values),
    "total_gpus": lambda values: sum(gpus or 0 for _, gpus in _pbs_shares(values).values()) or None,
    "run_secs": _pbs_secs("resources_used.walltime"),
    "used_cpu_secs": _pbs_secs("resources_used.cput"),
    "used_memory_bytes": lambda values: of("resources_used.mem", _pbs_size)(values) or None,
    "requested_memory_bytes": of("Resource_List.mem", _pbs_size),
    "requested_nodes": of("Resource_List.nodect", whole),
    "requested_gpus": of("Resource_List.ngpus", whole),
    "wall_limit_secs": of("Resource_List.walltime", whole_clock),
    "exit_status": lambda values: status if (status := _pbs_exit(values)) is None or status < 256 else None,
    "exit_signal": lambda values: (
        None if (status := _pbs_exit(values)) is None or status < 256 else status - 256
    ),
    "state": _pbs_state,
}


# ---------------------------------------------------------------- LSF: lsb.acct(5), JOB_FINISH


def _lsf(text: str) -> int:
    if not re.fullmatch("-?[0-9]{1,18}", text):
        raise BadError
    return int(text)


def _lsf_time(text: str) -> int | None:
    if _lsf(text) >= LATEST:
        raise BadError
    return max(_lsf(text), 0) or None


def _lsf_amount(text: str) -> float | None:
    if not re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,12})?", text):
        raise BadError
    return None if float(text) < 0 else float(text)


def _lsf_slots(values: Fields) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in ("alloc1", "alloc2"):
        match = re.fullmatch(r"(?:([0-9]{1,6})\*)?([A-Za-z0-9][A-Za-z0-9._-]*)", values[name])
        if match is None:
            raise BadError
        found[match[2]] = found.get(match[2], 0) + int(match[1] or 1)
    return found


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _lsf_suspended(values: Fields) -> int | None:
    start, end, ran = (max(_lsf(values[name]), 0) for name in ("startTime", "event time", "runTime"))
    return max(0, end - start - ran) or None if ran and start else None


LSF: PartialReport = {
    "job_id": of("jobId", _job_id),
    "user": of("userName"),
    "uid": of("userId", whole, ("", "-1")),
    "queue": of("queue"),
    "name": of("jobName"),
    "account": of("projectName"),
    "reservation": lambda values: values["rsvId2"] or values["rsvId"] or None,
    "requested_cpus": of("numProcessors", lambda text: max(_lsf(text), 0) or None),
    "used_cpu_secs": lambda values: _sum(
        *(of(name, _lsf_amount)(values) for name in ("ru_utime", "ru_stime"))
    ),
    "suspended_secs": _lsf_suspended,
    "submit_secs": of("submitTime", _lsf_time),
    "eligible_secs": of("beginTime", _lsf_time),
    "start_secs": of("startTime", _lsf_time),
    "end_secs": of("event time", _lsf_time),
    "user_cpu_secs": of("ru_utime", _lsf_amount),
    "system_cpu_secs": of("ru_stime", _lsf_amount),
    "used_memory_bytes": of("maxRMem", lambda text: max(_lsf(text), 0) * 1024 or None),
    "wall_limit_secs": of("runLimit", lambda text: max(_lsf(text), 0) or None),
    "run_secs": of("runTime", lambda text: max(_lsf(text), 0) or None),
    "nodes": lambda values: tuple(_lsf_slots(values)),
    "total_cpus": lambda values: sum(_lsf_slots(values).values()),
    "state": lambda values: {64: JobState.COMPLETED, 32: JobState.FAILED}.get(
        _lsf(values["jStatus"]), JobState.UNKNOWN
    ),
}


# ---------------------------------------------------------------- HTCondor: "Job ClassAd Attributes"


def _ad_text(text: str) -> str | None:
    """A string; strings that stand beside one another are one."""
    if not re.fullmatch(r'(?:"(?:[^"\\]|\\.)*")+', text, re.DOTALL):
        raise BadError
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)) or None


def _ad_number(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,18}(?:\.[0-9]{1,18})?", text):
        raise BadError
    return float(text)


def _ad_whole(text: str) -> int:
    return int(_ad_number(text))


def _ad_exit(text: str) -> int:
    """A whole number: "the exit code of the job", no fraction of one."""
    if not _ad_number(text).is_integer():
        raise BadError
    return _ad_whole(text)


def _ad_epoch(text: str) -> int | None:
    return epoch(str(_ad_whole(text)))


_UNDEFINED = ("", "undefined", None)


def _htcondor_array(values: Fields) -> bool | None:
    return of("TotalSubmitProcs", _ad_whole, _UNDEFINED)(values) not in {None, 0, 1} or None


def _htcondor_id(values: Fields) -> str:
    number = f"{_ad_whole(values['ClusterId'])}.{_ad_whole(values['ProcId'])}"
    match = re.fullmatch(r'"([^#"\s]+)#([0-9.]+)#[0-9]+"', values.get("GlobalJobId", ""))
    return f"{number}@{match[1]}" if match and match[2] == number else number


def _htcondor_state(values: Fields) -> JobState:
    status = of("JobStatus", _ad_whole, _UNDEFINED)(values)
    if status != 4:
        named = {1: JobState.PENDING, 2: JobState.RUNNING, 3: JobState.CANCELLED, 5: JobState.PENDING}
        return named.get(status, JobState.UNKNOWN)
    try:  # what is of another type says nothing of how the job ended
        by_signal = of("ExitBySignal", {"false": False, "true": True}.__getitem__, _UNDEFINED)(values)
        code = of("ExitCode", _ad_exit, _UNDEFINED)(values)
    except (BadError, KeyError):
        return JobState.UNKNOWN
    return JobState.FAILED if by_signal or code else JobState.COMPLETED


def _htcondor_start(values: Fields) -> int | None:
    is_only = of("NumJobStarts", _ad_whole, _UNDEFINED)(values) == 1
    return of("JobCurrentStartDate", _ad_epoch, _UNDEFINED)(values) or (
        of("JobStartDate", _ad_epoch, _UNDEFINED)(values) if is_only else None
    )


def _htcondor_ran(values: Fields) -> float | None:
    """Seconds with a machine, "this also includes time spent in suspension"."""
    starts, last, every, away = (
        of(name, _ad_number, _UNDEFINED)(values)
        for name in (
            "NumJobStarts",
            "LastRemoteWallClockTime",
            "RemoteWallClockTime",
            "CumulativeSuspensionTime",
        )
    )
    ran = every if last is None and starts == 1 else last
    if ran is None or not away:
        return None if of("TotalSuspensions", _ad_whole, _UNDEFINED)(values) else ran
    return ran - away if starts == 1 and away <= ran else None


def _htcondor_away(values: Fields) -> float | None:
    times = of("TotalSuspensions", _ad_whole, _UNDEFINED)(values)
    away = of("CumulativeSuspensionTime", _ad_number, _UNDEFINED)(values)
    return away if away or not times else None


def _host(text: str) -> tuple[str, ...]:
    host = (_ad_text(text) or "").rpartition("@")[2]
    return (host,) if host else ()


HTCONDOR: PartialReport = {
    "job_id": _htcondor_id,
    "name": of("JobBatchName", _ad_text, _UNDEFINED),
    "state": _htcondor_state,
    "nodes": lambda values: of("LastRemoteHost", _host, _UNDEFINED)(values) or (),
    "total_gpus": of("GPUsProvisioned", _ad_whole, _UNDEFINED),
    "restarts": of("NumJobStarts", lambda text: max(0, _ad_whole(text) - 1), _UNDEFINED),
    "run_secs": _htcondor_ran,
    "user": of("Owner", _ad_text, _UNDEFINED),
    "executable": of("Cmd", _ad_text, _UNDEFINED),
    "submit_secs": of("QDate", _ad_epoch, _UNDEFINED),
    "start_secs": _htcondor_start,
    "end_secs": lambda values: (
        of("CompletionDate", _ad_epoch, _UNDEFINED)(values)
        or of("EnteredCurrentStatus", _ad_epoch, _UNDEFINED)(values)
    ),
    "user_cpu_secs": of("RemoteUserCpu", _ad_number, _UNDEFINED),
    "system_cpu_secs": of("RemoteSysCpu", _ad_number, _UNDEFINED),
    "total_cpus": of("CpusProvisioned", _ad_whole, _UNDEFINED),
    "requested_cpus": of("RequestCpus", _ad_whole, _UNDEFINED),
    "requested_memory_bytes": of("RequestMemory", lambda text: _ad_whole(text) * 2**20, _UNDEFINED),
    "used_cpu_secs": lambda values: _sum(
        *(of(name, _ad_number, _UNDEFINED)(values) for name in ("RemoteUserCpu", "RemoteSysCpu"))
    ),
    "used_memory_bytes": lambda values: (
        of("ResidentSetSize_RAW", lambda text: _ad_whole(text) * 1024, _UNDEFINED)(values)
        or of("ResidentSetSize", lambda text: _ad_whole(text) * 1024, _UNDEFINED)(values)
    ),
    "array_job_id": lambda values: _htcondor_array(values) and values["ClusterId"],
    "array_task_id": lambda values: _htcondor_array(values) and values["ProcId"],
    "exit_status": of("ExitCode", _ad_exit, _UNDEFINED),
    "suspended_secs": _htcondor_away,
    "priority": of(
        "JobPrio", lambda text: -_ad_whole(text[1:]) if text[0] == "-" else _ad_whole(text), _UNDEFINED
    ),
}


# ---------------------------------------------------------------- OAR: oarstat(1), and its database's tables


def _oar_text(value: Any) -> str | None:
    if not isinstance(value, str):
        raise BadError
    return value or None


def _oar_numeral(value: Any) -> int:
    return int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,18}", value) else whole(value)


def _oar_epoch(value: Any) -> int | None:
    return epoch(_oar_numeral(value))


def _oar_state(values: Fields) -> JobState:
    if values.get("state") != "Terminated":
        return JobState.UNKNOWN
    try:
        code = of("exit_code", _oar_numeral)(values)
    except BadError:
        return JobState.UNKNOWN
    if code is None and values.get("jobType") != "INTERACTIVE":
        return JobState.UNKNOWN
    return JobState.FAILED if code else JobState.COMPLETED


def _oar_array(values: Fields) -> Any:
    array, number = (of(name, _oar_numeral)(values) for name in ("array_id", "Job_Id"))
    return None if array in {None, 0, number} else array


OAR: PartialReport = {
    "job_id": lambda values: str(_oar_numeral(values["Job_Id"]) or None),
    "state": _oar_state,
    "array_job_id": lambda values: None if (array := _oar_array(values)) is None else str(array),
    "array_task_id": lambda values: None if _oar_array(values) is None else str(values["array_index"]),
    "is_interactive": lambda values: (
        None if not values.get("jobType") else values["jobType"] == "INTERACTIVE"
    ),
    "nodes": lambda values: tuple(values.get("assigned_network_address") or ()),
    "total_nodes": lambda values: len(values.get("assigned_network_address") or ()) or None,
    "total_cpus": lambda values: len(values.get("assigned_resources") or ()) or None,
    "user": of("owner", _oar_text),
    "name": of("name", _oar_text),
    "queue": of("queue", _oar_text),
    "account": of("project", _oar_text),
    "executable": of("command", _oar_text),
    "submit_secs": of("submissionTime", _oar_epoch),
    "start_secs": of("startTime", _oar_epoch),
    "end_secs": of("stopTime", _oar_epoch),
    "wall_limit_secs": of("walltime", lambda value: _oar_numeral(value) or None),
    "exit_status": of("exit_code", lambda value: _wait_status(_oar_numeral(value))[0]),
    "exit_signal": of("exit_code", lambda value: _wait_status(_oar_numeral(value))[1]),
}


def _wait_status(value: int) -> tuple[int | None, int | None]:
    """wait(2): the signal below, the exit status above."""
    if value >= 2**16:
        raise BadError
    return (None, value & 127) if value & 127 else (value >> 8, None)


# ---------------------------------------------------------------- Slurm: sacct --json, its OpenAPI schema


def _set(values: Fields, name: str) -> int | None:
    """A number as ``{"set": …, "infinite": …, "number": …}``."""
    if values.get(f"{name}.set") is not True or values.get(f"{name}.number") in {-2, 2**32 - 2}:  # NO_VAL
        return None
    return whole(values[f"{name}.number"])


def _spent(which: str) -> Callable[[Fields], float | None]:
    """Seconds and microseconds of CPU time."""

    def parts_of(which: str, values: Fields) -> tuple[int | None, int | None]:
        secs, micros = (of(f"time.{which}.{unit}", whole)(values) for unit in ("seconds", "microseconds"))
        return secs, micros

    def read(values: Fields) -> float | None:
        secs, micros = parts_of(which, values)
        if micros is not None and micros >= 10**6:  # Slurm adds up halves without carrying
            halves = [parts_of(each, values) for each in ("user", "system")]
            if which != "total" or (secs, micros) != tuple(map(sum, zip(*halves, strict=True))):
                raise BadError
        return None if secs is None or micros is None else secs + micros / 10**6

    return read


def _resource(name: str, kind: str, unit: int = 1) -> Callable[[Fields], int | None]:
    def read(values: Fields) -> int | None:
        found = [each["count"] for each in values.get(name) or () if each["type"] == kind]
        return found[0] * unit if found else None

    return read


SLURM_JSON: PartialReport = {
    "job_id": lambda values: _job_id(str(values["job_id"])),
    "user": _or(of("association.user", _oar_text), of("user", _oar_text)),
    "account": of("account", _oar_text),
    "group": of("group", _oar_text),
    "partition": of("partition", _oar_text),
    "qos": of("qos", _oar_text),
    "cluster": of("cluster", _oar_text),
    "name": lambda values: values.get("name") or "",
    "submit_secs": of("time.submission", epoch),
    "eligible_secs": of("time.eligible", epoch),
    "start_secs": of("time.start", epoch),
    "end_secs": of("time.end", epoch),
    "run_secs": of("time.elapsed", whole),
    "suspended_secs": of("time.suspended", whole),
    "used_cpu_secs": _spent("total"),
    "user_cpu_secs": _spent("user"),
    "system_cpu_secs": _spent("system"),
    "exit_status": lambda values: _set(values, "exit_code.return_code"),
    "priority": lambda values: _set(values, "priority"),
    "restarts": of("restart_cnt", whole),
    "requested_cpus": _or(of("required.CPUs", positive), _resource("tres.requested", "cpu")),
    "requested_nodes": _resource("tres.requested", "node"),
    "requested_memory_bytes": _resource("tres.requested", "mem", 2**20),
    "total_cpus": _resource("tres.allocated", "cpu"),
    "total_nodes": _resource("tres.allocated", "node"),
    "reservation": of("reservation.name"),
    "nodes": lambda values: tuple((values.get("nodes") or "").split(",")) if values.get("nodes") else (),
    "wall_limit_secs": lambda values: None if (limit := _set(values, "time.limit")) is None else limit * 60,
}
