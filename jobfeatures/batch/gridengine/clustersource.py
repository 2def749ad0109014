"""The source that queries Grid Engine about the whole cluster, for the controller role."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC
from itertools import chain, islice

from jobfeatures.batch.gridengine import COMMAND, VARIABLES, GridEngineSettings
from jobfeatures.batch.gridengine.accounting import read_records, whole_secs
from jobfeatures.batch.gridengine.basics import NAME
from jobfeatures.batch.gridengine.cluster import CLUSTER_QUESTION, CLUSTER_SOURCE, parse_cluster
from jobfeatures.batch.gridengine.queue import QUEUE_QUESTION, QUEUE_SOURCE, parse_queue
from jobfeatures.batch.programs import Programs
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.errors import ParseError, Rejected, SourceError, failing_source
from jobfeatures.joblogs.loggedjob import Accounting, JobRecord, Notes
from jobfeatures.records.model import Cluster, Job, JobKey, JobTable
from jobfeatures.system.clock import Clock
from jobfeatures.system.command import first_line

MAX_ACCOUNTING_BYTES = 64 * 2**20  # read from the end of the accounting file; some 200,000 jobs
MAX_OUTCOME_RECORDS = 10_000  # searched for how jobs in the queue ended
BLOCK_BYTES = 2**20
REPORTED_WITHIN_SECS = 3600.0
MOVED_AWAY = (".0", ".1")  # rotated by logchecker.sh, by logrotate


class GridEngineCluster:
    """The controller role's source for Grid Engine: queries ``qstat`` and ``qhost``.

    It also reads the end of the accounting file.
    """

    name = NAME

    def __init__(self, config: SystemSettings[GridEngineSettings], clock: Clock, timeout_secs: float) -> None:
        """`timeout_secs` limits each query. Without an accounting file `poll_accounting` fails."""
        self._clock = clock
        self._programs = Programs(
            COMMAND, config.own.qstat, timeout_secs, kept=VARIABLES, environment={"TZ": "UTC0"}
        )
        self._accounting_file = config.own.accounting_file or _default_accounting_file()

    def poll_queue(self) -> JobTable:
        """Return the jobs in the queue, and the latest ended ones that Grid Engine still lists.

        Their number is `finished_jobs` of sge_conf(5).
        """
        taken_at_secs = self._clock.now_secs()
        data = self._ask("qstat", *QUEUE_QUESTION)
        with failing_source(QUEUE_SOURCE, ParseError):
            table = parse_queue(data, taken_at_secs=taken_at_secs, tz=UTC)
        return replace(table, jobs=self._with_outcomes(table.jobs))

    def _with_outcomes(self, jobs: Mapping[JobKey, Job]) -> Mapping[JobKey, Job]:
        """Return the jobs, with the outcome of ended ones taken from accounting.

        The queue reports only that they ended. If accounting is unavailable or has
        no record of them, nothing is added.
        """
        wanted = {key.job_id for key, job in jobs.items() if job.state.is_finished}
        ended: dict[JobKey, Job] = {}
        try:
            latest = self._latest_records(self._accounting_file, 0, Notes()) if self._accounting_file else ()
            for each in islice(latest, MAX_OUTCOME_RECORDS):
                if not wanted:
                    break
                if isinstance(each, JobRecord) and each.step is None and each.job_id in wanted:
                    wanted.discard(each.job_id)
                    key = JobKey(NAME, each.job_id)
                    ended[key] = replace(
                        jobs[key],
                        state=each.state,
                        partition=each.queue,
                        nodes=each.nodes,
                        start_secs=whole_secs(each.start_secs),
                        end_secs=whole_secs(each.end_secs),
                    )
        except OSError:  # poll_accounting reports it if accounting is enabled
            pass
        return {**jobs, **ended}

    def poll_cluster(self) -> Cluster:
        """Return the hosts and queues."""
        taken_at_secs = self._clock.now_secs()
        data = self._ask("qhost", *CLUSTER_QUESTION)
        with failing_source(CLUSTER_SOURCE, ParseError):
            cluster = parse_cluster(data, taken_at_secs=taken_at_secs)
        if not cluster.nodes:
            raise SourceError(f"{CLUSTER_SOURCE}: no host in the answer")
        return cluster

    def poll_accounting(self, since_secs: float) -> Accounting:
        """Return the records of jobs that ended since `since_secs` (epoch).

        Raises SourceError without an accounting file. Grid Engine writes a job's record when the job ends, so
        running jobs have none.
        """
        taken_at_secs = self._clock.now_secs()
        if self._accounting_file is None:
            raise SourceError("the accounting file is unknown: set gridengine.accounting_file or SGE_ROOT")
        records: list[JobRecord] = []
        rejected: list[Rejected] = []
        notes = Notes()
        with failing_source(self._accounting_file, OSError):
            for each in self._latest_records(self._accounting_file, since_secs, notes):
                if isinstance(each, Rejected):
                    rejected.append(each)
                elif each.end_secs is not None and each.end_secs >= since_secs:  # else it did not start
                    records.append(each)
        rejected += notes.faults(self._accounting_file)
        return Accounting(NAME, tuple(records[::-1]), taken_at_secs, tuple(rejected))

    @staticmethod
    def _latest_records(path: str, since_secs: float, notes: Notes) -> Iterator[JobRecord | Rejected]:
        """Yield records, newest first, until they are certainly too old. Raises OSError.

        Records are in the order in which jobs were reported, roughly that of their
        end times: the search stops at one that ended an hour before `since_secs`.
        """
        moved = [name for end in MOVED_AWAY if os.path.exists(name := path + end)]
        names = [path, *moved] if os.path.exists(path) or not moved else moved
        for line in chain.from_iterable(map(_lines_backwards, names)):
            for each in read_records([line], source=path, notes=notes):
                yield each
                ended_secs = None if isinstance(each, Rejected) else each.end_secs
                if ended_secs is not None and ended_secs < since_secs - REPORTED_WITHIN_SECS:
                    return

    def _ask(self, name: str, *arguments: str) -> bytes:
        output = self._programs.run(name, *arguments)
        if output.status != 0 or not output.stdout.strip():
            reason = f"no answer (exit status {output.status}): {first_line(output.stderr)}"
            raise SourceError(f"{self._programs.path(name)}: {reason}")
        return output.stdout


def _default_accounting_file() -> str | None:
    """Return the path of the cell's accounting file, in either format; None without SGE_ROOT."""
    root = os.environ.get("SGE_ROOT")
    if root is None:
        return None
    path = f"{root}/{os.environ.get('SGE_CELL', 'default')}/common/accounting"
    return f"{path}.jsonl" if os.path.exists(f"{path}.jsonl") else path


def _lines_backwards(path: str) -> Iterator[str]:
    """Yield complete lines, last first, without one still being written. Raises OSError."""
    with open(path, "rb") as file:
        position = file.seek(0, os.SEEK_END)
        lowest = max(0, position - MAX_ACCOUNTING_BYTES)
        rest = b""
        is_last = True
        while position > lowest:
            size = min(BLOCK_BYTES, position - lowest)
            position -= size
            file.seek(position)
            lines = (file.read(size) + rest).split(b"\n")
            rest = lines[0]
            for line in reversed(lines[1:]):
                if not is_last:
                    yield line.decode("utf-8", "replace")
                is_last = False
        if not position and not is_last:
            yield rest.decode("utf-8", "replace")
