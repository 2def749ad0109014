"""The source that reads the jobs of this node from the files that OAR keeps there, without any query.

Source: OAR's own scripts, 2.5.9 and 2.6.1. The folder OAR_RUNTIME_DIRECTORY on each node of a job holds two
files from the state Launching until the job ends. ``alice_10.env`` has shell lines such as ``export
OAR_JOB_NAME='fit'``, and is written within 2 s of the start. ``10``, the node file, has a line for each
resource of the whole job. OAR escapes nothing: a name with a newline can inject arbitrary lines, so a
variable that is set twice is treated as unknown.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection
from dataclasses import replace

from jobfeatures.batch.basics import Users, count_hosts, share_of
from jobfeatures.batch.oar import OarSettings
from jobfeatures.batch.oar.basics import NAME, is_plain_id, make_limits
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.source import BatchSource, PolledSource
from jobfeatures.errors import ParseError, Rejected, SourceError, failing_source
from jobfeatures.records.model import Job, JobKey, JobState, JobTable
from jobfeatures.records.quantities import parse_count
from jobfeatures.system.clock import Clock
from jobfeatures.system.privatefile import read_bounded

MAX_FILES = 100_000
MAX_BYTES = 16 * 2**20
DOUBT_SECS = 60  # the clock may have been adjusted since
_NAME = re.compile(r"(?P<user>.{1,255})_(?P<job_id>[1-9][0-9]{0,9})\.env\Z", re.ASCII)
_BOOT = re.compile(rb"^btime ([0-9]{1,18})$", re.MULTILINE)
_LINE = re.compile(r"export (OAR_[A-Z_]{1,60})='([^'\n]*)'$", re.MULTILINE)


def parse_environment(text: str) -> dict[str, str]:
    """Return the variables in the text of a job's ``.env`` file, by name; never raises.

    Variables that are set twice are left out.
    """
    found: dict[str, str] = {}
    twice: set[str] = set()
    for name, value in _LINE.findall(text):
        if name in found:
            twice.add(name)
        found[name] = value
    return {name: value for name, value in found.items() if name not in twice and value}


def read_boot_secs(procfs: str) -> int:
    """Return when the node was booted, in epoch seconds; 0 if unknown."""
    with contextlib.suppress(OSError):
        match = _BOOT.search(read_bounded(f"{procfs}/stat", MAX_BYTES)[0])
        return int(match[1]) if match else 0
    return 0


class OarSource(PolledSource):
    """Source of the jobs that have files in this node's OAR_RUNTIME_DIRECTORY.

    A job whose files have been removed has ended. A job that never had files counts as ended only if it has
    no processes here, as the folder may be the wrong one. Files from before the node was booted are ignored:
    a node that crashes cannot remove them.
    """

    name = NAME
    is_local = True

    def __init__(self, config: SystemSettings[OarSettings], clock: Clock, node_name: str) -> None:
        self._folder = config.own.directory
        self._procfs = config.procfs
        self._clock = clock
        self._users = Users(clock)
        self._node_name = node_name
        self._gone: dict[JobKey, float] = {}
        self._here: frozenset[JobKey] = frozenset()

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return the jobs that have files. Raises SourceError if the folder cannot be listed completely.

        `seen` are jobs with processes here, `claimed` jobs with a published directory or an empty control
        group.
        """
        taken_at_secs = self._clock.now_secs()
        jobs: dict[JobKey, Job] = {}
        rejected: list[Rejected] = []
        booted_secs = read_boot_secs(self._procfs)
        files = self._list()
        left: set[str] = set()
        for job_id, (user, name) in files.items():
            try:
                job = self._read(job_id, user, name)
            except FileNotFoundError:
                continue  # it has just ended
            except (OSError, ParseError) as error:
                rejected.append(Rejected(f"{self._folder}/{name}", str(error)))
                job = Job(key=JobKey(NAME, job_id), state=JobState.RUNNING, user=user)
            if job.key not in seen and (job.start_secs or booted_secs) + DOUBT_SECS < booted_secs:
                left.add(job_id)
                continue
            jobs[job.key] = job
        for key in jobs.keys() & {JobKey(NAME, job.array_job_id or "") for job in jobs.values()}:
            jobs[key] = replace(jobs[key], array_job_id=key.job_id, array_task_id="1")
        present = frozenset(JobKey(NAME, job_id) for job_id in files.keys() - left)
        known = {*self._gone, *self._here} & {*seen, *claimed, *self._here}
        known |= {key for key in {*claimed}.difference(seen) if key.batch_system == NAME}
        self._gone = {key: self._gone.get(key, taken_at_secs) for key in known - present}
        self._here = present
        return JobTable(
            source=NAME,
            jobs=jobs,
            taken_at_secs=taken_at_secs,
            complete=not rejected,
            rejected=tuple(rejected),
            gone=dict(self._gone),
        )

    def read_job(self, job_id: str) -> Job | None:
        """Return one job from its files on this node; None if it has none.

        Raises SourceError if they cannot be read, ParseError if they are malformed.
        """
        found = self._list().get(job_id)
        with failing_source(self._folder, OSError):
            return None if found is None else self._read(job_id, *found)

    def list_ids(self) -> Collection[str]:
        """Return the ids of the jobs that have files here. Raises SourceError if the folder is unreadable."""
        return self._list().keys()

    def _list(self) -> dict[str, tuple[str, str]]:
        """Return the owner and the file's name of each job, by job id. Raises SourceError."""
        found: dict[str, tuple[str, str]] = {}
        with failing_source(self._folder, OSError), os.scandir(self._folder) as entries:
            for count, entry in enumerate(entries):
                if count >= MAX_FILES:  # jobs not listed would seem to have ended
                    raise SourceError(
                        f"{self._folder}: contains more than {MAX_FILES} files: check oar.directory"
                    )
                if match := _NAME.match(entry.name):
                    found[match["job_id"]] = match["user"], entry.name
        return found

    def _read(self, job_id: str, user: str, name: str) -> Job:
        text, changed_secs = self._text(name)
        reported = parse_environment(text)
        hosts = count_hosts(self._text(job_id)[0].splitlines(), field="node file")
        wall = reported.get("OAR_JOB_WALLTIME_SECONDS")
        total_cpus = sum(hosts.values()) or None
        array, index = reported.get("OAR_ARRAYID", ""), reported.get("OAR_ARRAYINDEX", "")
        in_array = is_plain_id(array) and is_plain_id(index) and index != "1"  # 1: perhaps a plain job
        return Job(
            key=JobKey(NAME, job_id),
            state=JobState.RUNNING,
            name=reported.get("OAR_JOB_NAME"),
            user=user,
            uid=self._users.uid(user),
            account=reported.get("OAR_PROJECT_NAME"),
            array_job_id=array if in_array else None,
            array_task_id=index if in_array else None,
            start_secs=int(changed_secs),
            nodes=tuple(hosts),
            total_cpus=total_cpus,
            allocated_cpus=share_of(hosts, self._node_name),
            limits=make_limits(parse_count(wall) if wall else None, total_cpus),
        )

    def _text(self, name: str) -> tuple[str, float]:
        content, found = read_bounded(f"{self._folder}/{name}", MAX_BYTES)
        return content.decode("utf-8", "replace"), found.st_mtime


