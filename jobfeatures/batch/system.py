"""The description of a batch system: one `System` for each, in the table of `jobfeatures.batch`.

A batch system's package (its room) holds only that in ``__init__``, since hooks start often and have to know
all systems. The rest is in parts, modules that are imported on demand:

``source``  `make_source(config, clock, node_name)`, a `BatchSource`
``clustersource``  `make_cluster_source(config, clock, timeout_secs)`, a `ClusterSource`, if it `has_cluster`
``site``    `is_here(config)`, which ``batch.sources = auto`` uses; where a hook's environment is incomplete,
            `ask_in_prolog(job, config, node_name=…, timeout_secs=…)` (None: nothing to ask, or
            nothing learnt), and if that queries a server, `needs_server(job, config)`; where there are any,
            `read_parents(config)`, the parents of jobs' control groups by its configuration, as patterns of
            paths, and `daemon_uids(config)`, which its daemons may have beside root's
``prolog``  `job_from_prolog(environ, node_name=…)`, and `job_id_of(environ)` unless `is_plain`
``groups``  HIERARCHY, the patterns of its control groups; if some of these name no job id, then also the part
            ``groupnames`` with `make_group_names(config, procfs, failures)`, a `GroupNames`
``processes``  `make_job_processes(config, procfs, failures)`, a `JobProcesses`, if it `has_processes`
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from jobfeatures.errors import ParseError

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
