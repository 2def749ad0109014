"""Finds the jobs of which a step runs on this node, from slurmd's folder, without a query to slurmctld.

Source: stepd_api.c of Slurm 20.11 to 26.05. Each slurmstepd listens on a socket in SlurmdSpoolDir,
``n1_154.4294967291`` of job 154's batch step, ``n1_154.0.2`` of a component of a heterogeneous one. slurmd
removes the socket of a step that has ended, and soon that of one that was killed. A slurmd in a container has
the folder in its own mount namespace. If no setting names the container, the jobs found there are queried,
but their folder does not prove that no others run: root in any container may call a program slurmd.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import socket
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import NamedTuple

from jobfeatures.batch.groups import count_named
from jobfeatures.batch.processes import is_in_container, read_real_uid
from jobfeatures.batch.programs import Programs
from jobfeatures.batch.slurm.basics import NAME, is_plain_id
from jobfeatures.batch.source import BatchSource
from jobfeatures.errors import ParseError, Rejected, SourceError
from jobfeatures.records.model import JobKey, JobState, JobTable
from jobfeatures.system.clock import Clock
from jobfeatures.system.privatefile import read_bounded

SOURCE = "scontrol show config"
MAX_CONFIG_BYTES = 2**20
MAX_ENTRIES = 100_000
MAX_GROUPS_BYTES = 2**16  # of /proc/PID/cgroup
DAEMON = "slurmd"
TRACKS_GROUPS = "proctrack/cgroup"
AGAIN_SECS = 300.0  # between two searches of processes, and two questions that were not answered
SETUP_SECS = 3600.0  # between two questions that were
_SET = re.compile(r"^(SlurmdSpoolDir|ProctrackType)\s*= (\S+)$", re.MULTILINE)


class Setup(NamedTuple):
    """What Slurm's configuration says about nodes.

    `spool` is SlurmdSpoolDir, in which %n and %h (the node's names) are not replaced yet. `makes_groups`:
    Slurm makes control groups.
    """

    spool: str
    makes_groups: bool


class Steps(NamedTuple):
    """The ids of jobs with a step on this node.

    `is_whole`: no job is missing, as the folder of each slurmd was read.
    """

    jobs: frozenset[str] = frozenset()
    is_whole: bool = False


def parse_setup(text: str) -> Setup:
    """Return the `Setup` in the output of ``scontrol show config``. Raises ParseError for other text.

    Sample: ``SlurmdSpoolDir = /var/spool``.
    """
    found = dict(_SET.findall(text))
    if not found.get("SlurmdSpoolDir", "").startswith("/"):
        raise ParseError("the configuration has no SlurmdSpoolDir", source=SOURCE)
    return Setup(found["SlurmdSpoolDir"], found.get("ProctrackType", TRACKS_GROUPS) == TRACKS_GROUPS)


def ask_setup(programs: Programs) -> Setup:
    """Run ``scontrol show config`` and return the `Setup` in its output.

    Raises SourceError if the command fails, ParseError if its output has no SlurmdSpoolDir.
    """
    return parse_setup(programs.ask("scontrol", "show", "config", max_bytes=MAX_CONFIG_BYTES))


def list_jobs(programs: Programs, node_name: str) -> frozenset[str]:
    """Return the ids of the jobs on a node, by squeue, for which slurmctld sends its whole queue.

    Raises SourceError if squeue fails.
    """
    options = ("-a", "-h", "-w", node_name, "-t", "RUNNING", "-o", "%A")
    printed = programs.ask("squeue", *options, max_bytes=MAX_CONFIG_BYTES)
    return frozenset(filter(is_plain_id, printed.split("\n")))


def expand_spool(spool: str, node_name: str) -> str:
    """Return SlurmdSpoolDir of one node, with %n and %h replaced as in slurm.conf(5)."""
    return spool.replace("%n", node_name).replace("%h", socket.gethostname().partition(".")[0])


def list_steps(folder: str, node_name: str) -> frozenset[str]:
    """Return the ids of the jobs that have a step's socket in a folder.

    Raises OSError, also if everyone may write to the folder.
    """
    step = r"([1-9][0-9]{0,9})\.[0-9]{1,10}(?:\.[0-9]{1,10})?"
    name = re.compile(rf"{re.escape(node_name)}_{step}", re.ASCII)
    if os.stat(folder).st_mode & stat.S_IWOTH:
        raise PermissionError(errno.EPERM, "writable by others (chmod go-w)", folder)
    with os.scandir(folder) as entries:
        names = (entry.name for entry in itertools.islice(entries, MAX_ENTRIES))
        return frozenset(match[1] for match in map(name.fullmatch, names) if match)


class LocalSteps:
    """Finds the jobs with a step on this node, in the folder of each slurmd.

    The folder is read on the node, and in the mount namespace of each running slurmd.
    """

    def __init__(self, node_name: str, procfs: str, clock: Clock, parents: Collection[str] = ()) -> None:
        """`parents` are those in `batch.cgroup_parents`: a slurmd in a container below one is trusted."""
        self._parents = [each.split("/")[1:] for each in parents]
        self._node_name = node_name
        self._procfs = procfs
        self._clock = clock
        self._daemons: frozenset[int] = frozenset()
        self._searched_secs = float("-inf")  # monotonic

    def read(self, spool: str) -> Steps:
        """Return the jobs with a step on this node; `spool` is SlurmdSpoolDir as in Slurm's configuration."""
        folder = expand_spool(spool, self._node_name)
        jobs: set[str] = set()
        read, denied = 0, 0
        for pid in (None, *self._find()):  # the node's own first: whose that is, a slurmd alone tells
            is_believed = pid is None or self._is_believed(pid)
            try:
                root = "" if pid is None else f"{self._procfs}/{pid}/root"
                jobs |= list_steps(f"{root}{folder}", self._node_name)
            except FileNotFoundError:
                continue  # of another slurmd, or in its mount namespace alone
            except OSError:
                denied += is_believed
            else:
                read += is_believed and pid is not None
        return Steps(frozenset(jobs), bool(read) and not denied)

    def _is_believed(self, pid: int) -> bool:
        """Return whether a slurmd is the host's, or in a container at one of the `parents`."""
        with contextlib.suppress(OSError):
            if not is_in_container(self._procfs, pid):
                return True
            text = read_bounded(f"{self._procfs}/{pid}/cgroup", MAX_GROUPS_BYTES)[0].decode(
                "utf-8", "replace"
            )
            paths = [line.split(":", 2)[-1].split("/")[1:] for line in text.splitlines()]
            # Relative to our own group where we have a namespace of control groups.
            return any(count_named([each for each in path if each != ".."], self._parents) for path in paths)
        return False

    def _find(self) -> Collection[int]:
        """Return the pids of root's slurmd processes: those of the last search while all of them live."""
        now_secs = self._clock.monotonic_secs()
        living = frozenset(pid for pid in self._daemons if self._is_daemon(pid))
        if not living or living != self._daemons or now_secs - self._searched_secs >= AGAIN_SECS:
            self._searched_secs = now_secs
            living = frozenset(filter(self._is_daemon, self._list()))
        self._daemons = living
        return sorted(living)

    def _list(self) -> Iterator[int]:
        with contextlib.suppress(OSError):
            yield from map(int, filter(str.isdigit, os.listdir(self._procfs)))

    def _is_daemon(self, pid: int) -> bool:
        with contextlib.suppress(OSError, ParseError):
            with open(f"{self._procfs}/{pid}/comm", "rb") as file:
                is_named = file.read(64) == f"{DAEMON}\n".encode()
            return is_named and read_real_uid(self._procfs, pid) == 0
        return False


class WithSteps:
    """Source that passes on the jobs of another source, and adds what slurmd's folder shows.

    Jobs with a step on this node, as the folder shows, are queried too. Running jobs that need not have a
    control group here go into `JobTable.groupless`: all if Slurm makes no control groups, else those without
    a step here.
    """

    name = NAME
    is_local = False

    def __init__(
        self,
        source: BatchSource,
        ask_setup: Callable[[], Setup],
        clock: Clock,
        steps: LocalSteps,
        *,
        has_command: bool = True,
    ) -> None:
        """`ask_setup` may raise SourceError or ParseError: it is called again after `AGAIN_SECS`.

        Its failures are reported if `has_command`: a node that asks by HTTP need not have scontrol.
        """
        self._source = source
        self._ask_setup = ask_setup
        self._clock = clock
        self._steps = steps
        self._has_command = has_command
        self._setup: Setup | None = None
        self._due_secs = float("-inf")  # monotonic

    def watch(self, notify: Callable[[], None]) -> AbstractContextManager[object]:
        """Return a context manager within which the other source calls `notify` if jobs may have changed."""
        return self._source.watch(notify)

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return the jobs of the other source, with `JobTable.groupless` set. Raises SourceError if it does.

        `seen` (with processes here; jobs with a step are added) and `claimed` (with a published directory or
        an empty control group) are passed to it.
        """
        rejected = self._learn_setup()
        steps = Steps() if self._setup is None else self._steps.read(self._setup.spool)
        table = self._source.poll_jobs({*seen, *(JobKey(NAME, each) for each in steps.jobs)}, claimed)
        return replace(table, groupless=self._groupless(table, steps), rejected=(*table.rejected, *rejected))

    def _learn_setup(self) -> tuple[Rejected, ...]:
        now_secs = self._clock.monotonic_secs()
        if now_secs < self._due_secs:
            return ()
        self._due_secs = now_secs + AGAIN_SECS
        try:
            self._setup = self._ask_setup()
        except (SourceError, ParseError) as error:
            return (Rejected(SOURCE, str(error)),) if self._has_command else ()
        self._due_secs = now_secs + SETUP_SECS
        return ()

    def _groupless(self, table: JobTable, steps: Steps) -> frozenset[JobKey]:
        running = {key for key, job in table.jobs.items() if job.state is JobState.RUNNING}
        if self._setup is not None and not self._setup.makes_groups:
            return frozenset(running)
        return frozenset(key for key in running if steps.is_whole and key.job_id not in steps.jobs)
