"""Nodes and partitions as ``scontrol`` prints them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.cluster import (
    MARKS,
    OTHER_REASON,
    REASON_CLASSES,
    classify_reason,
    count_gres,
    parse_cluster,
    parse_node,
    parse_partition,
    parse_states,
)
from jobfeatures.batch.slurm.json.cluster import parse_json_node
from jobfeatures.batch.slurm.json.values import JsonRecord
from jobfeatures.errors import ParseError
from jobfeatures.records.model import NODE_STATES

FIXTURES = Path(__file__).parents[3] / "fixtures" / "slurm"
MIB = 2**20


def lines(name: str) -> list[str]:
    """Return a captured answer."""
    return (FIXTURES / name).read_text().split("\n")


def node(**changes: str) -> str:
    """Return a small constructed record with some values replaced."""
    values = {
        "CPUAlloc": "2",
        "CPUTot": "4",
        "RealMemory": "2000",
        "AllocMem": "100",
        "State": "MIXED",
        **changes,
    }
    return "NodeName=n1 Arch=x86_64 " + " ".join(f"{key}={value}" for key, value in values.items())


def test_the_captured_cluster_is_read():
    cluster = parse_cluster(lines("nodes.txt"), lines("partitions.txt"), taken_at_secs=5.0)
    assert cluster.rejected == ()
    assert [(each.name, each.states) for each in cluster.nodes] == [
        ("lab1", ("ALLOCATED", "DRAIN")),
        ("lab2", ("ALLOCATED",)),
    ]
    assert [(each.name, each.nodes, each.state) for each in cluster.partitions] == [
        ("batch", ("lab1", "lab2"), "UP"),
        ("long", ("lab1", "lab2"), "UP"),
    ]
    [first, _] = cluster.nodes
    assert (first.cpus, first.allocated_cpus, first.gpus, first.address) == (2, 2, None, "127.0.0.1")
    assert (first.memory_bytes, first.allocated_memory_bytes) == (2000 * MIB, 200 * MIB)


def test_memory_that_is_kept_for_the_system_is_not_for_jobs():
    assert parse_node(node(MemSpecLimit="500", AllocMem="1500")).memory_bytes == 1500 * MIB
    record = {"name": "n1", "state": ["IDLE"], "real_memory": 2000}
    for kept in (500, {"set": True, "infinite": False, "number": 500}):
        assert parse_json_node(JsonRecord({**record, "specialized_memory": kept})).memory_bytes == 1500 * MIB
    for kept in (0, {"set": False, "infinite": False, "number": 0}, None):
        assert parse_json_node(JsonRecord({**record, "specialized_memory": kept})).memory_bytes == 2000 * MIB


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("IDLE+DRAIN", ("IDLE", "DRAIN")),
        ("idle*", ("IDLE", "NOT_RESPONDING")),
        ("DOWN*+DRAIN", ("DOWN", "NOT_RESPONDING", "DRAIN")),
        ("drained~", ("IDLE", "DRAIN", "POWERED_DOWN")),
        ("draining", ("ALLOCATED", "DRAIN")),
        ("IDLE+CLOUD+POWERED_DOWN", ("IDLE", "CLOUD", "POWERED_DOWN")),
        ("allocated+", ("ALLOCATED", "COMPLETING")),
        ("mix-", ("MIXED", "PLANNED")),
        ("down#*", ("DOWN", "POWERING_UP", "NOT_RESPONDING")),
        ("idle$", ("IDLE", "MAINTENANCE")),
        ("MIXED+MAINT+MAINTENANCE", ("MIXED", "MAINTENANCE")),
    ],
)
def test_states_are_a_base_state_and_flags(text, states):
    assert parse_states(text) == states


@pytest.mark.parametrize("text", ["", "+", "*", "IDLE DRAIN", "1DLE", "IDLE?"])
def test_what_is_no_state_is_refused(text):
    with pytest.raises(ParseError):
        parse_states(text)


def test_every_mark_means_a_state_that_settings_know():
    assert set(MARKS.values()) <= set(NODE_STATES)


@pytest.mark.parametrize(
    ("fields", "gpus", "allocated"),
    [
        ({"CfgTRES": "cpu=4,gres/gpu=4", "AllocTRES": "cpu=1,gres/gpu=3"}, 4, 3),
        ({"CfgTRES": "cpu=4,gres/gpu=4", "AllocTRES": ""}, 4, 0),
        ({"Gres": "gpu:a100:2(S:0-1),gpu:1", "GresUsed": "gpu:a100:1(IDX:0,2),gpu:0(IDX:N/A)"}, 3, 1),
        ({"Gres": "gpu:2", "CfgTRES": "cpu=4"}, 2, None),
        ({"Gres": "(null)", "CfgTRES": "cpu=4"}, None, None),
    ],
)
def test_gpus_are_known_by_accounting_or_by_their_names(fields, gpus, allocated):
    found = parse_node(node(**fields))
    assert (found.gpus, found.allocated_gpus) == (gpus, allocated)


def test_other_resources_are_no_gpus():
    assert count_gres("shard:8,fpga:2") is None


def test_cpus_are_those_that_jobs_may_get():
    assert parse_node(node(CPUEfctv="3")).cpus == 3
    assert parse_node(node()).cpus == 4


def test_free_text_is_not_read():
    found = parse_node(node() + " Reason=State=DOWN CPUAlloc=9 [root@1]")
    assert (found.states, found.allocated_cpus) == (("MIXED",), 2)


def test_two_records_of_one_node_are_both_rejected():
    cluster = parse_cluster([node(), node(State="DOWN")], [], taken_at_secs=0)
    assert cluster.nodes == ()
    assert [each.text for each in cluster.rejected] == ["n1"]


@pytest.mark.parametrize(
    "line", [node(State="?"), node().replace(" State=MIXED", ""), node() + " State=IDLE", node(CPUTot="x")]
)
def test_a_bad_record_costs_itself_only(line):
    good = node().replace("n1", "n2")
    cluster = parse_cluster([line, good], ["PartitionName=p Nodes=n[2-1] State=UP"], taken_at_secs=0)
    assert [each.name for each in cluster.nodes] == ["n2"]
    assert len(cluster.rejected) == 2


def test_a_partition_without_nodes_has_none():
    assert parse_partition("PartitionName=p AllowGroups=ALL Nodes=(null) State=INACTIVE ").nodes == ()


pieces = st.lists(st.sampled_from(["NodeName=n1 ", " State=", "IDLE", "+", "*", "\n", " Reason=", "1", "x"]))


@given(pieces.map("".join), st.text(max_size=100))
def test_no_text_brings_the_reader_down(likely, text):
    cluster = parse_cluster([likely, text], [text, "PartitionName=" + text], taken_at_secs=0)
    assert all(each.name and each.states for each in cluster.nodes)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Not responding [slurm@2026-11-21T07:32:21]", "not_responding"),
        ("Node unexpectedly rebooted [slurm@1795395775]", "rebooted"),
        ("Kill task failed [root@1795395775]", "kill_failed"),
        ("Low RealMemory (reported:1900 < 100.00% of configured:2000) [slurm@1]", "configuration"),
        ("gres/gpu count reported lower than configured (1 < 2) [slurm@1]", "configuration"),
        ("Prolog error [slurm@1]", "prolog"),
        ("batch job complete failure [slurm@1]", "kill_failed"),
        ("NHC: check_fs_mount /scratch not mounted by alice [root@1]", "health_check"),
        ("GPU 3 fell off the bus, Xid 79", "gpu"),
        ("ib0 link flapping: INFINIBAND", "network"),
        ("kernel update [root@1]", "maintenance"),
        ("ask alice [storage@1]", OTHER_REASON),  # the author does not count
        ("", ""),
        ("none", ""),
    ],
)
def test_a_reason_is_one_of_a_few_words(text, found):
    assert classify_reason(text) == found


@given(st.text())
def test_no_text_becomes_a_label(text):
    assert classify_reason(text) in {*REASON_CLASSES, OTHER_REASON, ""}


def test_a_node_has_the_class_of_its_reason_and_its_active_features():
    node = parse_node(
        "NodeName=n1 AvailableFeatures=a,b,c ActiveFeatures=avx512,ib,we|ird State=IDLE+DRAIN"
        "  Comment=State=DOWN ActiveFeatures=x Reason=disk full, call bob [root@1795395775]"
    )
    assert (node.features, node.reason, node.states) == (("avx512", "ib"), "storage", ("IDLE", "DRAIN"))
    assert parse_node("NodeName=n1 ActiveFeatures=(null) State=IDLE").features == ()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("gpu:(null):5(IDX:0-4)", 5),
        ("gpu:(null):0(IDX:N/A)", 0),
        ("gpu:a100:no_consume:4", 4),
        ("gpu:no_consume:4(S:0)", 4),
        ("gpu:(null):2(IDX:0-1),gpu:h100:1(IDX:3)", 3),
        ("shard:(null):2", None),
    ],
)
def test_gpus_without_a_type_are_counted(text, count):
    assert count_gres(text) == count
    assert parse_node(node(Gres="gpu:8", GresUsed=text)).allocated_gpus == count
