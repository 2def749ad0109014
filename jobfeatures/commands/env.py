"""`jobfeatures env`: prints the lines that export the paths of a job's features."""

from __future__ import annotations

import argparse
import logging
import os

from jobfeatures.batch import SYSTEMS
from jobfeatures.commands.common import add_batch, read_config, which_batch_system, which_job
from jobfeatures.config import Config
from jobfeatures.publish.exports import beside_others, format_exports
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey
from jobfeatures.settings.flags import add_flags

log = logging.getLogger(__name__)

MAX_LINES_BYTES = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `jobfeatures env` to its parser."""
    add_flags(parser, Config)
    add_batch(parser, SYSTEMS, " (default: by the environment)")
    parser.add_argument("--job", metavar="ID", help="job (default: by the environment)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--http", action="store_true", help="HTTP addresses; for the job's user and root only")
    form.add_argument("--local", action="store_true", help="paths (default: as features.form says)")


def run(arguments: argparse.Namespace) -> int:
    """Print the export lines. If the job is not published yet, they have the paths that it will have.

    Exit status 1 if URLs are requested but features are not served, or the job is another user's.
    """
    config = read_config(arguments)
    batch_system = which_batch_system(arguments.batch)
    key = JobKey(batch_system, arguments.job or which_job(batch_system))
    tree = FeatureTree(config.batch.common.root)
    if not arguments.job and not os.path.isdir(tree.job_path(key)):
        key = _component(tree, key)
    if arguments.http:
        return _print(tree.urls_path(key))
    binds = config.site.features.bind
    if not os.path.isdir(tree.job_path(key)):
        why = "nothing is published for this job: no %s; if it stays so, run jobfeatures-exporter doctor"
        log.warning(why, tree.job_path(key), extra={"job_id": key.job_id})
        binds = ()  # a container could not start
    elif not arguments.local and _print(tree.exports_path(key)) == 0:
        return 0
    print(*beside_others(format_exports(tree, key, binds).splitlines(), os.environ), sep="\n")
    return 0


def _component(tree: FeatureTree, key: JobKey) -> JobKey:
    """Return the component of a heterogeneous job that is here: Slurm gives tasks the first one's id."""
    size = os.environ.get("SLURM_HET_SIZE", "")
    if key.batch_system == "slurm" and size.isdecimal() and len(size) < 4:
        for offset in range(1, int(size)):
            other = JobKey(key.batch_system, str(int(key.job_id) + offset))
            if os.path.isdir(tree.job_path(other)):
                return other
    return key


def _print(path: str) -> int:
    """Print a file of export lines that the publisher has written for this job; return the exit status."""
    try:
        with open(path, encoding="ascii") as file:
            print(*beside_others(file.read(MAX_LINES_BYTES).splitlines(), os.environ), sep="\n")
    except FileNotFoundError:
        log.warning(
            "the daemon has not published the lines that set this job's environment variables (for --http, "
            "features.listen_address has to be set); if it stays so, run jobfeatures-exporter doctor",
            extra={"file": path},
        )
        return 1
    except OSError as error:
        log.warning("%s: %s", path, error.strerror)
        return 1
    return 0
