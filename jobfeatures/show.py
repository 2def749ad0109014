"""What `jobfeatures show` and `jobfeatures remaining` print."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping

from jobfeatures.client import Features, FeaturesError
from jobfeatures.config import Config
from jobfeatures.publish.tree import FeatureTree


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


def show_remaining(environ: Mapping[str, str], *, explain: bool) -> int:
    """Print whole seconds; with `explain` also each basis. Exit status 1 if nothing is known."""
    try:
        remaining = Features.from_environment(environ).remaining(time.time())
    except FeaturesError as error:
        print(f"jobfeatures: {error}", file=sys.stderr)
        return 1
    for note in remaining.notes:
        print(f"jobfeatures: {note}", file=sys.stderr)
    if remaining.seconds is None:
        print("jobfeatures: no limit is known for this job", file=sys.stderr)
        return 1
    print(remaining.seconds)
    if explain:
        for basis, secs in sorted(remaining.bases.items(), key=lambda item: item[1]):
            print(f"{basis} {secs:.0f}")
    return 0
