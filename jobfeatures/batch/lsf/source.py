"""The source that queries LSF for the jobs of this node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from fractions import Fraction

from jobfeatures.batch.basics import T, Users, find_host, is_elsewhere, is_host_name
from jobfeatures.batch.lsf import LsfSettings
from jobfeatures.batch.lsf.answers import Record
from jobfeatures.batch.lsf.asking import LsfCommands, read_limit_unit
from jobfeatures.batch.lsf.basics import NAME, is_plain_id
from jobfeatures.batch.lsf.hosts import BHOSTS, BHOSTS_FIELDS, parse_notice
from jobfeatures.batch.lsf.jobs import BJOBS, QueryContext, parse_jobs
from jobfeatures.batch.lsf.limits import (
    HOST_FIELDS,
    LSHOSTS,
    LimitRules,
    hosts_of_limits,
    parse_factors,
    parse_parameters,
    parse_queues,
)
from jobfeatures.batch.questions import NodeQuestion
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.source import PolledSource
from jobfeatures.errors import ParseError, Rejected, SourceError
from jobfeatures.records.model import Job, JobKey, JobState, JobTable, NodeNotice
from jobfeatures.system.clock import Clock

MAX_ASKED_BY_ID = 100  # per poll
MAX_HOSTS_ASKED = 20
ABS_RUNLIMIT = {"auto": None, "yes": True, "no": False}  # None: bparams is queried


class LsfSource(PolledSource):
    """Source of this node's jobs: queries LSF for the jobs dispatched to this host.

    A poll runs one ``bjobs``, and a second one by job id if jobs that have processes or published directories
    here are missing from the first answer. Data that rarely changes (the host's state, CPU factors, limits of
    queues, ABS_RUNLIMIT) is queried every `refresh_secs`.
    """

    name = NAME
    is_local = False

    def __init__(self, config: SystemSettings[LsfSettings], clock: Clock, node_name: str) -> None:
        self._clock = clock
        self._commands = LsfCommands(config, clock, config.common.timeout_secs)
        self._refresh_secs = config.common.refresh_secs
        self._node_name = node_name
        self._abs_runlimit = ABS_RUNLIMIT[config.own.abs_runlimit]
        self._rules = LimitRules(node_name=node_name, absolute=self._abs_runlimit)
        self._node = NodeQuestion(BHOSTS, self._refresh_secs)
        self._refreshed_secs: float | None = None  # monotonic
        self._without_factor: frozenset[str] = frozenset()  # unknown to lshosts: models, or removed hosts
        self._reported: frozenset[Rejected] = frozenset()  # problems already reported
        self._users = Users(clock)

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return the jobs of this host. Raises SourceError if bjobs does not answer.

        Jobs of `seen` (with processes here) and `claimed` (with a published directory or an empty control
        group) are queried by id if they are not listed.
        """
        if not is_host_name(self._node_name):
            raise SourceError(f"node.name is not a host's name: {self._node_name[:80]}")
        taken_at_secs = self._clock.now_secs()
        ours = {key for key in (*seen, *claimed) if key.batch_system == NAME}
        records = self._commands.jobs("-u", "all", "-X", "-m", self._node_name, is_proof=True)
        news = self._refresh(records)
        context = QueryContext(now_secs=taken_at_secs, node_name=self._node_name, rules=self._rules)
        found, rejected = parse_jobs(records, replace(context, asked_by_host=True))
        jobs = {key: job for key, job in found.items() if job.state is not JobState.PENDING}
        complete = not rejected
        missing = sorted(key for key in ours - jobs.keys() if is_plain_id(key.job_id))
        if missing:
            asked = missing[:MAX_ASKED_BY_ID]
            try:
                answer = self._commands.jobs("-u", "all", "-X", *(key.job_id for key in asked), is_proof=True)
                more, bad = parse_jobs(answer, context)
            except SourceError as error:
                rejected.append(Rejected(BJOBS, str(error)))
                complete = False
            else:
                # Jobs that run only on other hosts have left this one.
                jobs |= {
                    key: job
                    for key, job in more.items()
                    if key in ours and not is_elsewhere(job, self._node_name)
                }
                rejected += bad
                # LSF also reports jobs of other users as not found if they are hidden from us.
                hidden = {key for key in missing if key in seen} - more.keys()
                complete = complete and not bad and not hidden and asked == missing
        jobs = {key: self._users.complete(job) for key, job in jobs.items()}
        # Jobs whose ids are not plain cannot be queried: nothing may be concluded about them.
        jobs |= {key: Job(key=key) for key in ours if not is_plain_id(key.job_id)}
        return JobTable(
            source=NAME,
            jobs=jobs,
            taken_at_secs=taken_at_secs,
            complete=complete,
            rejected=(*rejected, *news),
            node=self._node.notice,
            node_problem=str(self._node.problem or ""),
            # LSF makes a group on another host than the first only once the job starts a task there.
            groupless=frozenset(
                key
                for key, job in jobs.items()
                if job.state is JobState.RUNNING
                and len(job.nodes) > 1
                and find_host(job.nodes[:1], self._node_name) is None
            ),
        )

    def _refresh(self, records: Sequence[Record]) -> tuple[Rejected, ...]:
        """Refresh the data that rarely changes if due, keeping it if a query fails; return new problems."""
        now_secs = self._clock.monotonic_secs()
        due = self._refreshed_secs is None or now_secs - self._refreshed_secs >= self._refresh_secs
        problems = set(self._node.ask(self._read_notice, now_secs))
        if due:
            self._refreshed_secs = now_secs
            self._rules = replace(self._rules, unit=read_limit_unit())
            absolute = self._abs_runlimit
            if absolute is None:
                absolute = self._ask(parse_parameters, problems, "bparams", "-a")
            if absolute is not None:
                self._rules = replace(self._rules, absolute=absolute)
        queues = {queue for record in records if is_host_name(queue := record.get("QUEUE", ""))}
        if queues and (due or queues - self._rules.queues.keys()):
            found = self._ask(parse_queues, problems, "bqueues", "-l", *sorted(queues))
            self._rules = replace(self._rules, queues={**self._rules.queues, **(found or {})})
        hosts = {self._node_name, *hosts_of_limits(records, self._rules.queues.values())}
        if due or hosts - self._rules.factors.keys() - self._without_factor:
            self._refresh_factors(hosts, problems)
        news = problems - self._reported
        self._reported = frozenset(problems) if due else self._reported | problems
        return tuple(sorted(news, key=str))

    def _read_notice(self) -> NodeNotice | None:
        records = self._commands.records(BHOSTS, BHOSTS_FIELDS, "-X", self._node_name)
        return parse_notice(records, self._node_name)

    def _ask(
        self, parse: Callable[[str], T], problems: set[Rejected], command: str, *arguments: str
    ) -> T | None:
        try:
            return parse(self._commands.text(command, *arguments))
        except (SourceError, ParseError) as error:
            problems.add(Rejected(command, str(error)))
            return None

    def _refresh_factors(self, hosts: Collection[str], problems: set[Rejected]) -> None:
        """Query CPU factors: of this host, then of the hosts that limits name, which may be models."""
        factors: dict[str, Fraction] = {}
        rest = sorted(host for host in hosts if is_host_name(host) and host != self._node_name)
        for asked in ([self._node_name], *([host] for host in rest[:MAX_HOSTS_ASKED])):
            try:
                more, rejected = parse_factors(self._commands.records(LSHOSTS, HOST_FIELDS, *asked))
            except SourceError as error:
                if asked == [self._node_name]:
                    problems.add(Rejected(LSHOSTS, str(error)))
                continue
            factors |= more
            problems.update(rejected)
        self._rules = replace(self._rules, factors={**self._rules.factors, **factors})
        self._without_factor = frozenset(hosts) - self._rules.factors.keys()
