"""`jobfeatures show`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping

from jobfeatures.batch import SYSTEMS
from jobfeatures.client import Features, FeaturesError
from jobfeatures.commands.common import read_config
from jobfeatures.config import Config
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.settings import add_flags


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_flags(parser, Config)
    parser.add_argument("job", nargs="?", metavar="JOB", help="id (default: this job, else all jobs)")
    parser.add_argument("--batch", choices=sorted(SYSTEMS), help="batch system, if the id is not unique")


def run(arguments: argparse.Namespace) -> int:
    """Print features."""
    return show_jobs(read_config(arguments), arguments.job, arguments.batch, os.environ)


def show_jobs(
    config: Config, job_id: str | None, batch_system: str | None, environ: Mapping[str, str]
) -> int:
    """Print the machine's features and those of one job, of this job, or of all jobs published here."""
    tree = FeatureTree(config.features_root)
    if job_id is None and "JOBFEATURES" in environ:
        directories = [environ[name] for name in ("MACHINEFEATURES", "JOBFEATURES") if name in environ]
    else:
        keys = [
            key
            for key in sorted(tree.published())
            if job_id in (None, key.job_id) and batch_system in (None, key.batch_system)
        ]
        if job_id is not None and not keys:
            print(f"jobfeatures: nothing is published for job {job_id}", file=sys.stderr)
            return 1
        directories = [tree.machine_path, *(tree.job_path(key) for key in keys)]
    try:
        for directory in directories:
            print(directory)
            for name, value in _entries(directory):
                print(f"  {name} {value}")
    except (FeaturesError, OSError) as error:
        print(f"jobfeatures: {error}", file=sys.stderr)
        return 1
    return 0


def _entries(directory: str) -> Iterator[tuple[str, str]]:
    """Yield the keys of a directory; over HTTP only the known ones can be asked for."""
    if directory.startswith("/"):
        names = sorted(os.listdir(directory))
    else:
        from jobfeatures.features.keys import KEYS

        names = [key.name for key in KEYS]
    features = Features(machine=directory, job=None)
    for name in names:
        value = features.get("machine", name)
        if value is not None:
            yield name, value.encode("unicode_escape").decode()
