"""Queries a batch system for one user's jobs, and for the values on which the user's share depends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from jobfeatures.analysis.schedule.live.facts import why_not
from jobfeatures.analysis.schedule.live.userhistory import (
    JobsOfUser,
    NoSuchJobError,
    ReportedJob,
    choose_jobs,
    compute_begin,
    find_job,
    merge,
    reported_by_accounting,
    reported_by_queue,
)
from jobfeatures.analysis.schedule.shares import CPU, STEPS, ShareRules, Shares, make_shares
from jobfeatures.batch.source import ClusterSource, HistorySource, UserSource
from jobfeatures.errors import SourceError, shown
from jobfeatures.joblogs.loggedjob import Accounting
from jobfeatures.system.clock import Clock

EARLY: Final = "bounds may be too early"
HIDDEN: Final = "jobs of others may be hidden from you (in Slurm: PrivateData)"

Found = tuple[JobsOfUser, Shares, float, tuple[str, ...]]  # the job, shares, now, notes on unknowns


class UserJobs:
    """Queries a batch system for one user's jobs and share."""

    def __init__(self, source: ClusterSource, clock: Clock, rules: ShareRules, history_secs: float) -> None:
        self._source = source
        self._clock = clock
        self._rules = rules
        self._history_secs = history_secs
        self._notes: list[str] = []

    def ask(self, job_id: str) -> Found:
        """Query the user who owns the job `job_id`: the user's jobs and share.

        Returns the user's jobs, the shares, the time of the query (epoch seconds), and notes on what could
        not be read. Raises SourceError if the batch system does not answer, NoSuchJobError if it has no such
        job.
        """
        now_secs = self._clock.now_secs()
        begin_secs = compute_begin(now_secs, self._history_secs)
        user = None
        if isinstance(self._source, UserSource):
            user = self._source.find_user(job_id)
            if user is None:
                raise NoSuchJobError(f"{self._source.name} has no job {shown(job_id)}; {HIDDEN}")
        reported = self._jobs(user, begin_secs)
        submit_secs = None
        with contextlib.suppress(NoSuchJobError):
            submit_secs = find_job(merge(reported), job_id).facts.submit_secs
        if submit_secs is not None and submit_secs < begin_secs:
            reported = self._jobs(user, compute_begin(submit_secs, self._history_secs))
        elif submit_secs is None and user is not None:
            reported = self._jobs(user, 0)  # it ended earlier
        try:
            asked = choose_jobs(reported, job_id)
        except NoSuchJobError as error:
            reason = "a longer --history reaches further back"
            if user is not None:
                reason = "if it has just ended, accounting may not have it yet"
            raise NoSuchJobError(f"{error}: {reason}; {HIDDEN}") from None
        shares = self._shares(asked.reported.facts.user or "", begin_secs)
        return asked, shares, now_secs, tuple(self._notes)

    def _jobs(self, user: str | None, since_secs: float) -> list[ReportedJob]:
        """Return a user's jobs, or all. Query the queue first, so as to miss no job that ends meanwhile."""
        self._notes.clear()
        source = self._source
        ask: Callable[[float], Accounting]
        if user is not None and isinstance(source, UserSource):
            queue, ask = source.poll_user_queue(user), partial(source.poll_user_history, user)
        else:
            queue, ask = source.poll_queue(), source.poll_accounting
        reported = [reported_by_queue(job) for job in queue.jobs.values()]
        rejected = len(queue.rejected)
        try:
            accounting = ask(since_secs)
        except SourceError as error:
            self._notes.append(f"jobs that have ended: {EARLY} ({error})")
        else:
            reported += map(reported_by_accounting, accounting.records)
            rejected += len(accounting.rejected)
        if rejected:
            self._notes.append(f"{rejected} records that could not be read")
        return [each for each in reported if each is not None]

    def _shares(self, user: str, begin_secs: float) -> Shares:
        """Return the shares. Raises SourceError where the default is needed and unknown."""
        total = users = 0
        if CPU not in self._rules.default and user not in self._rules.users:
            total = sum(node.cpus or 0 for node in self._source.poll_cluster().nodes)
            if not total:
                raise SourceError("no node reports its CPUs, so the default share is unknown: use --share")
            users = len(self._users(begin_secs, begin_secs + self._history_secs))
            if users < 2:
                self._notes.append(
                    f"other users with jobs at that time, so the share may be too large; {HIDDEN}"
                )
        shares = make_shares(
            CPU, self._rules, total=total * STEPS[CPU], total_from="nodes", all_users=users, groups_of={}
        )
        if not total:
            return shares
        by = f" / {users} users with jobs before" if users else ", no user had jobs before"
        return replace(shares, default_from=f"{total} CPUs of all nodes{by}")

    def _users(self, begin_secs: float, until_secs: float) -> set[str | None]:
        """Return users with jobs that count and ended between two times, as the controller role counts."""
        source = self._source
        if isinstance(source, HistorySource):
            accounting = source.poll_history(begin_secs, until_secs)
        else:
            accounting = source.poll_accounting(begin_secs)
        ended = (
            reported.facts
            for each in accounting.records
            if (reported := reported_by_accounting(each)) is not None
        )
        return {
            facts.user
            for facts in ended
            if begin_secs <= (facts.end_secs or 0) < until_secs and why_not(facts) is None
        }
