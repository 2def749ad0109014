"""What was read of a group twice."""

from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.parsers.cgroupfiles import CpuTimes


def test_figures_merge_without_falling():
    before = GroupFigures(
        cpu=CpuTimes(2.0, 1.0),
        memory=MemoryBytes(anon=3, peak=9),
        counters={"limit_hits": {"": (4,)}, "block_io": None},
        cpus=frozenset({1}),
    )
    now = GroupFigures(
        cpu=CpuTimes(1.0, 5.0),
        memory=MemoryBytes(anon=1),
        counters={"limit_hits": {"": (1,), "/a": (2,)}, "block_io": {"8:0": (1, 2, 3, 4)}},
    )
    both = now.merged(before)
    assert both == GroupFigures(
        cpu=CpuTimes(2.0, 5.0),
        memory=MemoryBytes(anon=1, peak=9),
        counters={"limit_hits": {"": (4,), "/a": (2,)}, "block_io": {"8:0": (1, 2, 3, 4)}},
        cpus=frozenset({1}),
    )
    assert GroupFigures(memory=MemoryBytes()).merged(before) == before
