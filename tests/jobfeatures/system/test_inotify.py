"""One inotify instance: what it must leave behind is nothing."""

import os
from pathlib import Path

from jobfeatures.system.inotify import Inotify


def count_instances():
    links = Path("/proc/self/fd").iterdir()
    return sum("inotify" in os.readlink(each) for each in links if each.is_symlink())


def test_an_instance_that_nobody_closes_ends_with_its_owner_as_the_kernel_allows_a_user_few():
    before = count_instances()
    one = Inotify()
    assert count_instances() == before + 1
    del one
    assert count_instances() == before
