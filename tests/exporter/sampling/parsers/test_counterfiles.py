import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures_exporter.model.snapshot import ProcessIo
from jobfeatures_exporter.sampling.parsers.counterfiles import (
    parse_blkio,
    parse_cpu_list,
    parse_io_stat,
    parse_memory_events,
    parse_oom_control,
    parse_pressure,
    parse_process_io,
)

# Constructed: this kernel counts nothing in it without a disk of its own.
BLKIO = "254:0 Read 8192\n254:0 Write 4096\n254:0 Sync 12288\n254:0 Async 0\n254:0 Discard 0\n254:0 Total 12288\nTotal 12288\n"
IO = "rchar: 1\nwchar: 2\nsyscr: 9\nsyscw: 9\nread_bytes: 3\nwrite_bytes: 4\ncancelled_write_bytes: 5\n"


def test_events_of_both_versions_are_counts():
    assert parse_memory_events("low 0\nhigh 0\nmax 174\noom 1\noom_kill 1\n")["max"] == 174
    assert parse_oom_control("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")["oom_kill"] == 3


def test_an_old_kernel_does_not_count_kills_which_is_not_zero():
    assert "oom_kill" not in parse_oom_control("oom_kill_disable 0\nunder_oom 0\n")


def test_block_io_of_v1_is_told_by_device():
    assert parse_blkio(BLKIO) == {"254:0": (8192, 4096)}
    assert parse_blkio("Total 0\n") == {}


def test_block_io_of_v2_is_told_by_device():
    text = "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n254:1 rbytes=7 wbytes=0 rios=1 wios=0\n"
    assert parse_io_stat(text) == {"8:0": (1, 2, 3, 4), "254:1": (7, 0, 1, 0)}
    assert parse_io_stat("") == {}


def test_devices_without_figures_and_figures_of_others_are_passed_over():
    text = "7:1 7:0 8:0 rbytes=1 wbytes=2 rios=3 wios=4 cost.vrate=100.00 use_delay=1 depth=max\n"
    assert parse_io_stat(text) == {"7:1": (0, 0, 0, 0), "7:0": (0, 0, 0, 0), "8:0": (1, 2, 3, 4)}


def test_pressure_is_told_by_share():
    some = "some avg10=1.90 avg60=1.51 avg300=2.42 total=26907512\n"
    assert parse_pressure(some) == {"some": 26907512}  # of CPUs, before Linux 5.13
    full = "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
    assert parse_pressure(some + full) == {"some": 26907512, "full": 7}


def test_a_list_of_cpus_is_a_set():
    assert parse_cpu_list("0-3,8,10-10\n", source="x") == {0, 1, 2, 3, 8, 10}
    assert parse_cpu_list("\n", source="x") == frozenset()
    assert parse_cpu_list("", source="x") == frozenset()


@pytest.mark.parametrize("text", ["a", "3-1", "0-", "-1", "0,,1", "0-99999999", "70000", "٣", "0 1"])
def test_what_is_no_list_of_cpus_is_an_error(text):
    with pytest.raises(ParseError, match=r"^cpuset\.cpus: "):
        parse_cpu_list(text, source="cpuset.cpus")


def test_what_a_process_read_and_wrote():
    assert parse_process_io(IO) == ProcessIo(
        read_bytes=1, written_bytes=2, data_read_bytes=3, data_written_bytes=4, data_cancelled_bytes=5
    )


@pytest.mark.parametrize("lost", ["rchar: 1\n", "cancelled_write_bytes: 5\n"])
def test_an_incomplete_file_of_a_process_is_an_error(lost):
    with pytest.raises(ParseError):
        parse_process_io(IO.replace(lost, ""))


def test_a_counter_of_64_bits_is_read_and_a_larger_one_is_an_error():
    assert parse_process_io(IO.replace("1", str(2**64 - 1), 1)).read_bytes == 2**64 - 1
    for text in (str(2**64), "-1", "1e3", ""):
        with pytest.raises(ParseError):
            parse_process_io(IO.replace("1", text, 1))


PARSERS = (
    parse_memory_events,
    parse_oom_control,
    parse_blkio,
    parse_io_stat,
    parse_pressure,
    lambda text: parse_cpu_list(text, source="x"),
    parse_process_io,
)


@given(st.text() | st.text(alphabet="rchawiteds_bytosmfulavg10=.: 8TRW-,max\n", max_size=200))
def test_any_text_gives_a_record_or_the_error(text):
    for parse in PARSERS:
        try:
            parse(text)
        except ParseError:
            pass


@given(st.sampled_from([BLKIO, IO, "8:0 rbytes=1 wbytes=2 rios=3 wios=4\n"]), st.data())
def test_a_text_that_is_cut_or_changed_gives_a_record_or_the_error(text, data):
    place = data.draw(st.integers(0, len(text)))
    for changed in (text[:place], text[:place] + data.draw(st.characters()) + text[place + 1 :]):
        for parse in PARSERS:
            try:
                parse(changed)
            except ParseError:
                pass
