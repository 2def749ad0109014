"""Defines `System`: what a batch system provides. Each batch system has a package with a subclass of it.

The subclass is in ``system.py``, the settings and what commands need in ``__init__.py``. Hooks load these two
files of every system, and start often: so only methods import the other files of a package, when called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from jobfeatures.errors import ParseError, Rejected

if TYPE_CHECKING:  # hooks start often
    from jobfeatures.batch.groups import BatchHierarchy
    from jobfeatures.batch.processes import Failures, GroupNames, JobProcesses
    from jobfeatures.batch.settings import SystemSettings
    from jobfeatures.batch.source import BatchSource, ClusterSource
    from jobfeatures.joblogs.logformat import LogReader
    from jobfeatures.records.model import Job
    from jobfeatures.system.clock import Clock

DOCUMENT: Final = 2**28
LIST_OF_NODES: Final = 2**20


class LogKind(ABC):
    """A format of job logs; `jobfeatures.joblogs.logformat` defines what its reader and writer offer.

    `endings` are those of file names that select the format for writing; `is_zoned`: times are local, without
    a zone; `has_header`: comments at the beginning may describe the machine; `has_steps`: the reader can
    return steps; `jobs_only`: steps and runs are merged into one entry per job before writing; `keeps_text`:
    a log is written as it was read, byte for byte; `is_sorted`: jobs are sorted before writing; `is_by_line`:
    each line is complete, so a log may begin anywhere; `repairs`: the reader repairs small errors;
    `longest_line` is in characters.
    """

    name: ClassVar[str]
    meaning: ClassVar[str]
    endings: ClassVar[tuple[str, ...]] = ()  # of file names that select this format when --to is not given
    is_zoned: ClassVar[bool] = False  # its times are local, in the time zone that `zone` names
    has_header: ClassVar[bool] = False  # of comments, which may describe the machine
    has_steps: ClassVar[bool] = False  # its reader can return steps for the caller to fold
    jobs_only: ClassVar[bool] = False  # has one entry per job: steps and runs are folded before writing
    keeps_text: ClassVar[bool] = False  # is written as it was read, byte for byte
    is_sorted: ClassVar[bool] = False  # its jobs are in order: its writer sorts
    is_by_line: ClassVar[bool] = False  # each line stands for itself: a log may begin anywhere
    repairs: ClassVar[bool] = False  # its reader, unless strict, repairs small errors
    longest_line: ClassVar[int] = 2**16  # characters; a whole document may be one line

    @abstractmethod
    def reader(self) -> LogReader:
        """Import and return the module that reads this format."""


Own_contra = TypeVar("Own_contra", contravariant=True)  # its record of settings


class System(ABC, Generic[Own_contra]):
    """One batch system: its names, commands and variables, and how to get its jobs.

    `key_sources` says where the value of each feature comes from. A batch system has hooks if `job_variable`
    is set, the environment variable with the job's id; `second_variable` is a second variable to require, if
    another system sets the first one too. `supervisor` and `daemon` are the names of its processes in a job
    and on a node. `reports_suspension`: its answers say whether a job is suspended;
    `suspension_extends_limit`: suspended time does not count against the wall limit; `hooks_know_start`:
    hooks learn the job's start. `node_variable` and `cluster_variable` have these names in hooks.
    `has_gpustat`: its prolog may write /run/gpustat. `command` is the setting with its command, `variables`
    are environment variables that the command gets.
    """

    name: ClassVar[str]
    key_sources: ClassVar[Mapping[str, str]]  # where each key's value comes from
    log_kinds: ClassVar[tuple[LogKind, ...]] = ()  # the log formats of this system only
    job_variable: ClassVar[str | None] = None
    second_variable: ClassVar[str | None] = None  # required, too, where another system sets the first
    supervisor: ClassVar[str | None] = None  # the command of its own process in a job
    daemon: ClassVar[str | None] = None  # that of its process on a node, which runs as root
    has_gpustat: ClassVar[bool] = False  # a prolog of its may write /run/gpustat
    reports_suspension: ClassVar[bool] = True  # its answers on a node say whether a job is suspended
    suspension_extends_limit: ClassVar[bool] = False  # suspended time does not count against the wall limit
    hooks_know_start: ClassVar[bool] = False  # by the same clock as in its answers
    node_variable: ClassVar[str | None] = None  # holds this node's name in the environment of hooks
    cluster_variable: ClassVar[str | None] = None  # holds the cluster's there
    command: ClassVar[str] = "its setting"  # the key of the setting that names its command
    variables: ClassVar[tuple[str, ...]] = ()  # of our environment, to pass on to its commands

    @abstractmethod
    def is_here(self, config: SystemSettings[Own_contra]) -> bool:
        """Return whether the batch system is installed on this host; used if ``batch.sources`` is "auto"."""

    @abstractmethod
    def make_source(self, config: SystemSettings[Own_contra], clock: Clock, node_name: str) -> BatchSource:
        """Return the source that reports the jobs of the node `node_name`.

        Raises ConfigurationError if a setting is wrong.
        """

    def job_id_in(self, environ: Mapping[str, str]) -> str:
        """Return the job id in a job's or a hook's environment. Raises ParseError if missing or malformed."""
        variable = self.job_variable or ""
        if not environ.get(variable):
            raise ParseError("must be set to the job's id", source="environment", field=variable)
        return self.job_id_of(environ)

    def job_id_of(self, environ: Mapping[str, str]) -> str:
        """Return the job id in an environment that sets `job_variable`. Raises ParseError if malformed."""
        return environ[self.job_variable or ""]

    def job_from_prolog(
        self, environ: Mapping[str, str], *, node_name: str | None, note: Callable[[Rejected], None]
    ) -> Job:
        """Return the job that a prolog's environment describes; malformed values are reported to `note`.

        Raises ParseError, always if the batch system has no hooks.
        """
        raise ParseError(f"batch system {self.name} has no prolog", source="environment")

    def ask_in_prolog(
        self, job: Job, config: SystemSettings[Own_contra], *, node_name: str, timeout_secs: float
    ) -> Job | None:
        """Return the job with values that the prolog's environment lacks; None if there is nothing to add.

        They are read or queried within `timeout_secs`. Raises JobfeaturesError if that fails.
        """
        return None

    def needs_server(self, job: Job, config: SystemSettings[Own_contra]) -> bool:
        """Return whether `ask_in_prolog` has to query a server."""
        return False

    def read_parents(self, config: SystemSettings[Own_contra]) -> Collection[str]:
        """Return path patterns of the control groups below which the system makes those of jobs.

        They are read from the batch system's own configuration. Raises OSError or JobfeaturesError if it
        cannot be read.
        """
        return ()

    def daemon_uids(self, config: SystemSettings[Own_contra]) -> Collection[int]:
        """Return the uids, besides root's, of the system's daemons.

        Raises OSError or JobfeaturesError if they cannot be found out.
        """
        return ()

    def hierarchy(self) -> BatchHierarchy | None:
        """Return how the batch system names jobs' control groups; None if it makes none."""
        return None

    @property
    def has_groups(self) -> bool:
        """Return whether the batch system makes control groups for jobs."""
        return self.hierarchy() is not None

    def make_group_names(self, config: SystemSettings[Own_contra], failures: Failures) -> GroupNames | None:
        """Return a finder of job ids for control groups whose paths have none; None if all paths have one."""
        return None

    def make_job_processes(
        self, config: SystemSettings[Own_contra], failures: Failures
    ) -> JobProcesses | None:
        """Return a finder of jobs by their processes; None if jobs have control groups."""
        return None


class ClusterSystem(System[Own_contra]):
    """A batch system that the controller role can query about the whole cluster."""

    @abstractmethod
    def make_cluster_source(
        self, config: SystemSettings[Own_contra], clock: Clock, timeout_secs: float
    ) -> ClusterSource:
        """Return the source that reports the whole cluster's jobs; `timeout_secs` limits each query.

        Raises ConfigurationError for wrong settings.
        """
