"""The source that queries HTCondor about the whole pool, for the controller role."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from functools import partial

from jobfeatures.batch.htcondor import SYSTEM
from jobfeatures.batch.htcondor.accounting import HISTORY_ATTRIBUTES, HISTORY_SOURCE, parse_record
from jobfeatures.batch.htcondor.evaluate import find_evaluator
from jobfeatures.batch.htcondor.fields import NAME
from jobfeatures.batch.htcondor.jobad import (
    EMPTY,
    QUEUE_ATTRIBUTES,
    QUEUE_SOURCE,
    parse_queue,
    parse_site_limits,
)
from jobfeatures.batch.htcondor.machine import STATUS_ATTRIBUTES, STATUS_SOURCE, parse_status
from jobfeatures.batch.programs import Programs
from jobfeatures.config import Config
from jobfeatures.errors import ParseError, Rejected, SourceError, failing_source, parse_each
from jobfeatures.formats.classad.jsonform import parse_json_ads
from jobfeatures.joblogs.loggedjob import Accounting, JobRecord
from jobfeatures.records.model import Cluster, JobTable
from jobfeatures.system.clock import Clock

MAX_HISTORY = 100_000  # jobs per query


class CondorPool:
    """Queries ``condor_q``, ``condor_status`` and ``condor_history``, with one process per query."""

    name = NAME

    def __init__(self, config: Config, clock: Clock, timeout_secs: float) -> None:
        """`timeout_secs` limits each query. The other commands are taken from condor_status's directory."""
        self._clock = clock
        self._programs = Programs(SYSTEM, config, timeout_secs)
        self._site_limits = parse_site_limits(config.htcondor_wall_limit_attributes)

    def poll_queue(self) -> JobTable:
        """Return the jobs of all schedds; ended ones stay until their schedd moves them to its history."""
        taken_at_secs = self._clock.now_secs()
        text = self._ask_queue((*QUEUE_ATTRIBUTES, *self._site_limits))
        with failing_source(QUEUE_SOURCE, ParseError):
            return parse_queue(
                text, taken_at_secs=taken_at_secs, site_limits=self._site_limits, evaluate=find_evaluator()
            )

    def poll_cluster(self) -> Cluster:
        """Return the machines. HTCondor has no partitions."""
        taken_at_secs = self._clock.now_secs()
        text = self._programs.ask("condor_status", "-json", "-attributes", ",".join(STATUS_ATTRIBUTES))
        with failing_source(STATUS_SOURCE, ParseError):
            cluster = parse_status(text, taken_at_secs=taken_at_secs)
        if not cluster.nodes:
            raise SourceError(f"{self._programs.path('condor_status')}: no machines in the answer")
        return cluster

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Return the jobs in the queue, and the local schedd's jobs completed since `since_secs` (epoch)."""
        taken_at_secs = self._clock.now_secs()
        rejected: list[Rejected] = []
        attributes = (*HISTORY_ATTRIBUTES, *self._site_limits)
        ended = self._programs.ask(
            *("condor_history", "-json", "-attributes", ",".join(attributes)),
            *("-completedsince", str(max(0, math.floor(since_secs) - 1)), "-limit", str(MAX_HISTORY)),
        )
        queued = self._ask_queue(attributes)
        records = {each.job_id: each for each in _parse_records(queued, QUEUE_SOURCE, rejected)}
        records |= {each.job_id: each for each in _parse_records(ended, HISTORY_SOURCE, rejected)}
        return Accounting(NAME, tuple(records.values()), taken_at_secs, tuple(rejected))

    def _ask_queue(self, attributes: Collection[str]) -> str:
        return self._programs.ask(
            "condor_q", "-global", "-allusers", "-json", "-attributes", ",".join(attributes)
        )


def _parse_records(text: str, source: str, rejected: list[Rejected]) -> Iterator[JobRecord]:
    parse = partial(parse_record, source=source, note=rejected.append, evaluate=find_evaluator())
    with failing_source(source, ParseError):
        ads = parse_json_ads("" if text.strip() == EMPTY else text, source=source)
    yield from parse_each(parse, ads, rejected)


make_cluster_source = CondorPool
