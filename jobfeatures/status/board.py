"""Holds the last valid status that each job reported in $JOBSTATUS, and the problems since then.

One thread refreshes. `view` and `violations` are each replaced by one assignment, so that readers take no
lock.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from jobfeatures.errors import LockTimeoutError, UnsafePathError
from jobfeatures.records.model import JobKey
from jobfeatures.status.directory import LOCK_TIMEOUT_SECS, StatusFiles, UnreadableError, read_status
from jobfeatures.status.jobstatus import (
    QUIET_SECS,
    JobStatus,
    StatusReason,
    StatusViolation,
    is_unwritten,
    parse_job_status,
)
from jobfeatures.system.clock import Clock

log = logging.getLogger(__name__)

UNSAFE = "unsafe"
UNREADABLE = "unreadable"
LOCK_TIMEOUT = "lock_timeout"
POSTPONE_REVERTED_EARLY = "postpone_reverted_early"
REASONS = (*(str(each) for each in StatusReason), UNSAFE, UNREADABLE, LOCK_TIMEOUT, POSTPONE_REVERTED_EARLY)

LOCK_BUDGET_SECS = 1.0  # for waiting for locks in one refresh, over all jobs


class StatusTarget(NamedTuple):
    """A job's status directory, the uid that must own it, and the number of CPUs allocated to the job.

    The status may not claim more CPUs than that; None means unknown.
    """

    path: str
    owner_uid: int
    allocated_cpus: int | None


@dataclass(frozen=True, slots=True)
class StatusView:
    """What is known about one job's $JOBSTATUS; immutable. Times are epoch seconds.

    `status` is the last valid set of values; it is None if the job has written none, or has removed its
    files. `problem` says why the present files cannot be used, and `problems` counts such problems by kind.
    """

    status: JobStatus | None = None
    written_at_secs: float | None = None  # when the job last wrote it: its newest modification time
    problem: str = ""  # why the latest read gave no valid set; empty if it did, or if nothing is written
    problems: Mapping[str, int] = field(default_factory=dict)  # reads with a problem, by reason

    def age_secs(self, now_secs: float) -> float | None:
        """Return the seconds since the last valid set of values was written; None if there is none."""
        return None if self.written_at_secs is None else max(0.0, now_secs - self.written_at_secs)


class _Entry(NamedTuple):
    """A view, and the state needed to judge the next read."""

    view: StatusView = StatusView()
    reason: str = ""  # of the latest problem
    reverted_at_secs: float | None = None  # monotonic; when can_postpone_last_job went back to True


class StatusBoard:
    """Holds what jobs have reported in $JOBSTATUS. Only one thread at a time may call `refresh`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[JobKey, _Entry] = {}
        self.view: Mapping[JobKey, StatusView] = {}
        # Reads with a problem since the start, by reason, over all jobs, including those that have ended.
        self.violations: Mapping[str, int] = dict.fromkeys(REASONS, 0)

    def refresh(self, jobs: Mapping[JobKey, StatusTarget], *, only: Collection[JobKey] | None = None) -> None:
        """Read the status of these jobs, and forget all other jobs.

        With `only`, read just the jobs in it and new jobs; what is known about the others does not change.

        Jobs whose lock was held at the last refresh are read last. Once a refresh has taken LOCK_BUDGET_SECS,
        each remaining job is still tried once, without waiting for its lock. So no job is skipped, and held
        locks, few or many, delay a refresh by no more than this budget.
        """
        deadline = self._clock.monotonic_secs() + LOCK_BUDGET_SECS
        violations = dict(self.violations)
        entries: dict[JobKey, _Entry] = {}
        stuck = {key for key, each in self._entries.items() if each.reason == LOCK_TIMEOUT}
        for key in sorted(jobs, key=stuck.__contains__):
            old = self._entries.get(key, _Entry())
            if only is not None and key not in only and key in self._entries:
                entries[key] = old
                continue
            left = max(0.0, deadline - self._clock.monotonic_secs())
            new = self._read(jobs[key], old, min(LOCK_TIMEOUT_SECS, left))
            if new.reason != old.reason:  # log once per kind of problem, not once per refresh
                self._report(key, new)
            for reason, count in new.view.problems.items():
                violations[reason] += count - old.view.problems.get(reason, 0)
            entries[key] = new
        self._entries = entries
        self.view = {key: entries[key].view for key in jobs}
        self.violations = violations

    def _read(self, target: StatusTarget, old: _Entry, lock_timeout_secs: float) -> _Entry:
        try:
            files = read_status(target.path, owner_uid=target.owner_uid, lock_timeout_secs=lock_timeout_secs)
            if is_unwritten(files.values):
                return _without_status(old)
            status = parse_job_status(files.values, allocated_cpus=target.allocated_cpus)
        except FileNotFoundError:
            return _without_status(old)
        except StatusViolation as violation:
            return _with_problem(old, violation.reason_code, str(violation))
        except LockTimeoutError as error:
            return _with_problem(old, LOCK_TIMEOUT, str(error))
        except UnreadableError as error:
            return _with_problem(old, UNREADABLE, str(error))
        except UnsafePathError as error:
            return _with_problem(old, UNSAFE, str(error))
        except OSError as error:
            return _with_problem(old, UNREADABLE, f"{target.path}: {error.strerror}")
        return self._with_status(old, status, files)

    def _with_status(self, old: _Entry, status: JobStatus, files: StatusFiles) -> _Entry:
        now, monotonic = self._clock.now_secs(), self._clock.monotonic_secs()
        early, reverted_at = _judge_postponing(old, status, monotonic)
        # The job can set any modification time; one in the future would hide the age.
        written_at = min(now, files.written_at_secs if files.written_at_secs is not None else now)
        problems = _counted(old.view.problems, POSTPONE_REVERTED_EARLY) if early else old.view.problems
        view = StatusView(status, written_at, "", problems)
        return _Entry(view, POSTPONE_REVERTED_EARLY if early else "", reverted_at)

    @staticmethod
    def _report(key: JobKey, entry: _Entry) -> None:
        extra = {"batch_system": key.batch_system, "job_id": key.job_id, "reason": entry.reason}
        if entry.view.problem:
            log.warning("job status rejected: %s", entry.view.problem, extra=extra)
        elif entry.reason:
            log.warning(
                "the job set can_postpone_last_job back to True, but soon after that changed other values of "
                "$JOBSTATUS, which it should leave unchanged for 10 minutes",
                extra=extra,
            )
        else:
            log.info("job status is valid again", extra=extra)


