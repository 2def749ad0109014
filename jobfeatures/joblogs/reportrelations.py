"""Determines how a job record relates to an earlier one with the same id, and merges the two. Pure.

A record may be another report of the same run, the next part of a resized run, or a next run; or it may be of
another job. Batch systems report a job repeatedly: the queue, the accounting of each day, Sonar with each
change. Values of a later report replace earlier ones; values that a later report leaves out are kept. A new
run begins only if the batch system says so: by its count of restarts, a new submission, a start after an end,
or a job that has ended and now waits or runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from enum import Enum
from typing import Any, Final

from jobfeatures.joblogs.loggedjob import JobRecord, Number, PartialReport
from jobfeatures.records.model import JobState

# Accounting shows a requeue as a new submission at the end of the run before; a later one is another job.
REQUEUED_WITHIN_SECS: Final = 86400
RESIZING: Final = "RESIZING"  # Slurm's word for the part of a run before it was given other resources

_STAGES: Final = {JobState.PENDING: 0, JobState.UNKNOWN: 2}
_FIELDS: Final = tuple(each for each in fields(JobRecord) if each.compare)
_ABSENT: Final = {each.name: each.default for each in _FIELDS}
_ADDED: Final = (
    *("run_secs", "suspended_secs", "used_cpu_secs", "user_cpu_secs", "system_cpu_secs", "energy_joules"),
)
# Of a run, not of the job: what another run leaves out is unknown.
_OF_A_RUN: Final = frozenset({*_ADDED, "end_secs", "exit_status", "exit_signal", "used_memory_bytes"})
_REPORTED_OF_A_RUN: Final = frozenset({"end_time", "suspend_time", "exit_code", "sacct"})
_REPORTED_OF_A_START: Final = _REPORTED_OF_A_RUN | {"start_time", "nodes", "allocated_resources"}


class Relation(Enum):
    """How a record relates to an earlier one of the same job.

    It is another report of the same run, the next part of a resized run, or the next run. The values are the
    reasons under which `folding` counts merged records.
    """

    SAME = "repeated report of a run"
    PART = "part of a resized job"
    NEXT = "earlier run"


def reported_at(record: JobRecord) -> Number:
    """Return when a record was reported, in seconds since the epoch, or since a log's start without a date.

    A log that reports each change of a job gives the time of each report. For a record of any other log, the
    latest time in the record is returned: the job's end, else its start plus its run and suspended time, else
    its submission, else 0.
    """
    if record.report is not None:
        return record.report.at_secs
    if record.end_secs is not None:
        return record.end_secs
    if record.start_secs is not None:
        return record.start_secs + (record.run_secs or 0) + (record.suspended_secs or 0)
    return record.submit_secs or 0


def order_of(record: JobRecord) -> tuple[Number, Number, int]:
    """Return a sort key for records: by time of report, then by submission, then waiting before ended."""
    stage = 3 if record.state.is_finished else _STAGES.get(record.state, 1)
    return reported_at(record), record.submit_secs or 0, stage


def relation(one: JobRecord, two: JobRecord, at_secs: Number) -> Relation | None:
    """Return how the record `two` relates to the earlier record `one`; None if it is of another job.

    `one` was last reported at `at_secs`.
    """
    if _both(one.user, two.user) and one.user != two.user:
        return None
    if one.restarts is not None and two.restarts is not None and one.restarts < two.restarts:
        return Relation.NEXT
    if _both(one.submit_secs, two.submit_secs) and one.submit_secs != two.submit_secs:
        return _by_submission(one, two, at_secs)
    if _both(one.start_secs, two.start_secs):
        return _by_start(one, two)
    return Relation.NEXT if _begins_anew(one, two) else Relation.SAME


def is_reported_again(one: JobRecord, two: JobRecord) -> bool:
    """Return whether two records are of the same run: submission and start are equal, users do not differ."""
    return (
        _both(two.submit_secs, two.start_secs)
        and (one.submit_secs, one.start_secs) == (two.submit_secs, two.start_secs)
        and (one.user == two.user or None in {one.user, two.user})
    )


def _both(one: object, two: object) -> bool:
    return one is not None and two is not None


def _has_ended(record: JobRecord) -> bool:
    return record.end_secs is not None or record.state.is_finished


def _by_submission(one: Any, two: Any, at_secs: Number) -> Relation | None:
    """Compare two known submissions that differ."""
    if one.state_word == RESIZING and two.submit_secs == one.end_secs:
        return Relation.PART
    waits = one.start_secs is None and not _has_ended(one)
    since = at_secs if one.end_secs is None else one.end_secs
    if two.report is not None and one.submit_secs < two.submit_secs:  # it may be told later than other values
        if one.start_secs is not None and two.start_secs in {None, one.start_secs}:
            if two.submit_secs <= one.start_secs:
                return Relation.SAME
        elif waits:
            since = min(since, two.submit_secs)
    if not 0 <= two.submit_secs - since <= REQUEUED_WITHIN_SECS:
        return None
    return Relation.SAME if waits else Relation.NEXT


def _by_start(one: Any, two: Any) -> Relation | None:
    """Compare two known starts. A run's start may be set again when nodes had to be powered up."""
    if one.start_secs == two.start_secs or _both(one.restarts, two.restarts) or not _has_ended(one):
        return Relation.SAME
    end = one.start_secs if one.end_secs is None else one.end_secs
    return Relation.NEXT if two.start_secs >= end else None


