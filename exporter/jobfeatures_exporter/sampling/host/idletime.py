"""Keeps idle and iowait times of CPUs from decreasing, as counters have to. No I/O, but it keeps state."""

from __future__ import annotations

from dataclasses import replace

from jobfeatures_exporter.model.snapshot import CpuSecs, NodeSample

_ALL = -1  # stands for the sum over all cores
WAITED_OUT_SECS = 3.0  # of a decrease


class IdleTimes:
    """Keeps the idle and iowait times of successive samples of a node from decreasing.

    Both may decrease in /proc/stat. The time since a CPU became idle counts as iowait while a task waits for
    I/O, else as idle, so it moves from one to the other. A CPU that was switched off may start anew. After a
    decrease of at most `WAITED_OUT_SECS`, the earlier value stays until it is reached again; after a larger
    one, the counter continues from the earlier value. Source: proc_stat(5), kernel/time/tick-sched.c of
    Linux.
    """

    def __init__(self) -> None:
        self._last: dict[int, CpuSecs] = {}  # by core, as returned
        self._added: dict[tuple[int, str], float] = {}  # seconds, to what the kernel shows, by core and mode

    def update(self, node: NodeSample) -> NodeSample:
        """Return the sample with times that are not below those of any sample before it."""
        every = {**node.cores, **({} if node.cpu is None else {_ALL: node.cpu})}
        steady = {core: self._steady(core, now) for core, now in every.items()}
        self._last.update(steady)
        changed = {core: times for core, times in steady.items() if times is not every[core]}
        if not changed:
            return node
        cores = {core: changed.get(core, times) for core, times in node.cores.items()}
        return replace(node, cpu=changed.get(_ALL, node.cpu), cores=cores)

    def _steady(self, core: int, now: CpuSecs) -> CpuSecs:
        last = self._last.get(core, now)
        if not self._added and now.idle >= last.idle and now.iowait >= last.iowait:
            return now
        return now._replace(
            idle=self._one(core, "idle", now.idle, last.idle),
            iowait=self._one(core, "iowait", now.iowait, last.iowait),
        )

    def _one(self, core: int, mode: str, secs: float, last: float) -> float:
        secs += self._added.get((core, mode), 0.0)
        if last - secs > WAITED_OUT_SECS:
            self._added[core, mode] = self._added.get((core, mode), 0.0) + last - secs
        return max(secs, last)
