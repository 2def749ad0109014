"""The node's own files at successive samples of a made-up node."""

import pytest

from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.host.nodereader import NodeReader


@pytest.fixture
def reader(node):
    return NodeReader(str(node.proc), "/nonexistent", Unreadable())


def test_process_groups_keep_their_epoch_when_the_clock_is_set(reader, node):
    epoch = reader.read().epoch
    stat = node.proc / "stat"
    stat.write_text(stat.read_text().replace("btime ", "btime 9"))
    look = reader.read()
    assert epoch is not None
    assert look.epoch == epoch
    assert look.node.boot_time_secs != epoch


def test_without_a_time_of_boot_there_is_none_until_it_is_known(reader, node):
    stat = node.proc / "stat"
    text = stat.read_text()
    stat.write_text("".join(line for line in text.splitlines(keepends=True) if not line.startswith("btime")))
    assert reader.read().epoch is None
    stat.write_text(text)
    assert reader.read().epoch is not None


def test_a_sign_changes_with_what_it_is_the_sign_of_and_else_stands(reader, node):
    def swap(free):
        (node.proc / "meminfo").write_text(f"SwapTotal: 9 kB\nSwapFree: {free} kB\nSwapCached: 0 kB\n")
        return reader.read().signs.changes[0]

    first = swap(9)
    assert swap(9) == first
    assert swap(8) == first + 1
