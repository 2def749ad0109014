"""Packed logs: read as they were written, and never a part of one as if it were the whole."""

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from jobfeatures.joblogs.logfiles import LogFileError, as_text, reading, writing


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=4))
def test_frames_of_zstandard_one_behind_another_are_one_file(tmp_path, parts):
    path = tmp_path / "log.zst"
    path.write_bytes(b"".join(map(zstandard.compress, parts)))
    with reading(str(path)) as stream:
        found = stream.read()
    expected = b"".join(parts).decode("utf-8", "replace")
    assert found == expected.replace("\r\n", "\n").replace("\r", "\n")


@given(st.integers(1, 200))
def test_a_frame_that_was_cut_off_is_no_file(tmp_path, cut):
    packed = zstandard.compress(bytes(range(256)) * 9, 1)
    path = tmp_path / "log.zst"
    path.write_bytes(packed + packed[: -min(cut, len(packed) - 1)])
    with pytest.raises(LogFileError, match="cut off"), reading(str(path)) as stream:
        stream.read()


def test_much_that_was_packed_well_is_read(tmp_path):
    path = str(tmp_path / "log.zst")
    with writing(path) as stream:
        stream.writelines("0 " * 40 + "\n" for _ in range(100_000))
    with reading(path) as stream:
        assert sum(len(line) for line in stream) == 8_100_000


@given(
    st.lists(
        st.sampled_from([b"1 2", b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"\xff", "é".encode(), b" "]),
        max_size=9,
    )
)
@example([b"\xef\xbb\xbf"])
def test_lines_read_exactly_become_what_they_are_read_as_otherwise(tmp_path, pieces):
    path = tmp_path / "log"
    path.write_bytes(b"".join(pieces))
    with reading(str(path)) as stream, reading(str(path), exactly=True) as exact:
        assert list(as_text(exact)) == list(stream)
