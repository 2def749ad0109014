"""Reads the AdminComment of ended jobs by running ``sacct``, and writes it by ``sacctmgr``.

Writing needs the AdminLevel Operator in accounting. Comments may be administrators' own text: those that do
not begin with this program's mark are never changed.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from jobfeatures.batch.keyedrecord import KeyedRecord, key, required_key
from jobfeatures.batch.slurm import VARIABLES
from jobfeatures.batch.slurm.basics import checked_id, is_plain_id
from jobfeatures.batch.slurm.fields import UNKNOWN, split_open
from jobfeatures.batch.slurm.refused import make_separator
from jobfeatures.errors import ParseError, Rejected, SourceError, failing_source, parse_each
from jobfeatures.records.quantities import parse_count
from jobfeatures.system.command import ask_command

log = logging.getLogger(__name__)

SOURCE = "sacct"
MAX_ANSWER_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentedJob:
    """The latest run of a job and its AdminComment, as accounting has them. Times are epoch seconds."""

    job_id: str
    user: str
    account: str
    partition: str
    state: str
    start_secs: int
    end_secs: int | None
    elapsed_secs: int
    comment: str


class CommentedRow(KeyedRecord):
    """One job as sacct prints it.

    Its attributes are the fields to query, in this order; the last must not be free text.
    """

    source = SOURCE
    nothing = UNKNOWN

    job_id = required_key(checked_id, "JobIDRaw")
    user = required_key(str, "User")
    account = required_key(str, "Account")
    partition = required_key(str, "Partition")
    state = required_key(lambda text: text.partition(" ")[0], "State")  # CANCELLED by 6001
    start_secs = key(parse_count, "Start")
    end_secs = key(parse_count, "End")
    elapsed_secs = key(parse_count, "ElapsedRaw")
    comment = required_key(str, "AdminComment")
    nodes = key(str, "NNodes")


FIELDS = CommentedRow.names


@dataclass(kw_only=True)
class JobComments:
    """Reads and writes AdminComment in Slurm's accounting; each call runs one process.

    `sacct` and `sacctmgr` are the names or paths of the commands.
    """

    sacct: str = "sacct"
    sacctmgr: str = "sacctmgr"
    timeout_secs: float = 60.0

    def ended_since(self, since_secs: float) -> list[CommentedJob]:
        """Return all users' jobs that ran and ended since `since_secs` (epoch).

        Jobs in all states are queried, and running ones left out: asked for final states only, sacct would
        show an earlier run of a requeued job that is running. Raises SourceError if sacct fails.
        """
        ago_secs = max(1, math.ceil(time.time() - since_secs))
        found = self._ask("-a", "-S", f"now-{ago_secs}seconds", "-E", "now")
        return [each for each in found if each.end_secs is not None and each.end_secs >= since_secs]

    def find(self, job: str) -> list[CommentedJob]:
        """Return the job `job`, or an array's tasks, if they have started; else [].

        Raises SourceError if sacct fails.
        """
        return self._ask("-j", job)

    def _ask(self, *options: str) -> list[CommentedJob]:
        separator = make_separator()
        text = ask_command(
            [
                self.sacct,
                "-X",
                "-P",
                "-n",
                f"--delimiter={separator}",
                *options,
                "-o",
                ",".join(FIELDS),
            ],
            timeout_secs=self.timeout_secs,
            max_bytes=MAX_ANSWER_BYTES,
            kept=VARIABLES,
            environment={"SLURM_TIME_FORMAT": "%s"},
        )
        rejected: list[Rejected] = []
        with failing_source(SOURCE, ParseError):
            records = split_open(text, separator, FIELDS, source=SOURCE) if text else ()
            found = list(parse_each(_parse_job, records, rejected, SOURCE))
        if rejected:
            log.warning(
                "%d unreadable jobs of %s are left out, the first: %s", len(rejected), SOURCE, rejected[0]
            )
        return [each for each in found if each is not None]

    def write(self, job_id: str, comment: str) -> None:
        """Set a job's AdminComment. Raises SourceError if sacctmgr fails or the job's id is malformed."""
        if not is_plain_id(job_id):
            raise SourceError(f"not a job id: {job_id[:40]!r}")
        ask_command(
            [
                *(self.sacctmgr, "-i", "modify", "job", "where", f"jobid={job_id}"),
                *("set", f"admincomment={comment}"),
            ],
            timeout_secs=self.timeout_secs,
            kept=VARIABLES,
        )


def _parse_job(values: Mapping[str, str]) -> CommentedJob | None:
    """Return a job, None for one that has not started. Raises ParseError."""
    fields = CommentedRow(values).fields(CommentedJob)
    return None if None in (fields["start_secs"], fields["elapsed_secs"]) else CommentedJob(**fields)
