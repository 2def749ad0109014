"""The last good status of every job, and what was wrong since.

One thread refreshes; `view` and `violations` are each replaced by one
assignment, so that readers take no lock.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from jobfeatures.clock import Clock
from jobfeatures.errors import LockTimeoutError, UnsafePathError
from jobfeatures.model import JobKey
from jobfeatures.status.directory import LOCK_TIMEOUT_SECS, StatusFiles, UnreadableError, read_status
from jobfeatures.status.jobstatus import (
    QUIET_SECS,
    JobStatus,
    Reason,
    StatusViolation,
    is_unwritten,
    parse_job_status,
)

log = logging.getLogger(__name__)

UNSAFE = "unsafe"
UNREADABLE = "unreadable"
LOCK_TIMEOUT = "lock_timeout"
POSTPONE_REVERTED_EARLY = "postpone_reverted_early"
REASONS = (*(str(each) for each in Reason), UNSAFE, UNREADABLE, LOCK_TIMEOUT, POSTPONE_REVERTED_EARLY)

LOCK_BUDGET_SECS = 1.0  # of one refresh, over all jobs


class StatusTarget(NamedTuple):
    """Where a job's status is, who has to own it, and how many CPUs it may claim (None: unknown)."""

    path: str
    owner_uid: int
    allocated_cpus: int | None


@dataclass(frozen=True, slots=True)
class StatusView:
    """What is known of one job's status; replaced as a whole. Times are epoch seconds.

    `status` is the last good set, None while the job has written none (or has
    taken it back by removing its files).
    """

    status: JobStatus | None = None
    written_at_secs: float | None = None  # when the job last wrote it: its newest modification time
    problem: str = ""  # why the latest look gave no good set; empty if it did, or there is nothing to see
    problems: Mapping[str, int] = field(default_factory=dict)  # looks with a problem, by reason

    def age_secs(self, now_secs: float) -> float | None:
        """Return how long ago the job wrote the good set, None without one."""
        return None if self.written_at_secs is None else max(0.0, now_secs - self.written_at_secs)


class _Kept(NamedTuple):
    """A view, and what it takes to judge the next look."""

    view: StatusView = StatusView()
    reason: str = ""  # of the latest problem
    reverted_at_secs: float | None = None  # monotonic; can_postpone_last_job went back to True


class StatusBoard:
    """Keeps the jobs' statuses. `refresh` is called by one thread at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[JobKey, _Kept] = {}
        self.view: Mapping[JobKey, StatusView] = {}
        # Looks with a problem since the start, by reason, over all jobs, also those that have ended.
        self.violations: Mapping[str, int] = dict.fromkeys(REASONS, 0)

    def refresh(self, jobs: Mapping[JobKey, StatusTarget], *, only: Collection[JobKey] | None = None) -> None:
        """Look at the status of these jobs, and forget all others.

        With `only`, just these are looked at, and those that are new; of the others is kept what is known.

        Jobs whose lock was held the last time are asked last. Once the refresh has lasted as long as the
        budget, a job is still tried, but its lock is not waited for. So no job is skipped, and held locks,
        few or many, delay a refresh by the budget at most.
        """
        deadline = self._clock.monotonic_secs() + LOCK_BUDGET_SECS
        violations = dict(self.violations)
        kept: dict[JobKey, _Kept] = {}
        stuck = {key for key, each in self._kept.items() if each.reason == LOCK_TIMEOUT}
        for key in sorted(jobs, key=stuck.__contains__):
            old = self._kept.get(key, _Kept())
            if only is not None and key not in only and key in self._kept:
                kept[key] = old
                continue
            left = max(0.0, deadline - self._clock.monotonic_secs())
            new = self._look(jobs[key], old, min(LOCK_TIMEOUT_SECS, left))
            if new.reason != old.reason:  # once per kind of problem, not once per refresh
                self._report(key, new)
            for reason, count in new.view.problems.items():
                violations[reason] += count - old.view.problems.get(reason, 0)
            kept[key] = new
        self._kept = kept
        self.view = {key: kept[key].view for key in jobs}
        self.violations = violations

    def _look(self, target: StatusTarget, old: _Kept, lock_timeout_secs: float) -> _Kept:
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

    def _with_status(self, old: _Kept, status: JobStatus, files: StatusFiles) -> _Kept:
        now, monotonic = self._clock.now_secs(), self._clock.monotonic_secs()
        early, reverted_at = _judge_postponing(old, status, monotonic)
        # The job can set any modification time; one in the future would hide the age.
        written_at = min(now, files.written_at_secs if files.written_at_secs is not None else now)
        problems = _counted(old.view.problems, POSTPONE_REVERTED_EARLY) if early else old.view.problems
        view = StatusView(status, written_at, "", problems)
        return _Kept(view, POSTPONE_REVERTED_EARLY if early else "", reverted_at)

    @staticmethod
    def _report(key: JobKey, kept: _Kept) -> None:
        extra = {"batch_system": key.batch_system, "job_id": key.job_id, "reason": kept.reason}
        if kept.view.problem:
            log.warning("job status rejected: %s", kept.view.problem, extra=extra)
        elif kept.reason:
            log.warning("can_postpone_last_job went back to True and other values changed", extra=extra)
        else:
            log.info("job status has no problem any more", extra=extra)


def _judge_postponing(old: _Kept, status: JobStatus, now_secs: float) -> tuple[bool, float | None]:
    """Return whether values changed too soon after a return to True, and when it was, while that matters.

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


def _without_status(old: _Kept) -> _Kept:
    return _Kept(StatusView(problems=old.view.problems))


def _with_problem(old: _Kept, reason: str, text: str) -> _Kept:
    view = replace(old.view, problem=text, problems=_counted(old.view.problems, reason))
    return old._replace(view=view, reason=str(reason))


def _counted(problems: Mapping[str, int], reason: str) -> dict[str, int]:
    return {**problems, str(reason): problems.get(reason, 0) + 1}
