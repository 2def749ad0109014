"""The source that queries the server about the whole cluster, for the controller role."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from jobfeatures.batch.lastjobs import LastJobs
from jobfeatures.batch.pbs import QstatSettings
from jobfeatures.batch.pbs.accounting import read_records
from jobfeatures.batch.pbs.cluster import make_cluster
from jobfeatures.batch.pbs.commands import QstatCommands
from jobfeatures.batch.pbs.jobs import count_cards
from jobfeatures.batch.pbs.values import parse_job_id
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.errors import JobfeaturesError, ParseError, Rejected, SourceError, failing_source
from jobfeatures.joblogs.logfiles import bounded_lines, reading
from jobfeatures.joblogs.loggedjob import Accounting, JobRecord, Notes
from jobfeatures.records.model import Cluster, JobKey, JobState, JobTable
from jobfeatures.system.clock import Clock

MAX_DAYS = 400
MAX_LINE_CHARACTERS = 2**20


class PbsCluster:
    """The controller role's source for PBS and Torque: queries ``qstat`` and ``pbsnodes``.

    It also reads the accounting files if they are on this machine.
    """

    def __init__(
        self,
        system: str,
        config: SystemSettings[QstatSettings],
        clock: Clock,
        timeout_secs: float,
    ) -> None:
        self.name = system
        self._commands = QstatCommands(system, config, timeout_secs)
        self._clock = clock
        self._cards: Mapping[str, int] | None = None  # in use by host, of Torque, by the latest queue
        self._last = LastJobs()
        self._servers: Mapping[JobKey, str] = {}  # of the jobs of earlier answers
        self._accounting = f"{config.own.home}/server_priv/accounting"

    def poll_queue(self) -> JobTable:
        """Return the server's jobs, without array parents. Ended jobs are listed while the server keeps them.

        If a server is silent while others answer, its last known jobs are added, and the table is incomplete.
        """
        taken_at_secs = self._clock.now_secs()
        answer = self._commands.ask("queue")
        rejected = list(answer.problems)
        broken: list[Rejected] = []
        make = self._commands.make_jobs
        made = [*make(answer, node_name=None, now_secs=taken_at_secs, note=rejected.append, broken=broken)]
        self._cards = count_cards(answer.records.found.values())
        table = JobTable(
            source=self.name,
            jobs={job.key: job for job in made if not job.key.job_id.endswith("[]")},
            taken_at_secs=taken_at_secs,
            complete=answer.whole and not broken,
            rejected=(*rejected, *broken),
        )
        servers = {**self._servers, **dict(self._servers_of(answer.records.found))}
        table = self._last.complete(table, answer.complaint, lambda key: servers.get(key, ""))
        self._servers = {key: server for key, server in servers.items() if key in table.jobs}
        return table

    def _servers_of(self, names: Iterable[str]) -> Iterator[tuple[JobKey, str]]:
        """Yield the job of each name, ``123.server``, and its server."""
        for name in names:
            with contextlib.suppress(ParseError):
                yield JobKey(self.name, parse_job_id(name)), name.partition(".")[2]

    def poll_cluster(self) -> Cluster:
        """Return the nodes and execution queues."""
        taken_at_secs = self._clock.now_secs()
        nodes, queues = self._commands.ask("nodes"), self._commands.ask("queues")
        cluster = make_cluster(
            nodes.records,
            queues.records,
            source=self.name,
            taken_at_secs=taken_at_secs,
            cards=self._cards,
        )
        if not cluster.nodes:
            first = next((each.reason for each in cluster.rejected), "it is empty")
            raise SourceError(f"pbsnodes: no nodes in the answer: {nodes.complaint or first}")
        remarks = (*nodes.complaints, *queues.complaints)
        return replace(cluster, rejected=(*cluster.rejected, *remarks))

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Return the jobs in accounting files that ended since `since_secs` (epoch), or have not ended."""
        now_secs = self._clock.now_secs()
        folder = self._accounting
        with failing_source(folder, OSError):
            there = set(os.listdir(folder))
        wanted = [f"{folder}/{name}" for name in file_names(since_secs, now_secs) if name in there]
        records: list[JobRecord] = []
        rejected: list[Rejected] = []
        notes = Notes()
        try:
            for each in read_records(_lines(wanted), source=folder, notes=notes):
                if isinstance(each, Rejected):
                    rejected.append(each)
                elif each.state is not JobState.PREEMPTED and (each.end_secs or now_secs) >= since_secs:
                    records.append(replace(each, batch_system=self.name))
        except JobfeaturesError as error:
            raise SourceError(str(error)) from error
        rejected += notes.faults(folder)
        return Accounting(self.name, tuple(records), now_secs, tuple(rejected))


def local_day(secs: float) -> date:
    """Return the date of an epoch time in this machine's zone."""
    return datetime.fromtimestamp(max(0.0, secs), UTC).astimezone().date()


def file_names(since_secs: float, now_secs: float) -> list[str]:
    """Return the names of the accounting files (one a day) between two epoch times, at most `MAX_DAYS`.

    The server is assumed to be in this machine's time zone.
    """
    last = local_day(now_secs)
    ago = min((last - local_day(since_secs)).days, MAX_DAYS)
    return [(last - timedelta(days=days)).strftime("%Y%m%d") for days in range(ago, -1, -1)]


def _lines(names: list[str]) -> Iterator[str]:
    for name in names:
        with reading(name) as stream:
            yield from bounded_lines(stream, most=MAX_LINE_CHARACTERS)
