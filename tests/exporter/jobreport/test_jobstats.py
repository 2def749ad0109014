"""Summaries in the form of Jobstats: the examples of its documentation, and what nobody should read."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures_exporter.jobreport.jobstats import (
    MAX_CHARACTERS,
    MAX_JSON_BYTES,
    NONE,
    SHORT,
    Summary,
    decode_summary,
    encode_summary,
)
from jobfeatures_exporter.view.use import GpuUse, JobUse, NodeUse, Place

CARD = GpuUse(uuid="GPU-1", minor="1", is_allocated=True, busy_secs=50.0, memory_peak=2.0**30, memory=2.0**33)
NODE = NodeUse(
    place=Place("n1", "n1:9819"),
    elapsed_secs=100.0,
    allocated_cpus=4.0,
    cpu_secs=123.456,
    allocated_memory=2.0**34,
    memory_peak=2.0**32,
    gpus=(CARD,),
    cpu_joules=1500.5,
)
REPORT = JobUse(batch_system="slurm", job_id="12", nodes=(NODE,))


def packed(document) -> str:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return "JS1:" + base64.b64encode(gzip.compress(text, mtime=0)).decode()  # names of tests hold it


def unpacked(text: str):
    """Return what a program other than ours makes of a comment."""
    return json.loads(gzip.decompress(base64.b64decode(text.removeprefix("JS1:"))))


def test_a_summary_has_the_keys_that_jobstats_documents():
    assert unpacked(encode_summary(REPORT, 100)) == {
        "nodes": {
            "n1": {
                "cpus": 4,
                "total_time": 123.5,
                "used_memory": 2**32,
                "total_memory": 2**34,
                "gpu_utilization": {"1": 50.0},
                "gpu_used_memory": {"1": 2**30},
                "gpu_total_memory": {"1": 2**33},
                "cpu_joules": 1500,
            }
        },
        "total_time": 100,
        "gpus": 1,
    }


def test_cards_that_share_a_number_or_have_none_have_names_of_their_own():
    cards = [replace(CARD, uuid=uuid, minor=minor) for uuid, minor in (("a", "0"), ("b", "0"), ("c", ""))]
    node = replace(NODE, gpus=tuple(cards))
    found = unpacked(encode_summary(replace(REPORT, nodes=(node,)), 100))["nodes"]["n1"]["gpu_utilization"]
    assert found == {"0": 50.0, "b": 50.0, "c": 50.0}


def test_what_is_not_known_is_left_out():
    node = NodeUse(place=Place("n1"), cpu_secs=5.0)
    assert unpacked(encode_summary(replace(REPORT, nodes=(node,)), 100))["nodes"] == {
        "n1": {"total_time": 5.0}
    }


@pytest.mark.parametrize(("elapsed", "text"), [(59, SHORT), (60, NONE)])
def test_without_figures_a_summary_says_why(elapsed, text):
    assert encode_summary(None, elapsed) == text
    assert encode_summary(replace(REPORT, nodes=(NodeUse(place=Place("n1")),)), elapsed) == text
    assert decode_summary(text) == Summary()


def test_a_written_summary_is_read_again():
    found = decode_summary(encode_summary(REPORT, 100))
    assert found.elapsed_secs == 100
    [node] = found.nodes
    assert (node.cpu_share, node.memory_share) == (pytest.approx(123.5 / 400), 0.25)
    assert node.gpus == (replace(CARD, uuid="1"),)


def test_a_documented_example_of_jobstats_is_read():
    node = {
        "cpus": 12,
        "gpu_total_memory": {"1": 85899345920},
        "gpu_used_memory": {"1": 83314868224},
        "gpu_utilization": {"1": 98.6},
        "total_memory": 137438953472,
        "total_time": 57620.8,
        "used_memory": 84683702272,
    }
    found = decode_summary(packed({"gpus": 1, "nodes": {"della-k1g1": node}, "total_time": 50944}))
    report = replace(REPORT, start_secs=0, end_secs=50944, nodes=found.nodes)
    assert report.cpu_share == pytest.approx(57620.8 / (12 * 50944))
    assert report.gpu_share == pytest.approx(0.986)
    assert report.memory_peak == 84683702272


def test_a_job_of_a_thousand_nodes_fits():
    nodes = tuple(
        replace(NODE, place=Place(f"node{at:04}"), cpu_secs=at * 97.31, memory_peak=at * 7919.0 * 2**20)
        for at in range(1000)
    )
    text = encode_summary(replace(REPORT, nodes=nodes), 100)
    assert text.startswith("JS1:H4sI")
    assert len(text) < MAX_CHARACTERS
    assert len(decode_summary(text).nodes) == 1000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ask the administrator",
        "js1:short",
        "JS1:",
        "JS1:!!!",
        "JS1:" + base64.b64encode(b"no gzip").decode(),
        packed(b"no json"),
        packed([]),
        packed({"nodes": {"n1": 7}}),
        packed(b"[" * 100_000),
        packed(b" " * (MAX_JSON_BYTES + 1)),
        packed({"nodes": {}})[:-8],
    ],
)
def test_what_is_no_summary_is_refused(text):
    with pytest.raises(ParseError):
        decode_summary(text)


def test_numbers_that_cannot_be_are_not_known():
    [node] = decode_summary(
        packed(
            {"nodes": {"n1": {"cpus": "many", "total_time": -1, "used_memory": True, "total_memory": 1e300}}}
        )
    ).nodes
    assert (node.allocated_cpus, node.cpu_secs, node.memory_peak, node.allocated_memory) == (None,) * 4


@given(st.text())
def test_whatever_stands_there_is_read_or_refused(text):
    for each in (text, f"JS1:{text}", packed(text.encode("utf-8", "replace"))):
        try:
            decode_summary(each)
        except ParseError:
            continue
