"""The source that queries the server about this node's jobs, and lists the job files of the node's pbs_mom.

The job files are C structures that change with every version, so only their names are used:
``mom_priv/jobs/123.server.JB``. The folder belongs to root. pbs_mom removes a file once the server has
acknowledged the job's end; if pbs_mom dies, the file stays.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from jobfeatures.batch.basics import Users
from jobfeatures.batch.pbs import QstatSettings
from jobfeatures.batch.pbs.cards import read_cards
from jobfeatures.batch.pbs.cluster import find_node, make_notice
from jobfeatures.batch.pbs.commands import Answer, QstatCommands
from jobfeatures.batch.pbs.values import parse_job_id
from jobfeatures.batch.questions import AskedJobs, NodeQuestion
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.source import PolledSource
from jobfeatures.batch.waiting import WaitedFor
from jobfeatures.errors import NewProblems, ParseError, Rejected, parse_each
from jobfeatures.records.model import Job, JobKey, JobTable, NodeNotice, Version
from jobfeatures.system.clock import Clock
from jobfeatures.system.privatefile import read_bounded, version_of

MAX_FILES = 100_000
MAX_ENVIRON_BYTES = 8 * 2**20
_ID = re.compile(r"(?:0|[1-9][0-9]{0,11})(?:\[[0-9]{1,9}\]|-[0-9]{1,9})?\Z")
_VARIABLE = re.compile(rb"(?:\A|\0)PBS_JOBID=([^\0]*)(?:\0|\Z)")
_OLD_ARRAY = re.compile(r"([0-9]+)-([0-9]+)\Z")


def is_plain_id(text: str) -> bool:
    """Return whether a text is a single job's id without its server, safe to pass to qstat."""
    return _ID.match(text) is not None


class QstatSource(PolledSource):
    """Source of this node's jobs: queries the server about each, and caches the answers.

    A job is on the node if it has a control group or a published directory, or a file of pbs_mom if that
    folder is readable. The server may report a job as unknown only because other users' jobs are hidden: the
    job's processes here then prove that it is running. A file alone proves nothing, as it may be stale: it is
    ignored until it is rewritten.
    """

    is_local = False

    def __init__(
        self, system: str, config: SystemSettings[QstatSettings], clock: Clock, node_name: str
    ) -> None:
        self.name = system
        self._commands = QstatCommands(system, config, config.common.timeout_secs)
        self._clock = clock
        self._node_name = node_name
        self._home = config.own.home
        self._procfs = config.procfs
        self._cgroup = config.cgroup
        self._left: dict[str, Version] = {}  # files left by ended jobs
        self._jobs = AskedJobs(
            system,
            is_plain_id,
            refresh_secs=config.common.refresh_secs,
            waited_for=WaitedFor(system, config.common.root),
        )
        self._node = NodeQuestion("pbsnodes", config.common.refresh_secs)
        self._news = NewProblems()
        self._users = Users(clock)

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return this node's jobs. Raises SourceError if queries were made and all failed.

        `seen` are jobs with processes here, `claimed` jobs with a published directory or an empty control
        group.
        """
        taken_at_secs, now_secs = self._clock.now_secs(), self._clock.monotonic_secs()
        problems: list[Rejected] = []  # told as long as they last
        remarks: tuple[Rejected, ...] = ()
        files = self._read_mom(problems)
        living = {key.job_id for key in seen if key.batch_system == self.name}
        self._left = {
            job_id: version
            for job_id, version in self._left.items()
            if files.get(job_id) == version and job_id not in living
        }
        here = files.keys() - self._left.keys()
        asked = self._jobs.begin(seen, claimed, now_secs=now_secs, taken_at_secs=taken_at_secs, here=here)
        if asked:
            answer = self._commands.ask("jobs", *asked)
            filed = answer.gone & here - living
            if filed and (running := find_living(self._procfs)) is not None:
                self._left |= {job_id: files[job_id] for job_id in filed - running}
            self._keep(answer, asked, problems)
            remarks = self._news.among(answer.complaints)
        remarks += self._node.ask(self._read_notice, now_secs)
        table = self._jobs.table(
            complete=True,
            rejected=(*problems, *remarks),
            node=self._node.notice,
            node_problem=str(self._node.problem or ""),
        )
        return replace(table, jobs={key: self._users.complete(job) for key, job in table.jobs.items()})

    def _read_mom(self, problems: list[Rejected]) -> dict[str, Version]:
        try:
            files = read_mom_jobs(self._home)
        except FileNotFoundError:
            return {}  # not an execution host, or its home is elsewhere
        except OSError as error:
            problems.append(Rejected.from_error(error, f"{self._home}/mom_priv/jobs"))
            return {}
        return {job_id: version for job_id, version in files.items() if is_plain_id(job_id)}

    def _keep(self, answer: Answer, asked: Sequence[str], problems: list[Rejected]) -> None:
        """Cache an answer: a job that the server does not know has ended, unless it has processes here."""
        problems += answer.records.rejected
        made = {
            job.key.job_id: job
            for job in self._commands.make_jobs(
                answer,
                node_name=self._node_name,
                now_secs=self._clock.now_secs(),
                note=problems.append,
                broken=problems,
            )
        }
        jobs = {job_id: self._with_cards(made[job_id]) for job_id in asked if job_id in made}
        gone = answer.gone.intersection(asked) - jobs.keys() - (self._jobs.seen - self._left.keys())
        gone -= set(parse_each(parse_job_id, answer.records.unsure, []))
        known_as = None if self._node.notice is None else self._node_name
        self._jobs.keep(jobs.values(), gone, set(asked) - jobs.keys() - gone, known_as)

    def _with_cards(self, job: Job) -> Job:
        """Return a job with the minor numbers of its GPUs, if these are as many as it was allocated."""
        if not job.allocated_gpus or job.gpus or not job.state.is_on_node:
            return job
        cards = read_cards(self._cgroup, self._home, job.key.job_id)
        return replace(job, gpu_devices=cards) if len(cards) == job.allocated_gpus else job

    def _read_notice(self) -> NodeNotice:
        """Return the server's notice about the node. Raises SourceError or ParseError."""
        answer = self._commands.ask("node", self._node_name)
        record = find_node(answer.records.found, self._node_name)
        if record is None:
            raise ParseError(f"the answer has no record of node {self._node_name}", text=answer.complaint)
        return make_notice(record)


