"""`jobfeatures remove`: removes the features of a job that ended, for epilogs."""

from __future__ import annotations

import argparse
import logging
import os

from jobfeatures.commands.common import which_batch_system, which_job
from jobfeatures.commands.hook import add_hook_arguments, run_hook
from jobfeatures.config import Config
from jobfeatures.hooks.actions import remove_job
from jobfeatures.records.model import JobKey

log = logging.getLogger(__name__)

add_arguments = add_hook_arguments


def run(arguments: argparse.Namespace) -> int:
    """Remove the features of the job that ended here, for an epilog; return the exit status."""

    def work(config: Config) -> None:
        batch_system = which_batch_system(arguments.batch)
        key = JobKey(batch_system, which_job(batch_system))
        found = remove_job(config, key, os.environ)
        log.info("removed" if found else "nothing to remove", extra={"job_id": key.job_id})

    return run_hook(arguments, work)
