import pytest

from jobfeatures_exporter.model.snapshot import CpuSecs, NodeSample
from jobfeatures_exporter.sampling.host.idletime import WAITED_OUT_SECS, IdleTimes


def times(idle: float, iowait: float = 0.0, user: float = 7.0) -> CpuSecs:
    return CpuSecs(user, 0.0, 0.0, idle, iowait, 0.0, 0.0, 0.0)


def seen(*idle_and_iowait: tuple[float, float]) -> list[tuple[float, float]]:
    """Return what is told of these times of a node with one core, which the kernel shows one after the other."""
    book = IdleTimes()
    nodes = [book.update(NodeSample(cpu=times(*each), cores={0: times(*each)})) for each in idle_and_iowait]
    assert [node.cores[0] for node in nodes] == [node.cpu for node in nodes]
    return [(node.cpu.idle, node.cpu.iowait) for node in nodes]


def test_time_that_the_kernel_takes_back_from_iowait_is_waited_for():
    # Jitter of 0.01 s and of a whole idle period, as reported for Linux 3.10 to 5.3.
    assert seen((100.0, 5482.82), (110.0, 5482.81), (112.0, 5480.9), (120.0, 5482.83)) == [
        (100.0, 5482.82),
        (110.0, 5482.82),
        (112.0, 5482.82),
        (120.0, 5482.83),
    ]


def test_a_cpu_that_was_switched_off_and_begins_at_0_goes_on_from_where_it_was():
    assert seen((900_000.0, 50.0), (2.0, 0.0), (12.0, 1.0), (11.5, 1.0), (20.0, 1.0)) == [
        (900_000.0, 50.0),
        (900_000.0, 50.0),
        (900_010.0, 51.0),
        (900_010.0, 51.0),
        (900_018.0, 51.0),
    ]


def test_a_core_that_is_away_for_a_sample_is_remembered():
    book = IdleTimes()
    book.update(NodeSample(cpu=times(20.0), cores={0: times(10.0), 1: times(10.0)}))
    book.update(NodeSample(cpu=times(21.0), cores={0: times(11.0)}))
    assert (
        book.update(NodeSample(cpu=times(22.0), cores={0: times(12.0), 1: times(1.0)})).cores[1].idle == 10.0
    )


def test_what_the_kernel_never_takes_back_is_told_as_it_is_and_what_is_unknown_stays_so():
    book = IdleTimes()
    node = NodeSample(cpu=times(1.0, user=9.0), cores={3: times(1.0)})
    assert book.update(node) is node
    assert book.update(NodeSample()) == NodeSample()
    assert book.update(NodeSample(cpu=times(0.5, user=8.0))).cpu == times(1.0, user=8.0)


@pytest.mark.parametrize("fall", [WAITED_OUT_SECS / 2, 2 * WAITED_OUT_SECS])
def test_the_node_has_no_counter_that_decreases(node, make, fall):
    (node.proc / "stat").write_text("cpu  100 0 50 100000 50000 0 1 0\ncpu0 100 0 50 100000 50000 0 1 0\n")
    sampler = make()
    before = sampler.sample().node
    lower = int(50000 - 100 * fall)
    (node.proc / "stat").write_text(
        f"cpu  101 0 50 100100 {lower} 0 1 0\ncpu0 101 0 50 100100 {lower} 0 1 0\n"
    )
    after = sampler.sample().node
    assert after.cpu.iowait == before.cpu.iowait == 500.0
    assert after.cores[0] == after.cpu
