"""Sources that query slurmrestd: about a node's jobs one by one, or about all for the controller role."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import quote

from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.slurm import SlurmSettings
from jobfeatures.batch.slurm.answers import Answers
from jobfeatures.batch.slurm.basics import NAME, checked_id
from jobfeatures.batch.slurm.json.accounting import parse_json_accounting
from jobfeatures.batch.slurm.json.cluster import (
    parse_json_cluster,
    parse_json_diag,
    parse_json_licences,
    parse_json_notice,
    parse_json_reservations,
)
from jobfeatures.batch.slurm.json.jobs import parse_json_job, parse_json_jobs
from jobfeatures.batch.slurm.json.rest import make_rest
from jobfeatures.batch.slurm.json.values import JsonRecord, complaints, error_numbers
from jobfeatures.batch.slurm.node import NodeAnswer
from jobfeatures.errors import ParseError, Rejected, SourceError, shown
from jobfeatures.joblogs.loggedjob import Accounting
from jobfeatures.records.administration import FairShares, Licences, Reservations, Scheduler
from jobfeatures.records.model import Cluster, Job, JobTable
from jobfeatures.system.clock import Clock

T = TypeVar("T")
MAX_ANSWER_BYTES = 32 * 2**20
MAX_WHOLE_ANSWER_BYTES = 2**30  # a job is 3 to 5 kB of JSON
INVALID_JOB_ID = 2017  # slurm_errno.h, ESLURM_INVALID_JOB_ID


class JsonAsker:
    """Queries slurmrestd about a node's jobs one by one; all queries of a poll share one timeout."""

    def __init__(
        self, config: SystemSettings[SlurmSettings], clock: Clock, node_name: str, timeout_secs: float
    ) -> None:
        """Raise ConfigurationError if slurmrestd's address is not set or invalid."""
        self._clock = clock
        self._rest = make_rest(config, max_bytes=MAX_ANSWER_BYTES)
        self._node_name = node_name
        self._timeout_secs = timeout_secs

    def ask(
        self,
        job_ids: Collection[str],
        *,
        about_node: bool,
        now_secs: float,
        known: Mapping[str, Job] = MappingProxyType({}),
    ) -> tuple[Answers, NodeAnswer | None]:
        """Query the jobs `job_ids` and, if `about_node`, this node; return both answers.

        The second answer is None if the node was not queried or gave no answer. All details are queried, even
        of `known` jobs. A job is gone only if Slurm answers with the error number of "Invalid job id". The
        first query without an answer ends the poll, as further ones would wait too; if it is the very first,
        SourceError is raised.
        """
        del known
        deadline = self._clock.monotonic_secs() + self._timeout_secs
        jobs: dict[str, Job] = {}
        gone: set[str] = set()
        rejected: dict[str, Rejected] = {}
        complaint = ""
        answered = 0
        try:
            for job_id in job_ids:
                document = self._rest.ask(f"job/{quote(job_id, safe='')}", self._remaining_secs(deadline))
                answered += 1
                try:
                    job = self._job_of(document, job_id)
                except ParseError as error:
                    reported = error.at(self._rest.name, about=f"job {job_id}")
                    rejected[job_id] = Rejected.from_error(reported)
                    continue
                if job is not None:
                    jobs[job_id] = job
                elif INVALID_JOB_ID in error_numbers(document):
                    gone.add(job_id)
                else:
                    errors = complaints(document)
                    complaint = complaint or shown(errors[0] if errors else f"no record of job {job_id}")
        except SourceError as error:
            if not answered:
                raise
            complaint = complaint or str(error)
        node = None
        if about_node and answered == len(job_ids):
            try:
                node = self._ask_about_node(deadline, now_secs)
            except SourceError:  # says nothing about jobs
                if not job_ids:
                    raise
        answers = Answers(
            jobs=jobs,
            gone=frozenset(gone),
            rejected=rejected,
            ask_alone={},
            complete=not complaint and len(jobs) + len(gone) + len(rejected) == len(job_ids),
            complaint=complaint,
        )
        return answers, node

    def ask_about_job(self, job_id: str) -> Job | None:
        """Return one job, None if Slurm does not know it.

        Raises SourceError if Slurm does not answer, ParseError if the job's record is malformed.
        """
        answers, _ = self.ask([checked_id(job_id)], about_node=False, now_secs=0.0)
        return answers.one(job_id, self._rest.name)

    def _remaining_secs(self, deadline: float) -> float:
        remaining = deadline - self._clock.monotonic_secs()
        if remaining <= 0:
            raise SourceError(f"{self._rest.name}: answers took longer than {self._timeout_secs:g} s")
        return remaining

    def _job_of(self, document: JsonRecord, job_id: str) -> Job | None:
        """Return the queried job; answers may hold an array's other tasks or a heterogeneous job's parts."""
        own = [each for each in document.records("jobs") if str(each.get("job_id")) == job_id]
        if len(own) > 1:
            raise ParseError("the answer has several records of this job", field="job_id")
        return parse_json_job(own[0], node_name=self._node_name) if own else None

    def _ask_about_node(self, deadline: float, now_secs: float) -> NodeAnswer:
        node = self._rest.ask(f"node/{quote(self._node_name, safe='')}", self._remaining_secs(deadline))
        reservations = self._rest.ask("reservations", self._remaining_secs(deadline))
        return parse_json_notice(
            node, reservations, node_name=self._node_name, now_secs=now_secs, source=self._rest.name
        )


