"""One job's control group: its directories, and what tells them from earlier ones at their path. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jobfeatures.batch.groups import Membership

UNIFIED = "unified"  # key of the v2 hierarchy next to the controllers of v1
FREEZER = "freezer"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDirectory:
    """One job's control group, at `path` from the root of each hierarchy that has it.

    `groups` has its directories by controller, `UNIFIED` for v2. `inodes` tells them from earlier directories
    with the same path: a requeued job, or the next job with the same name, gets new directories. `sources`
    has a name for each directory that no other directory ever gets, even if an inode number is reused.
    `unique_name` is such a name for the group as a whole.
    """

    path: str
    membership: Membership
    groups: Mapping[str, str]
    inodes: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)  # by controller
    unique_name: str = field(default="", compare=False)  # of the whole, as long as one of its parts is there

    def __post_init__(self) -> None:
        if not self.unique_name:
            own = next(iter(self.inodes.values()), None)
            number = self.inodes.get("cpuacct") or self.inodes.get(UNIFIED) or own
            object.__setattr__(self, "unique_name", f"{self.path}@{number}")

    def source(self, *controllers: str) -> str:
        """Return the unique name of the directory for the first of `controllers` that the group has.

        Returns `unique_name` if the group has none of them.
        """
        for each in controllers:
            if each in self.sources:
                return self.sources[each]
        return self.unique_name

    @property
    def counts_cpu(self) -> bool:
        """Return whether the job has a group that counts CPU time: cpuacct on v1, or any on v2."""
        return "cpuacct" in self.groups or UNIFIED in self.groups

    @property
    def counts_memory(self) -> bool:
        """Return whether the job has a group that counts memory: memory on v1, or any on v2."""
        return "memory" in self.groups or UNIFIED in self.groups

    @property
    def version(self) -> int:
        """Return the cgroup version of this job's group: 2, or 1 if the group is in any v1 hierarchy."""
        return 2 if self.groups.keys() == {UNIFIED} else 1


class GroupList(NamedTuple):
    """The control groups of all jobs on the node at one sample, and those removed since the last sample."""

    directories: Sequence[JobDirectory] = ()  # the same object until one is added or removed
    gone: Sequence[JobDirectory] = ()  # removed since the last sample
    have_changed: bool = False  # since the last sample
