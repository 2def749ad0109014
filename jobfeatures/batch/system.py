"""What a batch system says of itself: one `System` a room, in the table of `jobfeatures.batch`.

A room is a package whose ``__init__`` holds no more than that, since hooks
start often and have to know all systems. The rest are parts, imported when
they are wanted:

``site``    `is_here(config)`, which ``batch.sources = auto`` goes by, and
            `make_source(config, clock, node_name)`, a `BatchSource`; for the controller role
            `make_cluster_source(config, clock, timeout_secs)`; for hooks `ask_in_prolog(job,
            config, node_name=…, timeout_secs=…)`, what their environment lacks (None: nothing is
            to be asked or known), and where a server is asked for it `needs_server(job, config)`
``prolog``  `job_from_prolog(environ, node_name=…)`, and `job_id_of(environ)` unless `is_plain`
``keys``    KEY_SOURCES, the system's own words for the values of keys that jobs read
``groups``  HIERARCHY, the shapes of its control groups
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobfeatures.errors import ParseError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class System:
    """One batch system. It has hooks where there is a `job_variable`, which holds the job's id for them."""

    name: str
    room: str
    summary: str | None  # the room's docstring
    job_variable: str | None = None
    beside: str | None = None  # a variable that is there too, where another system uses the first as well
    is_plain: bool = True  # the variable holds the id of a `JobKey` as it stands
    has_cluster: bool = True  # the controller role can ask it
    has_groups: bool = True

    def load(self, part: str) -> Any:
        """Return a part of the room."""
        return importlib.import_module(f"{self.room}.{part}")

    def job_id_in(self, environ: Mapping[str, str]) -> str:
        """Return the job id of a job's or a hook's environment. Raises ParseError."""
        variable = self.job_variable or ""
        if not environ.get(variable):
            raise ParseError("the job's id is not known", source="environment", field=variable)
        return environ[variable] if self.is_plain else str(self.load("prolog").job_id_of(environ))
