"""The source that queries the server about the whole cluster, for the controller role."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from jobfeatures.batch.pbs import setting
from jobfeatures.batch.pbs.accounting import read_records
from jobfeatures.batch.pbs.cluster import make_cluster
from jobfeatures.batch.pbs.commands import Commands
from jobfeatures.config import Config
from jobfeatures.errors import JobfeaturesError, Rejected, SourceError, failing_source
from jobfeatures.joblogs.logfiles import bounded_lines, reading
from jobfeatures.joblogs.loggedjob import Accounting, JobRecord, Notes
from jobfeatures.records.model import Cluster, JobTable
from jobfeatures.system.clock import Clock

MAX_DAYS = 400
MAX_LINE_CHARACTERS = 2**20


class PbsCluster:
    """Queries ``qstat`` and ``pbsnodes``, and reads the accounting files if they are on this machine."""

    def __init__(self, system: str, config: Config, clock: Clock, timeout_secs: float) -> None:
        self.name = system
        self._commands = Commands(system, config, timeout_secs)
        self._clock = clock
        self._accounting = f"{setting(config, system, 'home')}/server_priv/accounting"

    def poll_queue(self) -> JobTable:
        """Return the server's jobs. Array parents are left out, as their subjobs are listed one by one.

        Ended jobs are listed until the server drops them: Torque keeps them for
        keep_completed seconds, PBS not at all.
        """
        taken_at_secs = self._clock.now_secs()
        answer = self._commands.ask("queue")
        rejected = list(answer.problems)
        broken: list[Rejected] = []
        made = list(self._commands.make_jobs(answer, node_name=None, note=rejected.append, broken=broken))
        return JobTable(
            source=self.name,
            jobs={job.key: job for job in made if not job.key.job_id.endswith("[]")},
            taken_at_secs=taken_at_secs,
            complete=answer.whole and not broken,
            rejected=(*rejected, *broken),
        )

    def poll_cluster(self) -> Cluster:
        """Return the nodes and execution queues."""
        taken_at_secs = self._clock.now_secs()
        nodes, queues = self._commands.ask("nodes"), self._commands.ask("queues")
        cluster = make_cluster(nodes.records, queues.records, source=self.name, taken_at_secs=taken_at_secs)
        if not cluster.nodes:
            raise SourceError(f"pbsnodes: no nodes in the answer: {nodes.complaint or cluster.rejected[:1]}")
        return cluster

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Return the jobs in the accounting files of the days since `since_secs`."""
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
                elif each.end_secs is None or each.end_secs >= since_secs:
                    records.append(replace(each, batch_system=self.name))
        except JobfeaturesError as error:
            raise SourceError(str(error)) from error
        rejected += notes.faults(folder)
        return Accounting(self.name, tuple(records), now_secs, tuple(rejected))


def local_day(secs: float) -> date:
    """Return the date of an epoch time in this machine's zone."""
    return datetime.fromtimestamp(max(0.0, secs), UTC).astimezone().date()


def file_names(since_secs: float, now_secs: float) -> list[str]:
    """Return the accounting file names of these days; the server is assumed to share this machine's zone."""
    last = local_day(now_secs)
    ago = min((last - local_day(since_secs)).days, MAX_DAYS)
    return [(last - timedelta(days=days)).strftime("%Y%m%d") for days in range(ago, -1, -1)]


def _lines(names: list[str]) -> Iterator[str]:
    for name in names:
        with reading(name) as stream:
            yield from bounded_lines(stream, most=MAX_LINE_CHARACTERS)
