"""Answers are compressed by one library or the other, and read by a third."""

import gzip
import importlib
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.web import packing


@pytest.fixture(scope="module", params=["isal", "zlib"])
def pack(request):
    if request.param == "isal":
        pytest.importorskip("isal", reason="this machine has no isal")
        yield packing.pack
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "isal", None)
        yield importlib.reload(packing).pack
    importlib.reload(packing)


@given(
    body=st.one_of(
        st.binary(), st.text().map(str.encode), st.lists(st.sampled_from([b"a 1\n", b"b 2\n"])).map(b"".join)
    )
)
def test_what_is_packed_is_read_by_gzip(pack, body):
    assert gzip.decompress(pack(body)) == body


def test_a_long_page_becomes_small(pack):
    page = b"".join(
        b'batch_job_cpu_seconds_total{job_id="%d"} %d\n' % (each, each * 7) for each in range(20_000)
    )
    assert gzip.decompress(pack(page)) == page
    assert len(pack(page)) < len(page) / 4