def _begins_anew(one: Any, two: Any) -> bool:
    """Return whether a record without a submission or a start is of a further run."""
    if two.state is JobState.PENDING:
        return one.start_secs is not None or _has_ended(one)
    if two.state.is_on_node and _has_ended(one):
        return True
    if one.end_secs is None or two.end_secs in {None, one.end_secs}:
        return two.start_secs is not None and one.end_secs is not None and two.start_secs > one.end_secs
    if two.start_secs is not None:
        return bool(two.start_secs >= one.end_secs)
    return two.report is None and one.start_secs is not None  # cancelled while it waited again


def overridden(one: JobRecord, two: JobRecord) -> JobRecord:
    """Merge two records of one run: the values of the later one, `two`, and where it has none, of `one`."""
    restarted = _both(one.start_secs, two.start_secs) and one.start_secs != two.start_secs
    if one.report is not None and two.report is not None:
        return _reported_again(one.report, two.report, _REPORTED_OF_A_RUN if restarted else frozenset())
    return _filled(one, two, _OF_A_RUN if restarted else frozenset())


def _filled(one: JobRecord, two: JobRecord, forgotten: frozenset[str]) -> JobRecord:
    """Return the second record with the first's values where it has none."""
    kept: dict[str, Any] = {
        name: value
        for name, absent in _ABSENT.items()
        if name not in forgotten and getattr(two, name) == absent and (value := getattr(one, name)) != absent
    }
    for pair, is_reported in (
        (("state", "state_word"), two.end_secs is not None and not one.state.is_finished),
        (("exit_status", "exit_signal"), False),
    ):
        if is_reported or any(
            getattr(two, name) != _ABSENT[name] for name in pair
        ):  # these are told together
            kept = {name: value for name, value in kept.items() if name not in pair}
    if one.more and two.more:
        kept["more"] = tuple((dict(one.more) | dict(two.more)).items())
    return replace(two, **kept) if kept else two


def continued(one: JobRecord, two: JobRecord) -> JobRecord:
    """Complete `two`, the record of a job's next run, from `one`, the record of the run before.

    In a log that reports only changed values, values that `two` does not report are taken from `one`.
    """
    if one.report is None or two.report is None:
        return two
    return _reported_again(one.report, two.report, _REPORTED_OF_A_START)


def joined(one: JobRecord, two: JobRecord) -> JobRecord:
    """Merge the records of two parts of a resized run.

    The resources are those of the last part; what both parts used is added up.
    """
    added = {
        name: getattr(one, name) + getattr(two, name)
        for name in _ADDED
        if _both(getattr(one, name), getattr(two, name))
    }
    memory = max(one.used_memory_bytes or 0, two.used_memory_bytes or 0) or None
    times = {name: getattr(one, name) for name in ("submit_secs", "eligible_secs", "start_secs")}
    values = {**times, **dict.fromkeys(_ADDED), **added, "used_memory_bytes": memory, "report": None}
    return _filled(one, replace(two, **values), _OF_A_RUN)


def _reported_again(one: PartialReport, two: PartialReport, forgotten: frozenset[str]) -> JobRecord:
    values = merged({name: value for name, value in one.values.items() if name not in forgotten}, two.values)
    return replace(two.make(values), report=two._replace(values=values))


def merged(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two JSON objects, and objects nested in them; values of `two` replace those of `one`."""
    found = dict(one)
    for name, value in two.items():
        before = found.get(name)
        is_object = isinstance(before, Mapping) and isinstance(value, Mapping)
        found[name] = merged(before or {}, value) if is_object else value
    return found
