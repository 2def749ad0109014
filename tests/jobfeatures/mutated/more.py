"""More logs and their second readers, from documentation alone: qacct's text, OAR 3, SWF, HTCondor's JSON."""

from __future__ import annotations

import json
import re
from calendar import timegm
from collections.abc import Callable
from pathlib import Path
from time import strptime
from typing import Any

from jobfeatures.records.model import JobState
from tests.jobfeatures.mutated.lines import BadError, Fields, Log
from tests.jobfeatures.mutated.secondreaders import (
    GRID_ENGINE,
    OAR,
    SLURM_JSON,
    PartialReport,
    number,
    of,
    whole,
)

FIXTURES = Path(__file__).parents[2] / "fixtures"

# ---------------------------------------------------------------- qacct(1), accounting(5)

_NONE = ("", "NONE", "none", "undefined", None)
_OF_FILE = {
    "jobnumber": "job_number",
    "taskid": "task_number",
    "jobname": "job_name",
    "qsub_time": "submission_time",
}
_TIMES = ("qsub_time", "start_time", "end_time")


def _said_time(text: str) -> int | None:
    if text == "-/-":
        return None
    if not re.fullmatch(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]?[0-9] \d\d:\d\d:\d\d \d{4}", text, re.ASCII):
        raise BadError
    try:
        return timegm(strptime(text, "%a %b %d %H:%M:%S %Y"))
    except ValueError:
        raise BadError from None


def _code(text: str) -> int:
    """A number, which words may follow."""
    return whole(text.partition(" ")[0])


def _seconds(text: str) -> float:
    return number(text.removesuffix("s"))


def _as_file(values: Fields) -> Fields:
    """Return the fields as the accounting file has them."""
    found = {
        _OF_FILE.get(name, name): "NONE" if text == "undefined" else text for name, text in values.items()
    }
    found["arid"] = "0" if found.get("arid") == "NONE" else found.get("arid", "0")
    for name in ("failed", "exit_status"):
        found[name] = str(_code(found.get(name, "")))
    found = {"hostname": "", "category": "", "qname": ""} | found
    return found | {"task_number": "0" if values.get("taskid") in _NONE else values["taskid"]}


def _by_way_of(convert: Callable[[Fields], Fields], read: Callable[[Fields], Any]) -> Callable[[Fields], Any]:
    return lambda values: read(convert(values))


def _run_secs(values: Fields) -> float | None:
    ran = of("ru_wallclock", _seconds, _NONE)(values)
    times = [of(name, _said_time, ("", None))(values) for name in ("start_time", "end_time")]
    return None if ran == 0 and None not in times and times[1] - times[0] > 1 else ran


QACCT: PartialReport = {
    **{
        name: _by_way_of(_as_file, read)
        for name, read in GRID_ENGINE.items()
        if name not in {"used_memory_bytes", "submit_secs", "start_secs", "end_secs"}
    },
    "submit_secs": of("qsub_time", _said_time, ("", None)),
    "start_secs": of("start_time", _said_time, ("", None)),
    "end_secs": of("end_time", _said_time, ("", None)),
    "run_secs": _run_secs,
    "user_cpu_secs": of("ru_utime", _seconds, _NONE),
    "system_cpu_secs": of("ru_stime", _seconds, _NONE),
    "used_cpu_secs": of("cpu", _seconds, _NONE),
}


def qacct() -> Log:
    blocks = re.split(r"^=+\n", (FIXTURES / "gridengine/qacct").read_text(), flags=re.MULTILINE)
    block = next(each for each in blocks if re.search(r"^jobname +plain", each, re.MULTILINE))
    pairs = dict(re.match(r"(\S+)\s*(.*?)\s*\Z", row).groups() for row in block.splitlines())
    return Log(
        "qacct",
        pairs,
        lambda values: "=" * 62 + "\n" + "".join(f"{name:12} {text}\n" for name, text in values.items()),
        QACCT,
        separators=("=", "  "),
        governs=frozenset({"failed", "exit_status", "start_time"}),
        aliases={**_OF_FILE, "category": "-l "},
        partial=frozenset({"category"}),
        named=True,
    )


# ---------------------------------------------------------------- OAR 3: oar/lib/models.py

_NAMES = {
    "Job_Id": "id",
    "owner": "user",
    "queue": "queue_name",
    "submissionTime": "submission_time",
    "startTime": "start_time",
    "stopTime": "stop_time",
    "jobType": "type",
}


def _as_oar2(values: Fields) -> Fields:
    found = dict(values)
    for old, new in _NAMES.items():
        if new in values:
            found[old] = values[new]
    return found


def _oar3_state(values: Fields) -> JobState:
    has_code = values.get("exit_code") not in {None, ""}
    OAR["exit_status"](values)
    if values.get("state") == "Terminated" and not has_code and values.get("type") != "INTERACTIVE":
        return JobState.UNKNOWN
    return OAR["state"](values)


