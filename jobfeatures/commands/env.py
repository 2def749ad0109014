"""`jobfeatures env`."""

from __future__ import annotations

import argparse
import logging
import os

from jobfeatures.batch import SYSTEMS
from jobfeatures.commands.common import read_config, which_batch_system, which_job
from jobfeatures.config import Config
from jobfeatures.model import JobKey
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.publish.writing import format_exports
from jobfeatures.settings import add_flags

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_flags(parser, Config)
    parser.add_argument("--batch", choices=sorted(SYSTEMS), help="batch system (default: by the environment)")
    parser.add_argument("--job", metavar="ID", help="job (default: by the environment)")


def run(arguments: argparse.Namespace) -> int:
    """Print the lines; nothing for a job without features, which runs all the same."""
    config = read_config(arguments)
    batch_system = which_batch_system(arguments.batch)
    key = JobKey(batch_system, arguments.job or which_job(batch_system))
    tree = FeatureTree(config.features_root)
    if os.path.isdir(tree.job_path(key)):
        print(format_exports(tree, key), end="")
    else:
        log.warning("nothing is published for this job", extra={"job_id": key.job_id})
    return 0
