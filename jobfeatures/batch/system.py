"""What a batch system says of itself: one `System` a room, in the table of `jobfeatures.batch`.

A room is a package whose ``__init__`` holds no more than that, since hooks start often and have to know all
systems. The rest are parts, imported when they are wanted:

``site``    `is_here(config)`, which ``batch.sources = auto`` goes by, and
            `make_source(config, clock, node_name)`, a `BatchSource`; for the controller role
            `make_cluster_source(config, clock, timeout_secs)`; where hooks are not told all,
            `ask_in_prolog(job, config, node_name=…, timeout_secs=…)` (None: nothing is to be
            asked or known), and where a server is asked for it `needs_server(job, config)`
``prolog``  `job_from_prolog(environ, node_name=…)`, and `job_id_of(environ)` unless `is_plain`
``groups``  HIERARCHY, the shapes of its control groups
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
    """A kind of log. `reader` and `writer` are modules, empty where it is not read or not written."""

    meaning: str
    reader: str = ""
    writer: str = ""
    endings: tuple[str, ...] = ()  # of file names that are written as this kind where --to does not say
    is_zoned: bool = False  # its times are by the clock of a place, which `zone` names
    has_header: bool = False  # of comments, which may say more of the machine
    has_steps: bool = False  # its reader can leave them to be folded
    jobs_only: bool = False  # has one entry a job: steps and runs are folded before it is written
    keeps_text: bool = False  # is written as it was read, byte for byte
    is_sorted: bool = False  # its jobs stand in order: its writer sorts
    repairs: bool = False  # what is nearly right; its strict reader does not
    longest_line: int = 2**16  # characters; a document may stand on one line


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class System:
    """One batch system. It has hooks where there is a `job_variable`, which holds the job's id for them."""

    name: str
    room: str
    parts: str | None = None  # the module that holds all parts, in a room of several systems
    job_variable: str | None = None
    beside: str | None = None  # a variable that is there too, where another system uses the first as well
    is_plain: bool = True  # the variable holds the id of a `JobKey` as it stands
    has_cluster: bool = True  # the controller role can ask it
    has_groups: bool = True
    tells_start: bool = False  # to hooks, by the same clock as in its answers
    node_variable: str | None = None  # holds this node's name in the environment of hooks
    command: str = "its setting"  # the key of the setting that names its command
    variables: tuple[str, ...] = ()  # of our environment, which its commands need
    key_sources: Mapping[str, str] = field(default_factory=dict)  # its own words for the values of keys
    log_kinds: Mapping[str, LogKind] = field(default_factory=dict)  # the logs that it alone writes

    def load(self, part: str) -> Any:
        """Return a part of the room."""
        return importlib.import_module(self.parts or f"{self.room}.{part}")

    def job_id_in(self, environ: Mapping[str, str]) -> str:
        """Return the job id of a job's or a hook's environment. Raises ParseError."""
        variable = self.job_variable or ""
        if not environ.get(variable):
            raise ParseError("the job's id is not known", source="environment", field=variable)
        return environ[variable] if self.is_plain else str(self.load("prolog").job_id_of(environ))