def _judge_postponing(old: _Entry, status: JobStatus, now_secs: float) -> tuple[bool, float | None]:
    """Return whether values changed too soon after a return to True, and its time while it is still relevant.

    Source: the draft, 3.8: "should not update any of the other values for a
    significant amount of time". One return is flagged once.
    """
    before = old.view.status
    if before is None:
        return False, None
    reverted_at = old.reverted_at_secs
    if before.can_postpone_last_job is False and status.can_postpone_last_job is True:
        reverted_at = now_secs
    elif status.can_postpone_last_job is not True:
        reverted_at = None
    if reverted_at is None or now_secs - reverted_at >= QUIET_SECS:
        return False, None
    others_changed = replace(before, can_postpone_last_job=None) != replace(
        status, can_postpone_last_job=None
    )
    return others_changed, None if others_changed else reverted_at


def _without_status(old: _Entry) -> _Entry:
    return _Entry(StatusView(problems=old.view.problems))


def _with_problem(old: _Entry, reason: str, text: str) -> _Entry:
    view = replace(old.view, problem=text, problems=_counted(old.view.problems, reason))
    return old._replace(view=view, reason=str(reason))


def _counted(problems: Mapping[str, int], reason: str) -> dict[str, int]:
    return {**problems, str(reason): problems.get(reason, 0) + 1}
