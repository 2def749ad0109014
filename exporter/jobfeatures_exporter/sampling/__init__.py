"""Reads the node: /proc, /sys, control groups, GPUs, power, and which process belongs to which job."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.declare import PATH, option


@dataclass(frozen=True, kw_only=True)
class PathsSettings:
    """Where the kernel's file systems are mounted."""

    procfs: str = option(PATH, "/proc", "where procfs is mounted")
    sysfs: str = option(PATH, "/sys", "where sysfs is mounted")
    cgroup: str = option(PATH, "/sys/fs/cgroup", "where control groups are mounted")
