"""The source that asks the server about the whole cluster, for the controller role."""

from __future__ import annotations

from functools import partial

from jobfeatures.batch.pbs.cluster import make_cluster
from jobfeatures.batch.pbs.commands import Commands
from jobfeatures.batch.pbs.history import read_accounting
from jobfeatures.batch.pbs.jobs import make_job
from jobfeatures.clock import Clock
from jobfeatures.errors import Rejected, SourceError, parse_each
from jobfeatures.joblog import Accounting
from jobfeatures.model import Cluster, JobTable


class PbsCluster:
    """Asks ``qstat`` and ``pbsnodes``, and reads the accounting files where they are on this machine."""

    def __init__(self, commands: Commands, clock: Clock, *, home: str) -> None:
        self.name = commands.name
        self._commands = commands
        self._clock = clock
        self._accounting = f"{home}/server_priv/accounting"

    def poll_queue(self) -> JobTable:
        """Return the jobs that the server has. Arrays as such are left out: their jobs are there one by one.

        A job that has ended is in it as long as the server keeps it: in
        Torque for keep_completed seconds, in PBS not at all.
        """
        taken_at_secs = self._clock.now_secs()
        answer = self._commands.ask_queue()
        rejected = list(answer.records.rejected)
        if answer.complaint:
            rejected.append(Rejected("qstat", f"standard error says {answer.complaint}"))
        make = partial(
            make_job,
            batch_system=self.name,
            states=self._commands.states,
            node_name=None,
            note=rejected.append,
            source="qstat",
        )
        broken: list[Rejected] = []
        made = list(parse_each(make, answer.records.found.values(), broken))
        return JobTable(
            source=self.name,
            jobs={job.key: job for job in made if not job.key.job_id.endswith("[]")},
            taken_at_secs=taken_at_secs,
            complete=answer.whole and not broken,
            rejected=(*rejected, *broken),
        )

    def poll_cluster(self) -> Cluster:
        """Return nodes and execution queues."""
        taken_at_secs = self._clock.now_secs()
        nodes, queues = self._commands.ask_nodes(None), self._commands.ask_queues()
        cluster = make_cluster(nodes.records, queues.records, source=self.name, taken_at_secs=taken_at_secs)
        if not cluster.nodes:
            raise SourceError(f"pbsnodes: no nodes in the answer: {nodes.complaint or cluster.rejected[:1]}")
        return cluster

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Return the jobs that the accounting files of the days since then tell of."""
        return read_accounting(
            self._accounting, self.name, since_secs=since_secs, now_secs=self._clock.now_secs()
        )
