"""What tests of the tree share: a job, its owner, and how a directory is read."""

import os

from jobfeatures.publish.files import Owner
from jobfeatures.records.model import JobKey

KEY = JobKey("slurm", "12")
OWNER = Owner(os.geteuid() or 12345)
FOLDER = "jobfeatures/slurm-12"


def contents(path):
    return {each.name: each.read_text() for each in path.iterdir()}


def owners(path):
    return {each.lstat().st_uid for each in (path, *path.iterdir())}
