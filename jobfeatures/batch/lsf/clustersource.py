"""The controller role's source for LSF: queries about the whole cluster."""

from __future__ import annotations

from dataclasses import replace

from jobfeatures.batch.lastjobs import LastJobs, is_silence
from jobfeatures.batch.lsf import LsfSettings
from jobfeatures.batch.lsf.asking import LsfCommands, read_limit_unit
from jobfeatures.batch.lsf.basics import NAME
from jobfeatures.batch.lsf.hosts import (
    BHOSTS,
    BHOSTS_FIELDS,
    BQUEUES,
    BQUEUES_FIELDS,
    parse_cluster,
    parse_memory,
)
from jobfeatures.batch.lsf.jobs import QueryContext, parse_jobs
from jobfeatures.batch.lsf.limits import HOST_FIELDS, LSHOSTS, LimitRules
from jobfeatures.batch.programs import MAX_ANSWER_BYTES
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.errors import Rejected, SourceError
from jobfeatures.joblogs.loggedjob import Accounting
from jobfeatures.records.model import Cluster, JobTable
from jobfeatures.system.clock import Clock


class LsfCluster:
    """The controller role's source for LSF: runs ``bjobs``, ``bhosts``, ``bqueues`` and ``lshosts``."""

    name = NAME

    def __init__(self, config: SystemSettings[LsfSettings], clock: Clock, timeout_secs: float) -> None:
        self._clock = clock
        self._commands = LsfCommands(config, clock, timeout_secs, MAX_ANSWER_BYTES)
        self._last = LastJobs()

    def poll_queue(self) -> JobTable:
        """Return the jobs in the queue, and those that ended within CLEAN_PERIOD.

        They have no time limits, as these depend on the host. While a part of LSF is silent, its last known
        jobs are added, and the table is marked incomplete.
        """
        taken_at_secs = self._clock.now_secs()
        rules = LimitRules(unit=read_limit_unit())
        remarks: list[Rejected] = []
        records = self._commands.jobs("-u", "all", "-a", "-X", remarks=remarks)
        jobs, rejected = parse_jobs(records, QueryContext(now_secs=taken_at_secs, rules=rules))
        table = JobTable.listed(NAME, jobs, taken_at_secs, [*rejected, *remarks])
        silent = next((each.reason for each in remarks if is_silence(each.reason)), "")
        return self._last.complete(table, silent)

    def poll_cluster(self) -> Cluster:
        """Return hosts and queues. Hosts have no queues, as bqueues only reports host groups."""
        taken_at_secs = self._clock.now_secs()
        remarks: list[Rejected] = []
        hosts = self._commands.records(BHOSTS, BHOSTS_FIELDS, "-X", remarks=remarks)
        queues = self._commands.records(BQUEUES, BQUEUES_FIELDS, remarks=remarks)
        try:
            memory = parse_memory(self._commands.records(LSHOSTS, HOST_FIELDS))
        except SourceError:  # hosts without memory sizes are better than none
            memory = {}
        cluster = parse_cluster(hosts, queues, memory, taken_at_secs=taken_at_secs)
        if not cluster.nodes:
            raise SourceError(f"{BHOSTS}: no hosts in the answer")
        return replace(cluster, rejected=(*cluster.rejected, *remarks))

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Raise SourceError, as LSF has no command for this: its accounting is a file, lsb.acct."""
        del since_secs
        raise SourceError("LSF's accounting cannot be queried: read its file lsb.acct by jobfeatures convert")
