"""`jobfeatures show`: prints the features of the machine and of jobs."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping

from jobfeatures.batch import SYSTEMS
from jobfeatures.client import Features, FeaturesError
from jobfeatures.commands.common import add_batch, read_config
from jobfeatures.config import Config
from jobfeatures.errors import ParseError, printable
from jobfeatures.features.origin import UNKNOWN, parse_origins
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey
from jobfeatures.settings.flags import add_flags
from jobfeatures.settings.usage import complain

MAX_ORIGINS_CHARACTERS = 2**16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `jobfeatures show` to its parser."""
    add_flags(parser, Config)
    parser.add_argument("job", nargs="?", metavar="JOB", help="id (default: this job, else all jobs)")
    parser.add_argument("--origin", action="store_true", help="also say where each value comes from")
    add_batch(parser, SYSTEMS, ", if the id is not unique")


def run(arguments: argparse.Namespace) -> int:
    """Print the features of the machine, and of one job, this job or all jobs; return the exit status."""
    tree, job_id = FeatureTree(read_config(arguments).batch.common.root), arguments.job
    if job_id is None and os.environ.get("JOBFEATURES"):
        variables = ("MACHINEFEATURES", "JOBFEATURES")
        directories = [os.environ[name] for name in variables if os.environ.get(name)]
    else:
        keys = [
            key
            for key in sorted(tree.published())
            if (job_id is None or key.is_called(job_id)) and arguments.batch in (None, key.batch_system)
        ]
        if job_id is not None and not keys:
            complain(f"nothing is published for job {job_id} in {tree.root}; jobfeatures show lists others")
            return 1
        directories = [tree.machine_path, *(tree.job_path(key) for key in keys)]
    return max(_show(tree, directory, with_origin=arguments.origin) for directory in directories)


def _show(tree: FeatureTree, directory: str, *, with_origin: bool) -> int:
    """Print a directory and return the exit status: a directory that cannot be read hides no other."""
    try:
        print(directory)
        origins = _origins(tree, directory) if with_origin else {}
        for name, value in _entries(directory):
            origin = f"  ({printable(origins.get(name, UNKNOWN))})" if with_origin else ""
            print(f"  {name} {value}{origin}")
    except BrokenPipeError:
        raise
    except (FeaturesError, ParseError) as error:
        complain(error)
        return 1
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}")
        return 1
    return 0


def _entries(directory: str) -> Iterator[tuple[str, str]]:
    """Yield the keys and values of a directory; over HTTP, of known keys only, as it has no listing."""
    if directory.startswith("/"):
        names = sorted(os.listdir(directory))
    else:
        from jobfeatures.features.keys import KEYS

        names = [key.name for key in KEYS]
    features = Features(machine=directory, job=None)
    for name in names:
        value = features.get("machine", name)
        if value is not None:
            yield name, printable(value)


def _origins(tree: FeatureTree, directory: str) -> Mapping[str, str]:
    """Return the origins of the values in a directory of this tree; none for any other directory."""
    if directory.rstrip("/") == tree.machine_path:
        path = tree.origins_path()
    else:
        directory = os.path.realpath(directory)  # HTCondor's jobs may know theirs by a link
        key = JobKey.from_directory_name(os.path.basename(directory))
        if key is None or os.path.realpath(tree.job_path(key)) != directory:
            return {}
        path = tree.origins_path(key)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return parse_origins(file.read(MAX_ORIGINS_CHARACTERS), source=path)
    except FileNotFoundError:
        return {}
