"""Hosts and queues as bhosts, bqueues and lshosts tell them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.lsf.answers import Record, parse_records
from jobfeatures.batch.lsf.hosts import STATES, parse_cluster, parse_memory, parse_node, parse_notice
from jobfeatures.errors import ParseError
from jobfeatures.records.model import NODE_STATES, Cluster
from jobfeatures_exporter.cluster.sums import compute_cluster_sums

FIXTURES = Path(__file__).parents[3] / "fixtures" / "lsf"


def records(name: str) -> list[Record]:
    return parse_records((FIXTURES / f"{name}.json").read_text(), source=name)


def cluster() -> Cluster:
    memory = parse_memory(records("lshosts"))
    return parse_cluster(records("bhosts"), records("bqueues"), memory, taken_at_secs=5.0)


def test_hosts_have_states_slots_and_memory() -> None:
    found = cluster()
    assert {node.name: node.states for node in found.nodes} == {
        "n1": ("MIXED", "DRAIN"),
        "n2": ("ALLOCATED",),
        "n3": ("IDLE",),
        "n4": ("DOWN",),
        "n5": ("MIXED",),
    }
    first, *_, last = found.nodes
    assert (first.cpus, first.allocated_cpus, first.address) == (8, 4, "n1")
    assert first.memory_bytes == int(31.2 * 2**30)
    assert (last.cpus, last.allocated_cpus, last.memory_bytes) == (None, 1, None)
    assert [(each.field, each.text) for each in found.rejected] == [("MAX", "eight")]


@pytest.mark.parametrize(
    ("status", "used"), [("ok", 1), ("closed_Excl", 64), ("closed_cu_Excl", 64), ("closed_Adm", 1)]
)
def test_a_host_that_an_exclusive_job_has_is_allocated_as_a_whole(status: str, used: int) -> None:
    node = parse_node({"HOST_NAME": "n1", "STATUS": status, "MAX": "64", "NJOBS": "1"}, {})
    assert (node.allocated_cpus, node.states[0]) == (used, "ALLOCATED" if used == 64 else "MIXED")


def test_queues_say_whether_they_take_jobs() -> None:
    assert compute_cluster_sums(cluster()).partitions == {"normal": True, "short": False, "night": False}
    assert {each.name: each.state for each in cluster().partitions} == {
        "normal": "UP",
        "short": "DRAIN",
        "night": "INACTIVE",
    }


def test_every_state_has_words_that_all_batch_systems_share() -> None:
    assert {word for words in STATES.values() for word in words} <= set(NODE_STATES)


@pytest.mark.parametrize(
    ("status", "draining"),
    [
        ("ok", False),
        ("closed_Adm", True),
        ("closed_Lock", True),
        ("closed_RC", True),
        ("closed_Full", False),
        ("closed_Excl", False),
        ("closed_Busy", False),
        ("closed_Wind", False),
        ("unavail", True),
        ("unreach", True),
    ],
)
def test_a_host_drains_where_it_takes_no_job_whatever_ends(status: str, draining: bool) -> None:
    notice = parse_notice([{"HOST_NAME": "n1.example.org", "STATUS": status}], "n1")
    assert notice is not None
    assert notice.draining is draining


def test_a_state_nobody_has_heard_of_tells_nothing_of_draining() -> None:
    assert parse_notice([{"HOST_NAME": "n1", "STATUS": "closed_Moon"}], "n1") is None
    assert parse_notice([{"HOST_NAME": "n1", "STATUS": "closed"}], "n1") is None
    assert parse_node({"HOST_NAME": "n1", "STATUS": "closed_Moon"}, {}).states == ("DRAIN",)
    assert parse_node({"HOST_NAME": "n1", "STATUS": "odd"}, {}).states == ("UNKNOWN",)


def test_an_answer_about_another_host_is_none() -> None:
    with pytest.raises(ParseError, match="not about this host"):
        parse_notice([{"HOST_NAME": "n2", "STATUS": "ok"}], "n1")


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["HOST_NAME", "STATUS", "MAX", "NJOBS", "QUEUE_NAME", "MAXMEM"]), st.text()
        )
    )
)
def test_any_records_are_a_cluster(some: list[dict[str, str]]) -> None:
    found = parse_cluster(some, some, parse_memory(some), taken_at_secs=0.0)
    assert len(found.nodes) + len(found.partitions) + len(found.rejected) <= 2 * len(some)
