"""Batch systems: one file each, one line in `SYSTEMS` each.

A file offers `is_here(config) -> bool`, which `batch.sources = auto` goes by,
and `make_source(config, clock, node_name) -> BatchSource`, and in
`KEY_SOURCES` its own words for the values of keys that jobs read. For the
controller role it may offer `make_cluster_source(config, clock,
timeout_secs) -> ClusterSource`. Where the system runs hooks it also offers
`job_from_prolog` and `ask_in_prolog`, perhaps `needs_server` (see
`jobfeatures.hooks.HookModule`), and its line names the variable that holds a
job's id in the environment of jobs and hooks. Where that is not plainly the id
of a `JobKey`, the file offers `job_id_of(environ) -> str`, which raises ParseError.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import NamedTuple

from jobfeatures.errors import ParseError


class BatchSystem(NamedTuple):
    """Where a batch system's file is, and how its jobs know their id."""

    module: str
    job_variable: str | None = None
    beside: str | None = None  # a variable that is there too, where another system uses the first as well
    is_plain: bool = True  # the variable holds the id of a `JobKey` as it stands


SYSTEMS = {
    "slurm": BatchSystem("jobfeatures.batch.slurm", "SLURM_JOB_ID"),
    "torque": BatchSystem("jobfeatures.batch.torque", "PBS_JOBID", beside="PBS_VERSION", is_plain=False),
    "pbs": BatchSystem("jobfeatures.batch.pbs", "PBS_JOBID", is_plain=False),
    "lsf": BatchSystem("jobfeatures.batch.lsf", "LSB_JOBID", is_plain=False),
    "htcondor": BatchSystem("jobfeatures.batch.htcondor", "_CONDOR_JOB_AD", is_plain=False),
    "gridengine": BatchSystem("jobfeatures.batch.gridengine", "JOB_ID", beside="SGE_TASK_ID", is_plain=False),
    "spool": BatchSystem("jobfeatures.batch.spool"),
}


def load_module(batch_system: str) -> ModuleType:
    """Return the file of a batch system, imported only when it is wanted: hooks start often."""
    return importlib.import_module(SYSTEMS[batch_system].module)


def job_id_in(batch_system: str, environ: Mapping[str, str]) -> str:
    """Return the job id of a job's or a hook's environment. Raises ParseError."""
    system = SYSTEMS[batch_system]
    variable = system.job_variable or ""
    if not environ.get(variable):
        raise ParseError("the job's id is not known", source="environment", field=variable)
    if system.is_plain:
        return environ[variable]
    return str(load_module(batch_system).job_id_of(environ))
