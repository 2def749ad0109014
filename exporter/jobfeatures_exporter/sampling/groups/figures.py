"""What the kernel counts for one control group, as a record. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.sampling.groups.ledger import Counter, Rows
from jobfeatures_exporter.sampling.parsers.cgroupfiles import CpuTimes

_NO_MEMORY = MemoryBytes()


class GroupFigures(NamedTuple):
    """What was read from a job's control group; a field is None if not provided by the kernel, or unreadable.

    `cpus` has the numbers of the CPUs of its cpuset. `counters` has no key for a counter that the kernel does
    not provide.
    """

    memory: MemoryBytes
    cpu: CpuTimes | None = None
    counters: Mapping[Counter, Rows] = MappingProxyType({})
    cpus: frozenset[int] | None = None  # of its cpuset

    def merged(self, earlier: GroupFigures) -> GroupFigures:
        """Combine two readings: return these figures, or the `earlier` ones where these are unknown.

        Of counters, the greater value is returned.
        """
        cpu, memory = self.cpu or earlier.cpu, self.memory
        if self.cpu is not None and earlier.cpu is not None:
            cpu = earlier.cpu.or_more(self.cpu)
        if memory == _NO_MEMORY:
            memory = earlier.memory
        elif earlier.memory.peak is not None:
            memory = memory._replace(peak=max(memory.peak or 0, earlier.memory.peak))
        counters = {
            counter: _merge_rows(self.counters.get(counter), earlier.counters.get(counter))
            for counter in self.counters.keys() | earlier.counters.keys()
        }
        return GroupFigures(cpu=cpu, memory=memory, counters=counters, cpus=self.cpus or earlier.cpus)


def _merge_rows(now: Rows, earlier: Rows) -> Rows:
    if now is None or earlier is None:
        return now or earlier
    both = {source: tuple(map(max, now[source], earlier[source])) for source in now.keys() & earlier.keys()}
    return {**earlier, **now, **both}
