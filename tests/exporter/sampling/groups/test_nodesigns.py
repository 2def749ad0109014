from jobfeatures_exporter.model.snapshot import DiskSample, NodeSample
from jobfeatures_exporter.sampling.groups.nodesigns import NodeSigns

SWAP = {"SwapTotal": 8, "SwapFree": 8, "SwapCached": 0}
CALM = {(resource, "some"): 1.0 for resource in ("cpu", "memory", "io")}


def changed(first: NodeSample, second: NodeSample) -> list[bool | None]:
    """Whether each sign differs between two samples: swap, disks, pressure of cpu, memory, io; None: no sign."""
    before = NodeSigns().advance(first)
    pairs = zip(before.changes, before.advance(second).changes, strict=True)
    return [None if None in {earlier, now} else earlier != now for earlier, now in pairs]


def test_each_sign_differs_when_the_node_says_that_its_own_figure_has_changed():
    disk = DiskSample(major=8, minor=0, stats=(1,) * 11)
    first = NodeSample(memory_bytes=SWAP, disks={"sda": disk}, pressure_secs=CALM)
    assert changed(first, first) == [False] * 5
    second = NodeSample(
        memory_bytes=SWAP | {"SwapFree": 4},
        disks={"sda": disk._replace(stats=(2,) * 11)},
        pressure_secs=CALM | {("memory", "some"): 1.000001},
    )
    assert changed(first, second) == [True, True, False, True, False]


def test_where_the_node_says_nothing_nothing_is_said_of_groups():
    assert changed(NodeSample(), NodeSample()) == [None] * 5
    partly = NodeSample(memory_bytes=SWAP, pressure_secs={("cpu", "some"): 1.0})
    assert changed(partly, partly) == [False, None, False, None, None]
    assert changed(NodeSample(), partly) == [None] * 5


def test_a_sign_that_comes_back_after_a_failed_read_differs_from_the_one_before():
    signs = NodeSigns().advance(NodeSample(memory_bytes=SWAP))
    before = signs.advance(NodeSample(memory_bytes=SWAP | {"SwapFree": 2}))
    after = before.advance(NodeSample()).advance(NodeSample(memory_bytes=SWAP | {"SwapFree": 1}))
    assert after.changes[0] != before.changes[0]