def parse_job_file_name(name: str) -> str | None:
    """Return the job id in a job file's name; None for other files. Never raises."""
    with contextlib.suppress(ParseError):
        return _plain_id(name.removesuffix(".JB")) if name.endswith(".JB") else None
    return None


def _plain_id(text: str) -> str:
    return _OLD_ARRAY.sub(r"\1[\2]", parse_job_id(text))


def read_mom_jobs(home: str) -> dict[str, Version]:
    """Return the version of each job's file in `home`/mom_priv/jobs, by job id.

    A version is a tuple of numbers that changes with the file. Raises OSError if the folder cannot be listed.
    """
    found: dict[str, Version] = {}
    with os.scandir(os.path.join(home, "mom_priv", "jobs")) as entries:
        for number, entry in enumerate(entries):
            if number >= MAX_FILES:
                break
            job_id = parse_job_file_name(entry.name)
            with contextlib.suppress(FileNotFoundError):
                if job_id is not None:
                    found[job_id] = version_of(entry.stat(follow_symlinks=False))
    return found


def find_living(procfs: str) -> frozenset[str] | None:
    """Return the ids of jobs with processes here; None if processes of other users are hidden.

    They are read from PBS_JOBID, which pbs_mom sets in the environment of all processes of a job. A user who
    sets it in other processes only causes an ended job to be listed for longer.
    """
    found: set[str] = set()
    try:
        pids = list(filter(str.isdigit, os.listdir(procfs)))
        if "1" not in pids:  # other users' processes are hidden
            return None
        for pid in pids:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, ParseError):
                content, _ = read_bounded(f"{procfs}/{pid}/environ", MAX_ENVIRON_BYTES)
                if match := _VARIABLE.search(content):
                    found.add(_plain_id(match[1].decode("ascii", "replace")))
    except OSError:
        return None
    return frozenset(found)
