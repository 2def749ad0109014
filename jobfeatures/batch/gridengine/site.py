"""Whether Grid Engine is on this host, and what a prolog queries its master for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobfeatures.batch.basics import is_installed
from jobfeatures.batch.gridengine.spool import find_spool
from jobfeatures.records.model import Job

if TYPE_CHECKING:
    from jobfeatures.batch.gridengine import GridEngineSettings
    from jobfeatures.batch.settings import SystemSettings


def is_here(config: SystemSettings[GridEngineSettings]) -> bool:
    """Return whether Grid Engine runs or is set up on this host.

    A command ``qstat`` is no proof, as other batch systems have one too.
    """
    if config.own.spool_directory is not None or find_spool(config.procfs) is not None:
        return True
    return "SGE_ROOT" in os.environ and is_installed(config.own.qstat.removesuffix("qstat") + "qhost")


def needs_server(job: Job, config: SystemSettings[GridEngineSettings]) -> bool:
    """Return whether a prolog queries the master for the wall limit: unless ``hook.ask`` is never."""
    del job
    return config.common.hook_ask != "never"


def ask_in_prolog(
    job: Job, config: SystemSettings[GridEngineSettings], *, node_name: str, timeout_secs: float
) -> Job | None:
    """Return the job with its wall limit from the master; None if ``hook.ask`` forbids the query.

    The query costs little: a prolog runs once per job, on the host of its first task. Raises SourceError if
    the master gives no answer, ParseError if it is malformed.
    """
    if not needs_server(job, config):
        return None
    from jobfeatures.batch.gridengine.asking import ask_about_jobs, ask_about_queues, with_wall_limit

    number = job.key.job_id.partition(".")[0]
    qstat, each_secs = config.own.qstat, timeout_secs / 2
    asked, _ = ask_about_jobs([number], qstat=qstat, timeout_secs=each_secs)
    queues, _ = ask_about_queues(node_name, qstat=qstat, timeout_secs=each_secs)
    return with_wall_limit(job, asked.get(number), queues.get(job.partition or ""))
