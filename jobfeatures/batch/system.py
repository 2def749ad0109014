"""The description of a batch system: one `System` for each, in the table of `jobfeatures.batch`.

A batch system's package (its room) holds only that in ``__init__``, since hooks start often and have to know
all systems. The rest is in parts, modules that are imported on demand: each method of `System` that needs one
calls the function of its own name there, and says in which. Those in ``site`` but `is_here` may be missing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jobfeatures.errors import ParseError, Rejected

if TYPE_CHECKING:  # hooks start often
    from jobfeatures.batch.groups import BatchHierarchy
    from jobfeatures.batch.processes import Failures, GroupNames, JobProcesses
    from jobfeatures.batch.source import BatchSource, ClusterSource
    from jobfeatures.records.model import Job
    from jobfeatures.system.clock import Clock

DOCUMENT: Final = 2**28
LIST_OF_NODES: Final = 2**20


class LogKind(NamedTuple):
    """A log format. `reader` and `writer` are modules, empty where it cannot be read or written."""

    meaning: str
    reader: str = ""
    writer: str = ""
    endings: tuple[str, ...] = ()  # of file names that select this format when --to is not given
    is_zoned: bool = False  # its times are local, in the time zone that `zone` names
    has_header: bool = False  # of comments, which may describe the machine
    has_steps: bool = False  # its reader can return steps for the caller to fold
    jobs_only: bool = False  # has one entry per job: steps and runs are folded before writing
    keeps_text: bool = False  # is written as it was read, byte for byte
    is_sorted: bool = False  # its jobs are in order: its writer sorts
    is_by_line: bool = False  # each line stands for itself: a log may begin anywhere
    repairs: bool = False  # its reader, unless strict, repairs small errors
    longest_line: int = 2**16  # characters; a whole document may be one line


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class System:
    """One batch system. It has hooks if there is a `job_variable`, which gives them the job's id."""

    name: str
    room: str
    parts: str | None = None  # the module that holds all parts, if several systems share the room
    job_variable: str | None = None
    beside: str | None = None  # a second variable to require, where another system sets the first too
    is_plain: bool = True  # the variable holds the `JobKey`'s id as it is
    has_cluster: bool = True  # the controller role can query it
    has_groups: bool = True
    has_processes: bool = False  # its jobs are found by their processes
    shepherd: str | None = None  # the command of its own process in a job
    daemon: str | None = None  # that of its process on a node, which runs as root
    has_gpustat: bool = False  # a prolog of its may write /run/gpustat
    tells_suspension: bool = True  # its answers on a node say whether a job is suspended
    limit_waits: bool = False  # time for which a job is suspended does not count against its wall limit
    tells_start: bool = False  # hooks learn the start time, by the same clock as in its answers
    node_variable: str | None = None  # holds this node's name in the environment of hooks
    cluster_variable: str | None = None  # holds the cluster's there
    command: str = "its setting"  # the key of the setting that names its command
    variables: tuple[str, ...] = ()  # of our environment, to pass on to its commands
    key_sources: Mapping[str, str] = field(default_factory=dict)  # where each key's value comes from
    log_kinds: Mapping[str, LogKind] = field(default_factory=dict)  # the log formats of this system only

    def load(self, part: str) -> Any:
        """Import and return a part of the room."""
        return importlib.import_module(self.parts or f"{self.room}.{part}")

    def job_id_in(self, environ: Mapping[str, str]) -> str:
        """Return the job id in a job's or a hook's environment. Raises ParseError."""
        variable = self.job_variable or ""
        if not environ.get(variable):
            raise ParseError("the job's id is not known", source="environment", field=variable)
        return environ[variable] if self.is_plain else str(self.load("prolog").job_id_of(environ))

    def job_from_prolog(
        self, environ: Mapping[str, str], *, node_name: str | None, note: Callable[[Rejected], None]
    ) -> Job:
        """Return the job in a prolog's environment (``prolog``). Raises ParseError."""
        job: Job = self.load("prolog").job_from_prolog(environ, node_name=node_name, note=note)
        return job

    def is_here(self, config: Any) -> bool:
        """Return whether it is installed or configured here, for ``batch.sources = auto`` (``site``)."""
        return bool(self.load("site").is_here(config))

    def ask_in_prolog(self, job: Job, config: Any, *, node_name: str, timeout_secs: float) -> Job | None:
        """Return what a hook's environment lacks (``site``); None: nothing to ask, or nothing learnt.

        Raises JobfeaturesError.
        """
        ask: Callable[..., Job | None] = getattr(self.load("site"), "ask_in_prolog", lambda *_, **_more: None)
        return ask(job, config, node_name=node_name, timeout_secs=timeout_secs)

    def needs_server(self, job: Job, config: Any) -> bool:
        """Return whether `ask_in_prolog` has to query a server (``site``)."""
        return bool(getattr(self.load("site"), "needs_server", lambda *_: False)(job, config))

    def read_parents(self, config: Any) -> Collection[str]:
        """Return the parents of jobs' groups by its configuration, as patterns of paths (``site``).

        Raises OSError, JobfeaturesError.
        """
        read: Callable[[Any], Collection[str]] = getattr(self.load("site"), "read_parents", lambda _: ())
        return read(config)

    def daemon_uids(self, config: Any) -> Collection[int]:
        """Return whom its daemons may be beside root (``site``). Raises OSError, JobfeaturesError."""
        find: Callable[[Any], Collection[int]] = getattr(self.load("site"), "daemon_uids", lambda _: ())
        return find(config)

    def make_source(self, config: Any, clock: Clock, node_name: str) -> BatchSource:
        """Return the source of a node's jobs (``source``). Raises ConfigurationError."""
        source: BatchSource = self.load("source").make_source(config, clock, node_name)
        return source

    def make_cluster_source(self, config: Any, clock: Clock, timeout_secs: float) -> ClusterSource:
        """Return the source of a cluster's jobs (``clustersource``), if it `has_cluster`."""
        source: ClusterSource = self.load("clustersource").make_cluster_source(config, clock, timeout_secs)
        return source

    def hierarchy(self) -> BatchHierarchy:
        """Return the patterns of its control groups: HIERARCHY (``groups``), if it `has_groups`."""
        patterns: BatchHierarchy = self.load("groups").HIERARCHY
        return patterns

    def make_group_names(self, config: Any, procfs: str, failures: Failures) -> GroupNames:
        """Return what finds the jobs of groups that name none (``groupnames``), if it has such."""
        names: GroupNames = self.load("groupnames").make_group_names(config, procfs, failures)
        return names

    def make_job_processes(self, config: Any, procfs: str, failures: Failures) -> JobProcesses:
        """Return what finds jobs by their processes (``processes``), if it `has_processes`."""
        finder: JobProcesses = self.load("processes").make_job_processes(config, procfs, failures)
        return finder
