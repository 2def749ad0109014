"""What the daemon and the hooks make of Slurm with a site's settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobfeatures.clock import Clock
from jobfeatures.model import Job

MAX_ANSWER_BYTES = 32 * 2**20
MAX_WHOLE_ANSWER_BYTES = 2**30  # a job is 3 to 5 kB of JSON

SPREAD = (0.75, 1.25)  # of the time between two questions about the same

CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf")

if TYPE_CHECKING:
    from jobfeatures.batch.slurm.rest import Rest
    from jobfeatures.batch.source import BatchSource, ClusterSource
    from jobfeatures.config import Config


def is_here(config: Config) -> bool:
    """Return whether this is a machine of a Slurm cluster, for those who leave the choice of sources to us.

    Its configuration is proof enough: a scontrol that is not found there is then a failure that is reported.
    """
    if config.slurm_ask == "controller" or (config.slurm_ask == "rest" and config.slurm_rest_url is not None):
        return True
    import shutil  # a prolog has no use for it

    if shutil.which(config.slurm_scontrol) is not None:
        return True
    return "SLURM_CONF" in os.environ or any(map(os.path.exists, CONFIGURATIONS))


def make_source(config: Config, clock: Clock, node_name: str) -> BatchSource:
    """Return the source of a daemon. Raises ConfigurationError."""
    if config.slurm_ask == "controller":
        return _make_controller_source(config, clock, node_name)
    import random  # a prolog has no use for it

    from jobfeatures.batch.slurm.source import SlurmSource

    asker = None
    if config.slurm_ask == "rest":
        from jobfeatures.batch.slurm.jsonsource import JsonAsker

        asker = JsonAsker(
            clock, make_rest(config), node_name=node_name, timeout_secs=config.batch_timeout_secs
        )
    # Each daemon at its own pace: all begin at once where a new version is rolled out.
    refresh_secs = config.batch_refresh_secs * random.uniform(*SPREAD)  # noqa: S311  # not a secret
    return SlurmSource(
        clock,
        node_name=node_name,
        scontrol=config.slurm_scontrol,
        timeout_secs=config.batch_timeout_secs,
        refresh_secs=refresh_secs,
        node_refresh_secs=refresh_secs,
        asker=asker,
    )


def _make_controller_source(config: Config, clock: Clock, node_name: str) -> BatchSource:
    from jobfeatures.batch.controller.client import make_client
    from jobfeatures.batch.controller.source import ControllerSource
    from jobfeatures.batch.slurm.answers import Scontrol
    from jobfeatures.batch.slurm.basics import NAME, is_plain_id

    timeout_secs = config.batch_timeout_secs
    scontrol = Scontrol(config.slurm_scontrol, node_name=node_name, timeout_secs=timeout_secs)
    return ControllerSource(
        NAME,
        make_client(config, clock, node_name, key="slurm.ask", timeout_secs=timeout_secs),
        clock,
        ask_one=scontrol.ask_about_job,
        is_plain=is_plain_id,
        fallback_secs=config.controller_fallback_secs,
    )


def make_rest(config: Config, *, whole: bool = False) -> Rest:
    """Return what asks slurmrestd; `whole`: also for the whole queue. Raises ConfigurationError."""
    from jobfeatures.batch.slurm.rest import Rest
    from jobfeatures.errors import ConfigurationError, SourceError

    if config.slurm_rest_url is None:
        raise ConfigurationError("slurm.rest_url", "is not set: slurm.ask = rest needs it")
    try:
        return Rest(
            config.slurm_rest_url,
            token_file=config.slurm_rest_token_file,
            max_bytes=MAX_WHOLE_ANSWER_BYTES if whole else MAX_ANSWER_BYTES,
        )
    except SourceError as error:
        raise ConfigurationError("slurm.rest_url", str(error)) from error


def make_cluster_source(config: Config, clock: Clock, timeout_secs: float) -> ClusterSource:
    """Return the source of the controller role. The other commands are those beside scontrol."""
    if config.slurm_ask == "rest":
        from jobfeatures.batch.slurm.jsonsource import JsonCluster

        return JsonCluster(clock, make_rest(config, whole=True), timeout_secs=timeout_secs)
    from jobfeatures.batch.slurm.clustersource import SlurmCluster  # a prolog has no use for it

    return SlurmCluster(clock, scontrol=config.slurm_scontrol, timeout_secs=timeout_secs)


def needs_server(job: Job, config: Config) -> bool:
    """Return whether the controller is to be asked about a job that starts.

    Where the Prolog's environment tells start and end, as that of Slurm 22.05 does not, there is nothing to
    ask. A job on many nodes starts on all of them at once, and its questions would reach the controller at
    once: its limits come with the daemon's next poll, and so they do where nodes ask the controller role.
    """
    if config.hook_ask == "never" or config.slurm_ask == "controller":
        return False
    if len(job.nodes) > config.slurm_ask_max_nodes:
        return False
    return job.start_secs is None or job.limits.wall_secs is None


def ask_in_prolog(job: Job, config: Config, *, node_name: str, timeout_secs: float) -> Job | None:
    """Return what the controller knows of a job, None: not to be asked. Raises SourceError or ParseError."""
    if not needs_server(job, config):
        return None
    if config.slurm_ask == "rest":
        return _ask_by_rest(job.key.job_id, config, node_name, timeout_secs)
    from jobfeatures.batch.slurm.answers import Scontrol  # only where there is something to ask

    scontrol = Scontrol(config.slurm_scontrol, node_name=node_name, timeout_secs=timeout_secs)
    return scontrol.ask_about_job(job.key.job_id)


def _ask_by_rest(job_id: str, config: Config, node_name: str, timeout_secs: float) -> Job | None:
    from jobfeatures.batch.slurm.basics import is_plain_id
    from jobfeatures.batch.slurm.jsonsource import JsonAsker
    from jobfeatures.clock import SystemClock
    from jobfeatures.errors import ParseError

    if not is_plain_id(job_id):
        raise ParseError("not a job id", text=job_id)
    rest = make_rest(config)
    asker = JsonAsker(SystemClock(), rest, node_name=node_name, timeout_secs=timeout_secs)
    answers, _ = asker.ask([job_id], about_node=False, now_secs=0.0)
    return answers.one(job_id, rest.name)