_OAR3_TOLD = (
    *("job_id", "array_job_id", "array_task_id", "is_interactive", "user", "name", "queue", "account"),
    *("executable", "submit_secs", "end_secs", "exit_status", "exit_signal"),
)
OAR3: PartialReport = {
    **{name: _by_way_of(_as_oar2, OAR[name]) for name in _OAR3_TOLD},
    "state": _oar3_state,
    "start_secs": lambda values: (
        OAR["start_secs"](_as_oar2(values)) if whole(values.get("assigned_moldable_job")) else None
    ),
}


def oar3() -> Log:
    job = json.loads((FIXTURES / "oar/ended-3.0.2.json").read_text())["1906"]
    return Log(
        "oar",
        job,
        lambda values: json.dumps({str(job["id"]): values}),
        OAR3,
        separators=('"', ","),
        governs=frozenset({"state", "start_time", "stop_time", "assigned_moldable_job", "exit_code"}),
        named=True,
    )


# ---------------------------------------------------------------- SWF 2.2

SWF_FIELDS = (
    *("job", "submit", "wait", "run", "processors", "cpu", "memory", "requested_processors"),
    *("requested_time", "requested_memory", "status", "user", "group", "executable", "queue", "partition"),
    *("preceding", "think"),
)
_BEGUN = 1_600_000_000


def _swf_number(text: str) -> float | None:
    """A number; −1 is unknown. Times may be fractions."""
    if not re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", text, re.ASCII):
        raise BadError
    return None if float(text) == -1 else float(text)


def _swf(name: str, convert: Any = lambda value: value) -> Any:
    def read(values: Fields) -> Any:
        found = _swf_number(values[name])
        return None if found is None else convert(found)

    return read


def _swf_whole(name: str, convert: Any = lambda value: value) -> Any:
    def read(values: Fields) -> Any:
        if not re.fullmatch(r"-?[0-9]{1,18}", values[name]):
            raise BadError
        return None if int(values[name]) == -1 else convert(int(values[name]))

    return read


def _times(*names: str) -> Any:
    def read(values: Fields) -> Any:
        found = [_swf_number(values[name]) for name in names]
        return None if None in found else _BEGUN + sum(found)

    return read


_processors = _swf_whole("processors", lambda value: value or None)
_asked = _swf_whole("requested_processors", lambda value: value or None)


def _by(processors: Any, name: str, unit: int = 1) -> Any:
    def read(values: Fields) -> Any:
        each = (_swf_whole if unit > 1 else _swf)(name)(values)
        count = processors(values)
        return None if each is None or count is None else each * count * unit

    return read


SWF: PartialReport = {
    "job_id": _swf_whole("job", str),
    "submit_secs": _times("submit"),
    "start_secs": _times("submit", "wait"),
    "end_secs": _times("submit", "wait", "run"),
    "run_secs": _swf("run"),
    "total_cpus": _processors,
    "used_cpu_secs": _by(_processors, "cpu"),
    "used_memory_bytes": _by(_processors, "memory", 1024),
    "requested_cpus": lambda values: _asked(values) or _processors(values),
    "wall_limit_secs": _swf("requested_time", int),  # limits are whole seconds
    "requested_memory_bytes": _by(
        lambda values: _asked(values) or _processors(values), "requested_memory", 1024
    ),
    "state": lambda values: {0: JobState.FAILED, 1: JobState.COMPLETED, 5: JobState.CANCELLED}.get(
        _swf_whole("status")(values), JobState.UNKNOWN
    ),
    "user": _swf_whole("user", str),
    "group": _swf_whole("group", str),
    "executable": _swf_whole("executable", str),
    "queue": _swf_whole("queue", str),
    "is_interactive": _swf_whole("queue", lambda value: True if value == 0 else None),
    "partition": _swf_whole("partition", str),
    "preceding_job_id": _swf_whole("preceding", lambda value: str(value) if value else None),
    "think_secs": _swf("think"),
}


def swf() -> Log:
    line = "7 100 20 300 4 250 2048 8 3600 4096 1 3 2 5 6 9 2 15"
    return Log(
        "swf",
        dict(zip(SWF_FIELDS, line.split(), strict=True)),
        lambda values: " ".join(values.values()),
        SWF,
        separators=(" ", ";"),
        before=f"; Version: 2.2\n; UnixStartTime: {_BEGUN}\n",
        is_positional=True,
        aliases={
            "job": "number",
            "cpu": "cpu_secs",
            "memory": "memory_kib",
            "requested_time": "requested_secs",
            "requested_memory": "requested_memory_kib",
            "think": "think_secs",
            "submit": "submit_secs",
            "wait": "wait_secs",
            "run": "run_secs",
        },
        partial=frozenset({"processors", "requested_processors", "memory", "requested_memory"}),
    )


# ---------------------------------------------------------------- Slurm 22.05: numbers without a set around them


def _known_time(name: str) -> Callable[[Fields], Any]:
    return lambda values: SLURM_JSON[f"{name}_cpu_secs"](values) or None


def _state_22(values: Fields) -> JobState:
    word = values.get("state.current")
    if not isinstance(word, str) or not re.fullmatch("[A-Z_]+", word):
        raise BadError
    return JobState.__members__.get(word, JobState.UNKNOWN)


