import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.status import parse_process_status
from jobfeatures_exporter.snapshot import MemoryBytes


def test_memory_and_real_user_are_read(fixtures):
    status = parse_process_status((fixtures / "proc/6664/status").read_text())
    assert status.real_uid == 6001
    assert status.memory == MemoryBytes(anon=4096 * 1024, file=1000 * 1024, shmem=596 * 1024, swap=12 * 1024)


def test_a_kernel_thread_has_no_memory_of_its_own(fixtures):
    assert parse_process_status((fixtures / "proc/2/status").read_text()).memory == MemoryBytes()


def test_a_name_says_nothing_about_the_user():
    with pytest.raises(ParseError):
        parse_process_status("Name:\tUid:\t0\t0\t0\t0\n")
    assert parse_process_status("Uid:\t0\t0\t0\t0\nUid:\t7\t0\t0\t0\n").real_uid == 7


@given(st.text() | st.text(alphabet="Uid:RssAnonFileVmSwapkB\t \n0123456789", max_size=200))
def test_any_text_gives_a_record_or_the_error(text):
    try:
        parse_process_status(text)
    except ParseError:
        pass
