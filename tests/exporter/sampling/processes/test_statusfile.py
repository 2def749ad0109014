import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.processes.statusfile import parse_process_memory
from jobfeatures_exporter.snapshot import MemoryBytes


def test_memory_is_read_by_component(fixtures):
    memory = parse_process_memory((fixtures / "proc/6664/status").read_text())
    assert memory == MemoryBytes(anon=4096 * 1024, file=1000 * 1024, shmem=596 * 1024, swap=12 * 1024)


def test_a_kernel_thread_has_no_memory_of_its_own(fixtures):
    assert parse_process_memory((fixtures / "proc/2/status").read_text()) == MemoryBytes()


def test_a_name_says_nothing_about_memory():
    assert parse_process_memory("Name:\tVmSwap:\t1 kB\nUid:\t0\nVmSwap:\t2 kB\n").swap == 2048
    with pytest.raises(ParseError, match="Uid"):
        parse_process_memory("Name:\tUid:\t0\t0\t0\t0\nVmSwap:\t2 kB\n"[:23])


@given(st.text() | st.text(alphabet="Uid:RssAnonFileVmSwapkB\t \n0123456789", max_size=200))
def test_any_text_gives_sizes_or_the_error(text):
    try:
        assert all(each is None or each % 1024 == 0 for each in parse_process_memory(text))
    except ParseError:
        pass
