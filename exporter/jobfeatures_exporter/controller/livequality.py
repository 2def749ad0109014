"""Keeps the quality of one batch system's schedule up to date, from its accounting and its queue.

At the start, accounting is queried for the whole history, later for new records. Answers that were fetched
for Sonar documents are used as well, so that nothing is queried twice.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate

from jobfeatures.analysis.schedule.live.facts import from_queue, from_record
from jobfeatures.analysis.schedule.live.ongoing import LiveSchedule
from jobfeatures.analysis.schedule.live.userhistory import compute_begin, make_rules
from jobfeatures.analysis.schedule.shares import CPU, STEPS, Shares, make_shares
from jobfeatures.batch.source import AnswerT, ClusterSource, HistorySource, Keeper
from jobfeatures.errors import Rejected, SourceError
from jobfeatures.records.model import Cluster, JobTable
from jobfeatures.records.schedulequality import Histogram, ScheduleQuality
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.cluster.accountingfeed import AccountingFeed
from jobfeatures_exporter.config import ExporterConfig

log = logging.getLogger(__name__)

# Accounting may report an end with this delay. A job that left the queue longer ago and has no end never
# gets one: Slurm's accounting does not report jobs that were cancelled while they were held.
SETTLE_SECS = 600.0
CHUNK_SECS = 86_400.0  # of history per query
ACCOUNTING_SECS = 300.0  # between two queries, at least
OTHERS_WAIT_SECS = 0.1


class LiveQuality:
    """Computes the quality of one batch system's schedule, and keeps it up to date at each call of `ask`.

    Only one thread may call `ask`.
    """

    def __init__(
        self,
        source: ClusterSource,
        clock: Clock,
        config: ExporterConfig,
        *,
        feed: AccountingFeed,
        fed_secs: float | None = None,
        queue: Keeper[JobTable],
        cluster: Keeper[Cluster],
    ) -> None:
        """Take `fed_secs`, how often others query `feed` (None: never). Raises ConfigurationError."""
        self._source = source
        self._clock = clock
        self._config = config
        self._rules = make_rules(config.shared.schedule.share, config.shared.schedule.share_of)
        self._feed = feed
        self._queue = queue
        self._cluster = cluster
        self._stopping = threading.Event()
        self._live: LiveSchedule | None = None
        self._shown: ScheduleQuality | None = None
        self._reported_secs = 0.0  # accounting has reported all ends until then, except late ones
        own_secs = max(ACCOUNTING_SECS, config.cluster.interval_secs)
        self._wait_secs = own_secs if fed_secs is None else 2 * fed_secs
        self._overlap_secs = max(SETTLE_SECS, 2 * (fed_secs or 0))

    def stop(self) -> None:
        """Have a call of `ask` that waits for the first report on queue or nodes stop waiting."""
        self._stopping.set()

    def ask(self) -> ScheduleQuality:
        """Query what is new; return the quality of the schedule up to now.

        Raises SourceError if a query fails; what was read before that is kept for the next call.
        """
        if self._live is None or self._was_set_back():
            self._live, self._shown = self._begin(), None
        live = self._live
        rejected: list[Rejected] = []
        if live.shares is None:
            rejected += self._ask_accounting(live)  # takes long; the queue is queried before the rest
        table = self._answer_of(self._queue)
        live.apply_queue(filter(None, map(from_queue, table.jobs.values())), table.taken_at_secs)
        if live.shares is None:
            rejected += self._ask_accounting(live)
            live.use_shares(self._make_shares(live))
        else:
            self._take_from_feed(live)
            if self._is_due():
                rejected += self._ask_accounting(live)
        live.forget_missing(live.horizon_secs(self._reported_secs - SETTLE_SECS))
        live.finalize_ends(min(live.horizon_secs(self._reported_secs), self._reported_secs - SETTLE_SECS))
        found = live.quality(
            self._source.name, table.taken_at_secs, top_users=self._config.schedule_top_users
        )
        self._shown = compute_shown(self._shown, found)
        return replace(self._shown, rejected=tuple(rejected))

    def _was_set_back(self) -> bool:
        """Return whether the clock was so far ahead that settled results are invalid; then start over."""
        ahead_secs = self._reported_secs - self._clock.now_secs()
        if ahead_secs > SETTLE_SECS:
            log.warning(
                "the clock was set back: the figures of the schedule are computed anew, from the "
                "start of their history",
                extra={"by_secs": round(ahead_secs)},
            )
        return ahead_secs > SETTLE_SECS

    def _answer_of(self, keeper: Keeper[AnswerT]) -> AnswerT:
        """Return what another thread has read; at the start, wait for its first answer."""
        while (status := keeper.status).table is None and not status.failures:
            if self._stopping.wait(OTHERS_WAIT_SECS):
                break
        if (table := keeper.status.table) is None:
            raise SourceError(f"{status.name} has not answered yet")
        return table

    def _begin(self) -> LiveSchedule:
        begin_secs = compute_begin(self._clock.now_secs(), self._config.shared.schedule.history_secs)
        self._reported_secs = begin_secs
        return LiveSchedule(begin_secs=begin_secs)

    def _make_shares(self, live: LiveSchedule) -> Shares:
        """Return the shares, fixed for the life of this process. Raises SourceError.

        Users are counted over the first `history_secs`: that part of the
        history does not change, so a restart in the same span gives the same count.
        """
        rules, total = self._rules, 0
        if CPU not in rules.default:
            total = sum(node.cpus or 0 for node in self._answer_of(self._cluster).nodes)
            if not total:
                raise SourceError(
                    "no node reports its CPUs, so the default share is unknown: set schedule.share"
                )
        return make_shares(
            CPU,
            rules,
            total=total * STEPS[CPU],
            total_from="nodes",
            all_users=live.users_of_ended(live.begin_secs + self._config.shared.schedule.history_secs),
            groups_of={},
        )

    # --- accounting -----------------------------------------------------------------

    def _is_due(self) -> bool:
        now_secs = self._clock.now_secs()
        self._reported_secs = min(self._reported_secs, now_secs)  # the clock may have been set back
        return now_secs - self._reported_secs >= self._wait_secs

    def _take_from_feed(self, live: LiveSchedule) -> None:
        """Use the answer read for another consumer, if it leaves no gap."""
        fed = self._feed.take()
        if fed is None or fed.accounting.taken_at_secs <= self._reported_secs:
            return
        if fed.since_secs <= self._reported_secs - SETTLE_SECS:
            live.apply_ended(filter(None, map(from_record, fed.accounting.records)))
            self._reported_secs = fed.accounting.taken_at_secs

    def _ask_accounting(self, live: LiveSchedule) -> list[Rejected]:
        """Query new records, a day at a time; continue there next time if a day fails. Raises SourceError."""
        rejected: list[Rejected] = []
        since_secs = self._reported_secs - self._overlap_secs
        while True:
            now_secs = self._clock.now_secs()
            until_secs = min(max(since_secs + CHUNK_SECS, self._reported_secs), now_secs)
            if isinstance(self._source, HistorySource):
                accounting = self._source.poll_history(since_secs, until_secs)
            else:
                until_secs = now_secs
                accounting = self._source.poll_accounting(since_secs)
            live.apply_ended(filter(None, map(from_record, accounting.records)))
            rejected += accounting.rejected
            if until_secs >= now_secs:
                self._reported_secs = accounting.taken_at_secs
                return rejected
            since_secs = self._reported_secs = until_secs


def compute_shown(before: ScheduleQuality | None, found: ScheduleQuality) -> ScheduleQuality:
    """Return the quality to show: `found`, but with no counter lower than in `before`.

    `before` is what was shown last (None: nothing). Prometheus takes a counter that falls for a reset. The
    schedule's own figures fall when a job is requeued after its end or its record is corrected; the shown
    values stay until other jobs make up for it.
    """
    if before is None:
        return found
    return replace(
        found,
        skipped={
            reason: max(before.skipped.get(reason, 0), found.skipped.get(reason, 0))
            for reason in sorted({*before.skipped, *found.skipped})
        },
        wait_secs=_histograms(before.wait_secs, found.wait_secs),
        slowdown=_histograms(before.slowdown, found.slowdown),
    )


def _histograms(before: Mapping[str, Histogram], found: Mapping[str, Histogram]) -> dict[str, Histogram]:
    """Return the histograms to show; `found` has all partitions of `before`."""
    return {
        partition: _histogram(before[partition], each) if partition in before else each
        for partition, each in found.items()
    }


def _histogram(before: Histogram, found: Histogram) -> Histogram:
    classes = map(max, _classes(before), _classes(found))
    return Histogram(found.bounds, tuple(accumulate(classes)), max(before.sum, found.sum))


def _classes(histogram: Histogram) -> list[int]:
    """Return the count of each class, not cumulative."""
    return [count - below for below, count in zip((0, *histogram.counts), histogram.counts, strict=False)]
