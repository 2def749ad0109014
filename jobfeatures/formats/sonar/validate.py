"""Validates documents in Sonar's format: types, ranges, syntax, and consistency between fields. Pure.

Strict validation is for a producer: this exporter's envelopes before they are sent. Tolerant validation is
for a reader: real agents omit zero fields, and send nulls, empty timestamps, other tags of the jobs record,
host names with underscores, and states followed by further words. Unknown fields are faults only if
validation is strict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from jobfeatures.errors import shown
from jobfeatures.formats.sonar import SEED
from jobfeatures.formats.sonar.fields import (
    JOB_STATES,
    PID_MAX,
    PROFILES,
    SEED_JOB_STATES,
    STRICT_TAGS,
    TAGS,
    Field,
    FieldType,
    fields_of,
)
from jobfeatures.formats.sonar.values import FAULTS, fault_of_version

MAX_FAULTS: Final = 100  # per document

# The fields that even a tolerant reader needs to identify a record.
_NEEDED: Final[dict[str, frozenset[str]]] = {
    "SysinfoAttributes": frozenset({"cluster", "node"}),
    "SampleAttributes": frozenset({"cluster", "node"}),
    "JobsAttributes": frozenset({"cluster"}),
    "ClusterAttributes": frozenset({"cluster"}),
    "SampleGpu": frozenset({"uuid"}),
    "SampleProcessGpu": frozenset({"uuid"}),
    "SampleDisk": frozenset({"name"}),
    "SlurmJob": frozenset({"job_id"}),
    "ClusterPartition": frozenset({"name"}),
    "ClusterNodes": frozenset({"names"}),
    "ErrorObject": frozenset({"detail"}),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault in a document: its `path`, such as ``data.attributes.jobs[3].user``, and the reason.

    `text` is the beginning of the faulty value. `record_path` is that of the innermost enclosing element of
    an array of objects, which a reader can reject alone; it is empty if the fault concerns the entire
    document.
    """

    path: str
    reason: str
    text: str = ""
    record_path: str = ""

    def __str__(self) -> str:
        return f"{self.path or 'envelope'}: {self.reason}" + (f": {self.text}" if self.text else "")


class _TooManyError(Exception):
    pass


def validate_envelope(document: object, *, profile: str | None = None, strict: bool) -> list[Fault]:
    """Return the faults of one envelope; the list is empty if it is valid.

    After 100 faults, a last one says that there are more. With `profile` None, fields of any profile are
    accepted. Nothing is raised, whatever the document holds.
    """
    if profile is not None and profile not in PROFILES:
        raise ValueError(profile)
    judge = _Judge(profile, strict)
    try:
        judge.envelope(document)
    except _TooManyError:
        judge.faults.append(Fault("", f"more than {MAX_FAULTS} faults"))
    return judge.faults


@cache
def _required(name: str, profile: str | None, strict: bool) -> frozenset[str]:
    if strict:
        return frozenset(each.name for each in fields_of(name, profile).values() if each.required)
    return _NEEDED.get(name, frozenset())


_ERRORS: Final = Field("errors", FieldType.OBJECT, dimensions=1, of="ErrorObject", nonempty=True)