SLURM_22: PartialReport = {
    **SLURM_JSON,
    "priority": of("priority", whole),
    "state": _state_22,
    "exit_status": lambda values: 0 if _state_22(values) is JobState.COMPLETED else None,  # sacct(1)
    "requested_cpus": lambda values: SLURM_JSON["requested_cpus"](
        {**values, "required.CPUs": ""} if values.get("required.CPUs") == -2 else values  # NO_VAL
    ),
    # It writes a number for the name.
    "reservation": of("reservation.name", lambda value: value if isinstance(value, str) else None),
    "wall_limit_secs": of("time.limit", lambda value: whole(value) * 60),
    # Of jobs it writes 0; it knows the time of steps.
    **{f"{name}_cpu_secs": _known_time(name) for name in ("used", "user", "system")},
}


# ---------------------------------------------------------------- Sonar's new format


def _stamp(text: Any) -> int:
    if not isinstance(text, str) or not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text, re.ASCII):
        raise BadError
    return timegm(strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


def _extended(value: Any) -> int | None:
    """0: unset, 1: infinite, else two more than the value."""
    return whole(value) - 2 if whole(value) > 1 else None


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        raise BadError
    return value or None


def _resource(kind: str) -> Callable[[Fields], int | None]:
    def read(values: Fields) -> int | None:
        found = [
            part.split("=") for part in (_text(values.get("allocated_resources") or "") or "").split(",")
        ]
        counts = [each[1] for each in found if len(each) == 2 and each[0] == kind]
        return whole(counts[0]) if counts else None

    return read


SONAR: PartialReport = {
    "job_id": lambda values: str(whole(values["job_id"]) or None),
    "state": lambda values: JobState.__members__.get(values.get("job_state") or "", JobState.UNKNOWN),
    "step": of("job_step", _text),
    "name": of("job_name", _text),
    "user": of("user_name", _text),
    "account": of("account", _text),
    "partition": of("partition", _text),
    "reservation": of("reservation", _text),
    "submit_secs": of("submit_time", _stamp),
    "start_secs": of("start_time", _stamp),
    "end_secs": of("end_time", _stamp),
    "exit_status": of("exit_code", whole),
    "suspended_secs": of("suspend_time", lambda value: whole(value) or None),
    "priority": of("priority", _extended),
    "nodes": lambda values: tuple(values.get("nodes") or ()),
    "requested_cpus": of("requested_cpus", lambda value: whole(value) or None),
    "requested_nodes": of("requested_node_count", lambda value: whole(value) or None),
    "requested_memory_bytes": of("requested_memory_per_node", lambda value: whole(value) * 1024 or None),
    "run_secs": of("sacct.ElapsedRaw", lambda value: whole(value) or None),
    # What a document leaves out is 0.
    "user_cpu_secs": lambda values: (
        None if values.get("sacct.SystemCPU") is None else of("sacct.UserCPU", whole)(values)
    ),
    "system_cpu_secs": of("sacct.SystemCPU", whole),
    "used_cpu_secs": lambda values: sum(
        of(f"sacct.{name}CPU", whole)(values) or 0 for name in ("User", "System")
    ),
    "total_cpus": _resource("cpu"),
    "total_gpus": _resource("gres/gpu"),
}


def sonar() -> Log:
    job = {
        "job_id": 12, "job_step": "", "job_name": "fit", "job_state": "COMPLETED", "user_name": "alice",
        "account": "physics", "partition": "batch", "reservation": "course", "priority": 9,
        "submit_time": "2026-03-01T10:00:00Z", "start_time": "2026-03-01T10:01:00Z",
        "end_time": "2026-03-01T11:01:00Z", "suspend_time": 5, "exit_code": 0, "nodes": ["c1", "c2"],
        "requested_cpus": 8, "requested_node_count": 2, "requested_memory_per_node": 2048,
        "allocated_resources": "cpu=8,node=2,gres/gpu=2", "sacct.ElapsedRaw": 3595, "sacct.UserCPU": 90,
        "sacct.SystemCPU": 10,
    }  # fmt: skip

    def join(values: Fields) -> str:
        plain = {name: value for name, value in values.items() if "." not in name}
        inner = {name.split(".")[1]: value for name, value in values.items() if "." in name}
        attributes = {
            "time": "2026-03-02T00:00:00Z",
            "cluster": "c",
            "slurm_jobs": [{**plain, "sacct": inner}],
        }
        meta = {"producer": "sonar", "version": "0.18.1"}
        return json.dumps({"meta": meta, "data": {"type": "job", "attributes": attributes}})

    return Log(
        "sonar", job, join, SONAR, separators=(",", " "), named=True, partial=frozenset({"allocated_resources"}),
        governs=frozenset({"job_state", "start_time", "end_time", "nodes", "sacct.UserCPU", "sacct.SystemCPU"}),
        aliases={"sacct.ElapsedRaw": "ElapsedRaw", "sacct.UserCPU": "UserCPU", "sacct.SystemCPU": "SystemCPU"},
    )  # fmt: skip


MORE = {"sonar 0.18": sonar(), "qacct 8.1.9": qacct(), "oar 3.0.2": oar3(), "swf 2.2": swf()}