class WithFiles(PolledSource):
    """Source that passes on the jobs of another source, and says which have no control group on this node.

    They are the running jobs without files on this node (types cosystem and deploy), in `JobTable.groupless`.
    """

    name = NAME
    is_local = False

    def __init__(self, source: BatchSource, files: OarSource) -> None:
        self._source = source
        self._files = files

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return the jobs of the other source, and in `groupless` those that need no control group here.

        `seen` and `claimed` are passed to that source. Raises SourceError if it does.
        """
        table = self._source.poll_jobs(seen, claimed)
        running = {key for key, job in table.jobs.items() if job.state is JobState.RUNNING}
        with contextlib.suppress(SourceError):  # then none is excused
            here = self._files.list_ids()
            return replace(table, groupless=frozenset(key for key in running if key.job_id not in here))
        return table


def make_source(config: SystemSettings[OarSettings], clock: Clock, node_name: str) -> BatchSource:
    """Return the source of this node's jobs that ``oar.ask`` selects.

    Raises ConfigurationError if that is the controller role, and a setting for it is missing or invalid.
    """
    files = OarSource(config, clock, node_name)
    if config.own.ask != "controller":
        return files
    from jobfeatures.batch.controller.source import ControllerSource

    asked = ControllerSource(
        config.controller,
        clock,
        node_name,
        NAME,
        timeout_secs=config.common.timeout_secs,
        ask_one=files.read_job,
        is_plain=is_plain_id,
    )
    return WithFiles(asked, files)
