"""`jobfeatures publish`: publishes the features of a job that starts, for prologs."""

from __future__ import annotations

import argparse
import logging
import os
import time

from jobfeatures.commands.common import which_batch_system
from jobfeatures.commands.hook import add_hook_arguments, run_hook
from jobfeatures.config import Config
from jobfeatures.hooks.actions import publish_job

log = logging.getLogger(__name__)

ASK_SHARE = 0.75  # of the hook's time limit for querying the controller; the rest is for writing

add_arguments = add_hook_arguments


def run(arguments: argparse.Namespace) -> int:
    """Publish the features of the job that starts here, for a prolog; return the exit status."""

    def work(config: Config) -> None:
        started = time.monotonic()
        batch_system = which_batch_system(arguments.batch)
        job = publish_job(config, batch_system, os.environ, timeout_secs=ASK_SHARE * config.hook.timeout_secs)
        log.info("published", extra={"job_id": job.key.job_id, "secs": f"{time.monotonic() - started:.3f}"})

    return run_hook(arguments, work)
