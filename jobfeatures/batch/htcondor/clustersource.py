"""The source that queries HTCondor about the whole pool, for the controller role."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from jobfeatures.batch.htcondor import COMMAND, VARIABLES, HTCondorSettings
from jobfeatures.batch.htcondor.accounting import HISTORY_ATTRIBUTES, HISTORY_SOURCE, parse_record
from jobfeatures.batch.htcondor.evaluate import find_evaluator
from jobfeatures.batch.htcondor.fields import NAME, AdReadingOptions, Fields
from jobfeatures.batch.htcondor.jobad import (
    EMPTY,
    QUEUE_ATTRIBUTES,
    QUEUE_SOURCE,
    parse_queue,
    parse_site_limits,
)
from jobfeatures.batch.htcondor.machine import STATUS_ATTRIBUTES, STATUS_SOURCE, parse_status
from jobfeatures.batch.htcondor.schedds import SCHEDD_ATTRIBUTES, LastAnswers, parse_failed, parse_schedds
from jobfeatures.batch.programs import Programs
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.errors import ParseError, Rejected, SourceError, failing_source, parse_each
from jobfeatures.formats.classad.ad import ClassAd
from jobfeatures.formats.classad.jsonform import parse_json_ads
from jobfeatures.joblogs.loggedjob import Accounting, JobRecord
from jobfeatures.records.model import Cluster, JobTable
from jobfeatures.system.clock import Clock
from jobfeatures.system.command import checked

MAX_HISTORY = 100_000  # jobs per query


class CondorPool:
    """The controller role's source for HTCondor.

    Each query runs one process: ``condor_q``, ``condor_status`` or ``condor_history``.
    """

    name = NAME

    def __init__(self, config: SystemSettings[HTCondorSettings], clock: Clock, timeout_secs: float) -> None:
        """`timeout_secs` limits each query. The other commands are taken from condor_status's directory."""
        self._clock = clock
        self._programs = Programs(COMMAND, config.own.condor_status, timeout_secs, kept=VARIABLES)
        self._site_limits = parse_site_limits(config.own.wall_limit_attributes)
        self._last = LastAnswers()
        self._history = _History()

    def poll_queue(self) -> JobTable:
        """Return the jobs of all schedds, with ended ones that a schedd has not moved to its history yet.

        If a schedd does not answer, the jobs of its last answer are added, and the table is incomplete.
        """
        taken_at_secs = self._clock.now_secs()
        text, failed = self._ask_queue((*QUEUE_ATTRIBUTES, *self._site_limits))
        with failing_source(QUEUE_SOURCE, ParseError):
            options = AdReadingOptions(evaluate=find_evaluator(), site_limits=self._site_limits)
            table = parse_queue(text, options, taken_at_secs=taken_at_secs)
        return self._last.complete(table, failed, self._ask_schedds)

    def poll_cluster(self) -> Cluster:
        """Return the machines. HTCondor has no partitions."""
        taken_at_secs = self._clock.now_secs()
        text, complaints = self._programs.run_with_complaints(
            "condor_status", "-json", "-attributes", ",".join(STATUS_ATTRIBUTES)
        )
        with failing_source(STATUS_SOURCE, ParseError):
            cluster = parse_status(text, taken_at_secs=taken_at_secs)
        if not cluster.nodes:
            raise SourceError(f"{self._programs.path('condor_status')}: no machines in the answer")
        return replace(cluster, rejected=(*cluster.rejected, *complaints))

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Return the jobs in the queue, and the local schedd's jobs completed since `since_secs` (epoch)."""
        taken_at_secs = self._clock.now_secs()
        rejected: list[Rejected] = []
        attributes = (*HISTORY_ATTRIBUTES, *self._site_limits)
        history = self._ask_history(since_secs, attributes, rejected)
        queued, failed = self._ask_queue(attributes)
        rejected += (Rejected(QUEUE_SOURCE, f"no answer of {each}", text=why) for each, why in failed.items())
        ads = _parse_ads(queued, QUEUE_SOURCE)
        records = {each.job_id: each for each in _parse_all(ads, QUEUE_SOURCE, rejected)}
        self._history = history
        return Accounting(
            NAME, tuple({**records, **history.records}.values()), taken_at_secs, tuple(rejected)
        )

    def _ask_history(
        self, since_secs: float, attributes: Collection[str], rejected: list[Rejected]
    ) -> _History:
        """Return the ended jobs, after reading the part of the history that was added since the last query.

        Its order is that in which jobs left the queue, where a job may stay after its end:
        ``-completedsince`` stops at the first that ended earlier, and passes over those below it.
        """
        known = self._history if since_secs >= self._history.since_secs else _History()
        newest = known.newest or self._ask_newest()
        since = max(0, math.floor(since_secs) - 1)
        some = ("-constraint", f"CompletionDate >= {since} || EnteredCurrentStatus >= {since}")
        text, complaints = self._programs.run_with_complaints(
            *("condor_history", "-json", "-attributes", ",".join(attributes), "-limit", str(MAX_HISTORY)),
            *(("-since", known.newest) if known.newest else some),
        )
        rejected += complaints
        ads = _parse_ads(text, HISTORY_SOURCE)
        if len(ads) >= MAX_HISTORY:
            rejected.append(Rejected(HISTORY_SOURCE, f"more than {MAX_HISTORY} jobs: others are not read"))
        if known.newest and ads:
            newest = _number_of(ads[0])
        ended = {each.job_id: each for each in _parse_all(ads, HISTORY_SOURCE, rejected)}
        late = {name: each for name, each in known.records.items() if (each.end_secs or 0) >= since}
        return _History(newest, since_secs, {**late, **ended})

    def _ask_newest(self) -> str | None:
        """Return the number of the job that left the queue last, None if none has."""
        text = self._programs.ask("condor_history", "-json", "-attributes", "ClusterId,ProcId", "-limit", "1")
        return next(map(_number_of, _parse_ads(text, HISTORY_SOURCE)), None)

    def _ask_queue(self, attributes: Collection[str]) -> tuple[str, Mapping[str, str]]:
        """Return the jobs of the schedds that answer, and the errors of the others, by address."""
        output = self._programs.run(
            "condor_q", "-global", "-allusers", "-json", "-attributes", ",".join(attributes)
        )
        failed = parse_failed(output.stderr.decode("utf-8", "replace"))
        if not failed:
            checked(self._programs.path("condor_q"), output)
        return output.stdout.decode("utf-8", "replace"), failed

    def _ask_schedds(self) -> Mapping[str, str]:
        """Return the names of the schedds in the collector by address; none where it does not answer."""
        try:
            return parse_schedds(
                self._programs.ask(
                    "condor_status", "-schedd", "-json", "-attributes", ",".join(SCHEDD_ATTRIBUTES)
                )
            )
        except (SourceError, ParseError):
            return {}


class _History(NamedTuple):
    """How far the history was read: the last job that had left the queue, the ended jobs since then."""

    newest: str | None = None  # ClusterId.ProcId
    since_secs: float = math.inf
    records: Mapping[str, JobRecord] = MappingProxyType({})


def _number_of(ad: ClassAd) -> str | None:
    cluster, proc = ad.integer("ClusterId"), ad.integer("ProcId")
    return None if cluster is None or proc is None else f"{cluster}.{proc}"


def _parse_ads(text: str, source: str) -> list[ClassAd]:
    with failing_source(source, ParseError):
        return parse_json_ads("" if text.strip() == EMPTY else text, source=source)


def _parse_all(ads: Iterable[ClassAd], source: str, rejected: list[Rejected]) -> Iterator[JobRecord]:
    options = AdReadingOptions(rejected.append, find_evaluator())
    return parse_each(parse_record, (Fields(ad, source, options) for ad in ads), rejected)
