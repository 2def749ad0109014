import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.model import Cluster, ClusterNode, Partition
from jobfeatures_exporter.cluster.discovery import ADDRESS, make_targets


def cluster(*nodes, source="slurm", partitions=()):
    return Cluster(source=source, taken_at_secs=0, nodes=nodes, partitions=partitions)


def node(name, *states, address=None):
    return ClusterNode(name=name, states=states or ("IDLE",), address=address)


def hosts(groups):
    return [each for group in groups for each in group["targets"]]


def test_each_node_is_a_group_with_its_partitions_and_states():
    partitions = (Partition(name="gpu", nodes=("n1",)), Partition(name="batch", nodes=("n2", "n1")))
    found = make_targets(
        [cluster(node("n1", "MIXED", "DRAIN", address="10.0.0.1"), node("n2"), partitions=partitions)],
        port=9819,
    )
    assert found[0] == {
        "targets": ["n1:9819"],
        "labels": {
            "__meta_batch_system": "slurm",
            "__meta_batch_node": "n1",
            "__meta_batch_address": "10.0.0.1",
            "__meta_batch_partitions": ",gpu,batch,",
            "__meta_batch_states": ",MIXED,DRAIN,",
        },
    }
    assert found[1]["labels"]["__meta_batch_partitions"] == ",batch,"


def test_a_node_without_a_partition_is_listed_all_the_same():
    [group] = make_targets([cluster(node("n1"))], port=1)
    assert group["labels"]["__meta_batch_partitions"] == ""


def test_nodes_in_states_to_leave_out_are_left_out():
    nodes = (node("n1", "DOWN"), node("n2", "IDLE", "POWERED_DOWN"), node("n3"))
    assert hosts(make_targets([cluster(*nodes)], port=1)) == ["n1:1", "n2:1", "n3:1"]
    assert hosts(make_targets([cluster(*nodes)], port=1, skip=("DOWN", "POWERED_DOWN"))) == ["n3:1"]


def test_the_host_is_the_name_or_the_address():
    nodes = (node("n1", address="10.0.0.1"), node("n2", address="fe80::2"), node("n3"))
    assert hosts(make_targets([cluster(*nodes)], port=1, host=ADDRESS)) == [
        "10.0.0.1:1",
        "[fe80::2]:1",
        "n3:1",
    ]


def test_a_node_of_two_batch_systems_is_scraped_once():
    found = make_targets([cluster(node("n1")), cluster(node("n1"), node("n2"), source="other")], port=1)
    assert hosts(found) == ["n1:1", "n2:1"]
    assert found[0]["labels"]["__meta_batch_system"] == "slurm"


@pytest.mark.parametrize(
    "name",
    [
        "user@n1",
        "n1/metrics?",
        "n1:22",
        "n1#",
        "n 1",
        "n1\n",
        "-n1",
        "",
        "\u0430bc",
        "[::1]",
        "::1]:80/",
        "\x1b[31m",
        "${x}",
        "a" * 300,
    ],
)
def test_what_is_no_host_is_no_target_and_costs_no_other_node(name):
    assert hosts(make_targets([cluster(node(name), node("n2"))], port=1)) == ["n2:1"]
    assert hosts(
        make_targets([cluster(node("n1", address=name or "/"), node("n2"))], port=1, host=ADDRESS)
    ) == ["n2:1"]


@given(st.lists(st.from_regex(r"[a-z0-9_][a-z0-9_.-]{0,9}", fullmatch=True), max_size=10))
def test_no_node_is_lost_and_none_doubled(names):
    nodes = [node(name) for name in names]
    found = make_targets([cluster(*nodes)], port=1)
    assert [group["labels"]["__meta_batch_node"] for group in found] == list(dict.fromkeys(names))
