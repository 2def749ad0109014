import gzip
import lzma
import sys

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.formats.swf.columns import read_pieces
from jobfeatures.formats.swf.fields import FIELDS
from jobfeatures.formats.swf.lines import SwfReader
from jobfeatures.joblogs.logfiles import LogFileError, bounded_lines, reading, writing

LINE = "15 599850 192180 3477 4 -1 -1 4 53940 -1 1 12 12 -1 -1 -1 -1 -1"
FLOATS = LINE.replace("3477", "34.5")
BAD = LINE.replace("3477", "oops")


def same_as_plain(path):
    columns = next(read_pieces(str(path), sys.maxsize))
    with reading(str(path)) as stream:
        reader = SwfReader(bounded_lines(stream))
        jobs = list(reader)
    assert len(columns) == len(jobs)
    for place, name in enumerate(FIELDS):
        assert columns.columns[name].tolist() == [job[place] for job in jobs]
    assert (columns.repaired, columns.skipped) == (reader.repaired, reader.skipped)
    return columns


@pytest.mark.parametrize(
    ("lines", "dtype"),
    [
        ([LINE, LINE], numpy.int64),
        ([], numpy.int64),
        ([FLOATS, LINE], numpy.float64),
        ([LINE, BAD, LINE], numpy.int64),
        ([LINE + " 7 8", LINE], numpy.int64),
        (["1 2 3 4 5", LINE], numpy.int64),
        ([LINE.replace("3477", "-7")], numpy.int64),
        ([LINE.replace(" 4 ", " 4.5 ", 1), FLOATS], numpy.float64),
        ([LINE.replace("599850", str(2**60))], numpy.int64),
        ([FLOATS.replace("12", str(2**60))], numpy.float64),
    ],
)
def test_arrays_hold_what_the_plain_reader_reads(tmp_path, lines, dtype):
    path = tmp_path / "log.swf"
    path.write_text("\n".join(["; Version: 2.2", "", *lines, "; the end", ""]))
    columns = same_as_plain(path)
    assert columns.columns["run_secs"].dtype == dtype
    assert columns.columns["user"].dtype == numpy.int64
    assert columns.header.value("Version").value == "2.2"


words = st.sampled_from(["1", "-1", "0", "2.5", "3.0", "-2", "7", "x", "", "99999999999999999999"])


@given(st.lists(st.lists(words, min_size=16, max_size=20).map(" ".join), max_size=4))
def test_any_log_reads_the_same_both_ways(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("swf") / "log.swf"
    path.write_text("\n".join(lines))
    same_as_plain(path)


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".bz2", ".zst"])
def test_logs_are_compressed_by_their_names(tmp_path, ending):
    name = str(tmp_path / f"log.swf{ending}")
    with writing(name) as stream:
        stream.write(f"; Version: 2.2\n{LINE}\n" * 50)
    assert len(same_as_plain(name)) == 50


def test_a_log_that_is_not_there_or_broken_is_named(tmp_path):
    for name, data in (
        ("a.gz", gzip.compress(b"x" * 999, mtime=0)[:-9]),
        ("a.xz", lzma.compress(b"x" * 99)[:-3]),
        ("b.gz", b"no"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(LogFileError, match=name), reading(str(tmp_path / name)) as stream:
            list(bounded_lines(stream))
    with pytest.raises(LogFileError, match="cannot read: No such file"), reading(str(tmp_path / "none")):
        pass


def test_a_huge_line_is_cut_and_the_next_one_is_whole(tmp_path):
    path = tmp_path / "log"
    path.write_text("a" * 1000 + "\nb\n" + "c" * 1000)
    with reading(str(path)) as stream:
        assert list(bounded_lines(stream, most=10)) == ["a" * 11, "b\n", "c" * 11]
