"""Texts constructed after Documentation/gpu/drm-usage-stats.rst and the drivers' own pages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.gpu.fdinfo import DrmClient, compute_utilisation, parse_fdinfo

AMDGPU = """pos:\t0
flags:\t02100002
mnt_id:\t27
ino:\t1196
drm-driver:\tamdgpu
drm-client-id:\t23
drm-pdev:\t0000:03:00.0
pasid:\t32771
drm-memory-vram:\t2048 KiB
drm-memory-gtt: \t1024 KiB
drm-memory-cpu: \t0 KiB
drm-engine-gfx:\t400000000 ns
drm-engine-compute:\t1500000000 ns
drm-engine-capacity-compute:\t2
"""
XE = """drm-driver:\txe
drm-client-id:\t42
drm-pdev:\t0000:4d:00.0
drm-total-system:\t1 MiB
drm-resident-vram0:\t3 MiB
drm-total-vram0:\t8 MiB
drm-cycles-rcs:\t2000
drm-total-cycles-rcs:\t10000
drm-cycles-vcs:\t7
"""


def test_amdgpu():
    assert parse_fdinfo(AMDGPU) == DrmClient(
        address="0000:03:00.0",
        client_id=23,
        engine_nsecs={"gfx": 400_000_000, "compute": 1_500_000_000},
        capacity={"compute": 2},
        memory_bytes=2 * 2**20,
    )


def test_xe_counts_cycles_and_resident_memory():
    client = parse_fdinfo(XE)
    assert client.cycles == {"rcs": (2000, 10000)}  # a count of nothing else says nothing
    assert client.memory_bytes == 3 * 2**20


def test_a_file_that_is_no_device_is_none():
    assert parse_fdinfo("pos:\t0\nflags:\t02\nmnt_id:\t15\n") is None
    assert parse_fdinfo("") is None


def test_memory_that_is_not_told_is_unknown_and_system_memory_is_not_the_cards():
    assert parse_fdinfo("drm-driver: i915\ndrm-total-system0: 5 MiB\n").memory_bytes is None


def test_what_stands_there_twice_counts_once():
    assert parse_fdinfo("drm-driver: a\ndrm-pdev: 1\ndrm-pdev: 2\n").address == "1"


@pytest.mark.parametrize("line", ["drm-engine-gfx: x ns", "drm-memory-vram: 5 GB", "drm-client-id: -1"])
def test_a_number_that_is_none_is_a_parse_error(line):
    with pytest.raises(ParseError) as caught:
        parse_fdinfo(f"drm-driver: a\n{line}\n")
    assert line.partition(":")[0] in str(caught.value)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"engine_nsecs": {"gfx": 0}}, {"engine_nsecs": {"gfx": 5 * 10**9}}, 50),
        ({"engine_nsecs": {"gfx": 0, "a": 0}}, {"engine_nsecs": {"gfx": 10**9, "a": 2 * 10**9}}, 20),
        ({"engine_nsecs": {"a": 0}}, {"engine_nsecs": {"a": 10**10}, "capacity": {"a": 4}}, 25),
        ({"engine_nsecs": {"gfx": 9}}, {"engine_nsecs": {"gfx": 0}}, 0),
        ({"engine_nsecs": {"gfx": 0}}, {"engine_nsecs": {"gfx": 10**12}}, 100),
        ({"cycles": {"rcs": (0, 0)}}, {"cycles": {"rcs": (300, 1000)}}, 30),
        ({"cycles": {"rcs": (300, 1000)}}, {"cycles": {"rcs": (300, 1000)}}, None),
        ({}, {}, None),
    ],
)
def test_utilisation_is_that_of_the_busiest_kind_of_engine(before, now, expected):
    assert compute_utilisation(DrmClient(**before), DrmClient(**now), 10.0) == expected


lines = st.from_regex(
    r"drm-(driver|pdev|client-id|engine-a|engine-capacity-a|memory-vram|cycles-a|total-cycles-a):"
    r"[ \t]*[0-9a-z -]{0,25}( ns| KiB)?\n",
    fullmatch=True,
)


@given(st.text() | st.lists(lines).map("".join))
def test_any_text_is_a_client_or_none_or_a_parse_error(text):
    try:
        found = parse_fdinfo(text)
    except ParseError:
        return
    if found is not None:
        percent = compute_utilisation(DrmClient(), found, 10.0)
        assert percent is None or 0 <= percent <= 100