class JsonCluster:
    """The controller role's source: queries slurmrestd about the whole cluster."""

    name = NAME

    def __init__(self, config: SystemSettings[SlurmSettings], clock: Clock, timeout_secs: float) -> None:
        """`timeout_secs` limits each query. Raise ConfigurationError as `JsonAsker` does."""
        self._clock = clock
        self._rest = make_rest(config, max_bytes=MAX_WHOLE_ANSWER_BYTES)
        self._timeout_secs = timeout_secs

    def poll_queue(self) -> JobTable:
        """Return the queue, with jobs that ended within MinJobAge.

        The table is incomplete if Slurm's answer reports an error.
        """
        table, problems = self._ask_with_errors("jobs", "jobs", parse_json_jobs)
        return replace(table, complete=table.complete and not problems)

    def poll_cluster(self) -> Cluster:
        """Return nodes and partitions."""
        partitions = self._answer("partitions", "partitions")
        cluster = self._reported("nodes", "nodes", partial(parse_json_cluster, partitions=partitions))
        if not cluster.nodes:
            raise SourceError(f"{self._rest.name}: no nodes in the answer")
        return replace(cluster, rejected=(*cluster.rejected, *self._errors_of(partitions)))

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Return the jobs, and their steps, that were pending, running or ended since `since_secs`.

        `since_secs` is epoch time.
        """
        question = f"jobs?start_time=uts{int(since_secs)}"
        return self._reported(question, "jobs", parse_json_accounting, service="slurmdb")

    def poll_scheduler(self) -> Scheduler:
        """Return the load of slurmctld and its schedulers."""
        return self._reported("diag", "statistics", parse_json_diag)

    def poll_licences(self) -> Licences:
        """Return the software licences that Slurm counts."""
        return self._reported("licenses", "licenses", parse_json_licences)

    def poll_reservations(self) -> Reservations:
        """Return current and future reservations."""
        return self._reported("reservations", "reservations", parse_json_reservations)

    def poll_shares(self) -> FairShares:
        """Raise SourceError: slurmrestd does not provide fair shares."""
        remedy = "disable collector.fairshare or set slurm.ask = scontrol"
        raise SourceError(f"{self._rest.name}: slurmrestd does not report fair shares: {remedy}")

    def _reported(self, question: str, field: str, parse: Callable[..., T], *, service: str = "slurm") -> T:
        return self._ask_with_errors(question, field, parse, service=service)[0]

    def _ask_with_errors(
        self, question: str, field: str, parse: Callable[..., T], *, service: str = "slurm"
    ) -> tuple[T, tuple[Rejected, ...]]:
        """Return what `parse` makes of an answer, and the errors in it, also added to its `rejected`."""
        taken_at_secs = self._clock.now_secs()
        document = self._answer(question, field, service=service)
        try:
            found: Any = parse(document, source=self._rest.name, taken_at_secs=taken_at_secs)
        except ParseError as error:
            raise SourceError(str(error)) from error
        problems = self._errors_of(document)
        return replace(found, rejected=(*found.rejected, *problems)) if problems else found, problems

    def _errors_of(self, document: JsonRecord) -> tuple[Rejected, ...]:
        """Return the errors that an answer reports beside its data, which may be incomplete then."""
        return tuple(
            Rejected(self._rest.name, f"with an error: {shown(each)}") for each in complaints(document)
        )

    def _answer(self, question: str, field: str, *, service: str = "slurm") -> JsonRecord:
        """Return the answer to `question`. Raises SourceError if it has errors and no data in `field`."""
        document = self._rest.ask(question, self._timeout_secs, service=service)
        errors = complaints(document)
        if errors and not document.get(field):
            raise SourceError(f"{self._rest.name}: {shown(errors[0])}")
        return document
