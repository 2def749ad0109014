"""Reading the node: /proc, control groups, and which process belongs to which job."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.resolve import PATH, option


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class PathsConfig:
    """Where the kernel's file systems are mounted."""

    path_procfs: str = option(PATH, "/proc", "where procfs is mounted")
    path_sysfs: str = option(PATH, "/sys", "where sysfs is mounted")
    path_cgroup: str = option(PATH, "/sys/fs/cgroup", "where control groups are mounted")