class _Judge:
    """Walks a document along the table of types, and never descends further."""

    def __init__(self, profile: str | None, strict: bool) -> None:
        self._profile = profile
        self._strict = strict
        self.faults: list[Fault] = []

    def _add(self, path: str, reason: str, value: object = None, record: str = "") -> None:
        if len(self.faults) >= MAX_FAULTS:
            raise _TooManyError
        self.faults.append(Fault(path, reason, _text_of(value), record))

    def envelope(self, document: object) -> None:
        if not isinstance(document, dict):
            return self._add("", "is not an object", document)
        if self._strict:
            for name in sorted(document.keys() - {"meta", "data", "errors"}, key=str):
                self._add(_key_text(name), "is not a field of an envelope")
        meta = document.get("meta")
        if meta is not None or self._strict:
            self._object(meta, "MetadataObject", "meta", "")
        data, errors = document.get("data"), document.get("errors")
        if not self._strict and errors == []:
            errors = None
        if (data is None) == (errors is None):
            both = "has both data and errors"
            return self._add("", "has neither data nor errors" if data is None else both)
        if errors is not None:
            return self._value(errors, _ERRORS, "errors", "")
        return self._data(data)

    def _data(self, data: object) -> None:
        if not isinstance(data, dict):
            return self._add("data", "is not an object", data)
        if self._strict:
            for name in sorted(data.keys() - {"type", "attributes"}, key=str):
                self._add(f"data.{_key_text(name)}", "is not a field of data")
        tag = data.get("type")
        if not isinstance(tag, str) or tag not in self._tags():
            return self._add("data.type", f"is not one of {', '.join(sorted(self._tags()))}", tag)
        return self._object(data.get("attributes"), TAGS[tag], "data.attributes", "")

    def _tags(self) -> frozenset[str]:
        if not self._strict:
            return frozenset(TAGS)
        if self._profile is not None:
            return STRICT_TAGS[self._profile]
        return frozenset().union(*STRICT_TAGS.values())

    def _object(self, value: object, name: str, path: str, record: str) -> None:
        if not isinstance(value, dict):
            return self._add(path, "is not an object" if value is not None else "is missing", value, record)
        known = fields_of(name, self._profile)
        for key, content in value.items():
            field = known.get(key) or (None if self._strict else fields_of(name, None).get(key))
            if field is not None:
                if content is not None or self._strict:
                    self._value(content, field, f"{path}.{key}", record)
            elif self._strict:
                which = f" in profile {self._profile}" if key in fields_of(name) else ""
                self._add(f"{path}.{_key_text(key)}", f"is not a field of {name}{which}", None, record)
        for key in sorted(_required(name, self._profile, self._strict)):
            if value.get(key) is None and (key not in value or not self._strict):
                self._add(f"{path}.{key}", "is missing", None, record)
        rule = _RULES.get(name)
        if rule is not None:
            for where, reason in rule(value, self._strict, self._profile):
                self._add(f"{path}.{where}" if where else path, reason, value.get(where), record)
        return None

    def _value(self, value: object, field: Field, path: str, record: str, depth: int = 0) -> None:
        if depth < field.dimensions:
            if not isinstance(value, list):
                return self._add(path, "is not an array", value, record)
            if field.nonempty and not value:
                self._add(path, "is an empty array", None, record)
            for number, each in enumerate(value):
                place = f"{path}[{number}]"
                self._value(each, field, place, place if field.of else record, depth + 1)
            return None
        if field.of:
            return self._object(value, field.of, path, record)
        reason = FAULTS[field.type](value, field, self._strict)
        return self._add(path, reason, value, record) if reason else None


_Found = Iterator[tuple[str, str]]


def _sample_job(job: Mapping[str, Any], _strict: bool, _profile: str | None) -> _Found:
    if not job.get("epoch") and not job.get("job"):
        yield "job", "is zero although epoch is zero"


def _sample_process(process: Mapping[str, Any], strict: bool, profile: str | None) -> _Found:
    rolledup, pid = process.get("rolledup", 0), process.get("pid", 0)
    if isinstance(rolledup, int) and rolledup < 0:
        yield "rolledup", "is negative"
    elif strict and isinstance(pid, int) and rolledup and pid and (profile == SEED or pid <= PID_MAX):
        yield "pid", "is not zero although processes are rolled up"
    elif strict and profile == SEED and not rolledup and pid == 0:
        yield "pid", "is zero although no processes are rolled up"


def _slurm_job(job: Mapping[str, Any], strict: bool, profile: str | None) -> _Found:
    if not strict:
        return
    state = job.get("job_state")
    if isinstance(state, str) and state and state not in (SEED_JOB_STATES if profile == SEED else JOB_STATES):
        yield "job_state", "is not a state of a job"
    for whole, part in (("array_job_id", "array_task_id"), ("het_job_id", "het_job_offset")):
        if job.get(part) and not job.get(whole):
            yield part, f"is given without {whole}"


def _cluster_nodes(nodes: Mapping[str, Any], strict: bool, _profile: str | None) -> _Found:
    states = nodes.get("states")
    if (
        strict
        and isinstance(states, list)
        and any(isinstance(each, str) and each != each.upper() for each in states)
    ):
        yield "states", "are not in capitals"


def _metadata(meta: Mapping[str, Any], strict: bool, _profile: str | None) -> _Found:
    version = meta.get("version")
    if strict and isinstance(version, str) and version:
        reason = fault_of_version(version)
        if reason:
            yield "version", reason
    if strict and _repeats(meta.get("attrs")):
        yield "attrs", "have a key twice"


def _sysinfo(attributes: Mapping[str, Any], strict: bool, _profile: str | None) -> _Found:
    if strict and _repeats(attributes.get("software")):
        yield "software", "has a key twice"


def _repeats(pairs: object) -> bool:
    if not isinstance(pairs, list):
        return False
    keys = [str(each.get("key")) for each in pairs if isinstance(each, dict)]
    return len(set(keys)) < len(keys)


_RULES: Final[dict[str, Callable[[Mapping[str, Any], bool, str | None], _Found]]] = {
    "SampleJob": _sample_job,
    "SampleProcess": _sample_process,
    "SlurmJob": _slurm_job,
    "ClusterNodes": _cluster_nodes,
    "MetadataObject": _metadata,
    "SysinfoAttributes": _sysinfo,
}


def _text_of(value: object) -> str:
    """Return the start of a value in a form safe to show; for containers only their type."""
    if value is None:
        return ""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    if isinstance(value, int) and abs(value) > 10**40:
        return "a number of more than 40 digits"
    return shown(repr(value))[1:-1]


def _key_text(key: object) -> str:
    return shown(str(key))[1:-1]
