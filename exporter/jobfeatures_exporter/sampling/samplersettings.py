"""What a sampler reads: settings that are fixed for its life, and additions for a single sample."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from jobfeatures.batch import BatchSettings
from jobfeatures.batch.settings import SystemSettings

if TYPE_CHECKING:
    from jobfeatures_exporter.model.snapshot import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerSettings:
    """Where the node's files are, and which optional figures are read.

    With `node_name`, control groups that name another node are ignored, and their processes belong to no job:
    one host may emulate several nodes. Without it all groups count, as if the host were one node. If `sysfs`
    is None, no energy is read. `process_io` is what processes of jobs read and write. `top_commands` is the
    number of commands of a job that are reported by name; 0: commands are not counted.
    """

    procfs: str = "/proc"
    cgroup: str = "/sys/fs/cgroup"
    sysfs: str | None = None  # None: no joules are read
    node_name: str | None = None
    batch: BatchSettings = field(default_factory=BatchSettings)
    steps: bool = False  # the steps of jobs
    process_io: bool = False  # what the processes of jobs read and wrote
    top_commands: int = 0  # how many commands a job's processes are rolled up by; 0: none

    def of_system(self, name: str) -> SystemSettings[Any]:
        """Return the settings of the batch system `name`, with the paths `procfs` and `cgroup` added."""
        return self.batch.of(name, procfs=self.procfs, cgroup=self.cgroup)


class SampleExtras(NamedTuple):
    """What a single sample has to read in addition, because the page that is made from it shows it.

    `all_processes` are needed even if the kernel's sums suffice, `cores` is CPU time on each CPU, `programs`
    CPU time by program. `thread_states` are the kinds of work whose threads are counted by state.
    """

    all_processes: bool = False  # even if the kernel's sums suffice
    cores: bool = False  # CPU time on each CPU
    open_files: bool = False  # by process
    thread_states: Collection[Kind] = ()  # by process, of these kinds
    programs: bool = False  # CPU time by program, where commands are counted
