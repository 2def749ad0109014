"""Queue and nodes by partition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobfeatures.records.model import ClusterNode, JobState, Partition
from jobfeatures_exporter.cluster.sums import compute_cluster_sums, compute_queue_sums
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.scrape.collectors import collect
from tests.exporter.seriestext import labelled


def series(context, name):
    return {
        text: value
        for family in collect(context, {"queue", "cluster"})
        if family.metric.sample_name == name
        for text, value in labelled(family)
    }


def at(partition, **more):
    labels = {"batch_system": "slurm", "partition": partition, **more}
    return ",".join(f'{name}="{value}"' for name, value in labels.items())


def test_a_task_of_an_array_is_a_job_and_a_job_counts_in_each_of_its_partitions(context):
    assert series(context, "batch_queue_jobs") == {
        at("batch", state="PENDING"): 12,
        at("batch", state="RUNNING"): 0,
        at("gpu", state="PENDING"): 10,
        at("gpu", state="RUNNING"): 1,
    }
    assert series(context, "batch_queue_cpus")[at("batch", state="PENDING")] == 48
    assert series(context, "batch_queue_nodes")[at("gpu", state="PENDING")] == 10


def test_gpus_are_absent_where_nothing_is_known_of_them(context):
    assert series(context, "batch_queue_gpus") == {at("gpu", state="RUNNING"): 2}


def test_a_sentence_is_no_reason(context):
    assert series(context, "batch_queue_pending_jobs") == {
        at("gpu", reason="Resources"): 10,
        at("batch", reason="Resources"): 10,
        at("batch", reason="JobHeldUser"): 1,
        at("batch", reason="other"): 1,
    }


def test_jobs_that_may_not_start_do_not_wait(context):
    assert series(context, "batch_queue_waiting_jobs") == {at("batch"): 11, at("gpu"): 10}
    assert series(context, "batch_queue_oldest_wait_seconds") == {at("batch"): 400, at("gpu"): 400}
    assert series(context, "batch_queue_wait_job_seconds") == {at("batch"): 4400, at("gpu"): 4000}


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("JobHeldAdmin", "held"),
        ("JobHeldUser", "held"),
        ("job_requeued_in_held_state", "held"),
        ("Error", "held"),  # of Grid Engine
        ("Dependency", "dependent"),
        ("DependencyNeverSatisfied", "dependent"),
        ("BeginTime", "date"),
        ("Resources", None),
        ("held by hand", None),
    ],
)
def test_held_and_dependent_jobs_count_apart(context, queue, reason, cause):
    key, job = next((key, job) for key, job in queue.jobs.items() if job.reason == "Resources")
    queue = replace(queue, jobs={key: replace(job, reason=reason, partition="gpu", tasks=3)})
    context = replace(context, queues=(compute_queue_sums(queue),))
    found = series(context, "batch_queue_not_eligible_jobs")
    causes = ("held", "dependent", "date")
    assert {each: found[at("gpu", cause=each)] for each in causes} == {
        each: 3 * (each == cause) for each in causes
    }


@pytest.mark.parametrize(
    ("changes", "waits"),
    [
        ({"reason": "Dependency"}, None),
        ({"reason": "DependencyNeverSatisfied"}, None),
        ({"reason": "BeginTime"}, None),
        ({"reason": "JobHeldAdmin"}, None),
        ({"eligible_secs": 2_000_000_000}, None),
        ({"eligible_secs": None}, 500),
        ({"eligible_secs": None, "submit_secs": None}, None),
        ({"reason": None}, 400),
    ],
)
def test_waiting_counts_from_when_a_job_may_start(context, queue, changes, waits):
    key, job = next((key, job) for key, job in queue.jobs.items() if job.reason == "Resources")
    queue = replace(queue, jobs={key: replace(job, **changes)})
    context = replace(context, queues=(compute_queue_sums(queue),))
    assert series(context, "batch_queue_oldest_wait_seconds")[at("gpu")] == (waits or 0)


def test_an_empty_queue_is_zero_in_every_partition(context, queue):
    context = replace(context, queues=(compute_queue_sums(replace(queue, jobs={})),))
    found = series(context, "batch_queue_jobs")
    assert set(found.values()) == {0}
    assert len(found) == 4


def test_without_an_answer_nothing_is_zero():
    context = Context(now_secs=0)
    assert [list(each.samples) for each in collect(context, {"queue", "cluster"})[:-4]] == [[]] * 17


def test_a_node_counts_once_in_each_of_its_partitions_by_its_base_state(context):
    found = {text: value for text, value in series(context, "batch_cluster_nodes").items() if value}
    assert found == {
        at("batch", state="IDLE"): 1,
        at("batch", state="MIXED"): 1,
        at("gpu", state="MIXED"): 1,
        at("", state="DOWN"): 1,
    }
    assert series(context, "batch_cluster_nodes")[at("gpu", state="DOWN")] == 0


def test_what_is_said_beside_the_base_state_is_a_flag(context):
    assert series(context, "batch_cluster_nodes_flagged") == {
        at("batch", flag="DRAIN"): 1,
        at("gpu", flag="DRAIN"): 0,
        at("", flag="NOT_RESPONDING"): 1,
    }


def test_cpus_of_nodes_that_start_nothing_are_not_idle(context):
    assert series(context, "batch_cluster_cpus") == {
        at("batch", kind="allocated"): 6,
        at("batch", kind="idle"): 2,
        at("batch", kind="other"): 8,
        at("gpu", kind="allocated"): 6,
        at("gpu", kind="idle"): 2,
        at("", kind="allocated"): 0,
        at("", kind="other"): 8,
    }
    assert series(context, "batch_cluster_gpus") == {
        at(partition, kind=kind): 2 for partition in ("batch", "gpu") for kind in ("allocated", "idle")
    }
    assert series(context, "batch_cluster_memory_bytes")[at("gpu", kind="idle")] == 15 * 2**30


def test_the_sum_over_states_is_the_number_of_nodes(context, cluster):
    nodes = tuple(
        ClusterNode(name=f"n{number}", states=(state, "DRAIN", "CLOUD"))
        for number, state in enumerate(["IDLE", "MIXED", "ALLOCATED", "DOWN", "ERROR", "FUTURE"])
    )
    partition = Partition(name="all", nodes=tuple(node.name for node in nodes))
    cluster = replace(cluster, nodes=nodes, partitions=(partition,))
    context = replace(context, clusters=(compute_cluster_sums(cluster),))
    assert sum(series(context, "batch_cluster_nodes").values()) == len(nodes)
    assert series(context, "batch_cluster_nodes_flagged")[at("all", flag="DRAIN")] == len(nodes)


def test_a_partition_is_up_or_not(context):
    assert series(context, "batch_cluster_partition_up") == {at("batch"): 1, at("gpu"): 0}


def test_states_of_a_job_are_told_apart(context, queue):
    jobs = {
        key: replace(job, state=state, partition="p", tasks=1)
        for (key, job), state in zip(
            queue.jobs.items(),
            (JobState.SUSPENDED, JobState.COMPLETING, JobState.UNKNOWN, JobState.FAILED, JobState.TIMEOUT),
            strict=True,
        )
    }
    queue = replace(queue, jobs=jobs)
    context = replace(context, queues=(compute_queue_sums(queue),), clusters=())
    assert series(context, "batch_queue_jobs") == {
        at("p", state=state): 1 for state in ("SUSPENDED", "COMPLETING", "UNKNOWN")
    }


@pytest.mark.parametrize(
    "states",
    [
        ("IDLE", "CLOUD", "POWERING_DOWN"),
        ("MIXED", "CLOUD", "POWER_DOWN"),
        ("IDLE", "BLOCKED"),
        ("IDLE", "DRAIN"),
    ],
)
def test_nothing_of_a_node_that_starts_no_job_is_idle(context, cluster, states):
    node = replace(cluster.nodes[0], states=states)
    sums = compute_cluster_sums(replace(cluster, nodes=(node,)))
    context = replace(context, clusters=(sums,))
    for name in ("batch_cluster_cpus", "batch_cluster_memory_bytes", "batch_cluster_gpus"):
        assert at("gpu", kind="idle") not in series(context, name)
        assert series(context, name)[at("gpu", kind="other")] > 0


def test_a_node_that_is_powered_down_may_be_started_for_a_job(context, cluster):
    node = replace(cluster.nodes[0], states=("IDLE", "CLOUD", "POWERED_DOWN"))
    context = replace(context, clusters=(compute_cluster_sums(replace(cluster, nodes=(node,))),))
    assert series(context, "batch_cluster_cpus")[at("gpu", kind="idle")] == 2
