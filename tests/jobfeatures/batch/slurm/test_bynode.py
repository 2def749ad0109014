"""All jobs in one answer, compared with the answer to each node's own query. The records are constructed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.bynode import JobsByNode, group_by_node, parse_whole
from jobfeatures.batch.slurm.cluster import parse_node_records
from jobfeatures.batch.slurm.node import parse_node_answer, parse_reservations
from jobfeatures.batch.slurm.record import parse_scontrol_job
from jobfeatures.records.model import Job, JobKey, JobState, JobTable, NodeNotice

NODES = [f"n{number}" for number in range(1, 7)]


def record(job_id: int, nodes: str, details: str, name: str = "ok", **changes: str) -> str:
    values = {
        "JobName": name,
        "UserId": "alice(6001)",
        "Account": "physics",
        "JobState": "RUNNING",
        "Restarts": "0",
        "RunTime": "00:00:28",
        "TimeLimit": "00:10:00",
        "SubmitTime": "1795246159",
        "StartTime": "1795246160",
        "EndTime": "1795246760",
        "Partition": "batch",
        "NodeList": nodes,
        "NumCPUs": "4",
        "TRES": "cpu=4,gres/gpu=2",
        **changes,
    }
    head = f"JobId={job_id} " + " ".join(f"{name}={value}" for name, value in values.items())
    return f"{head} {details} MinMemoryCPU=100M MinTmpDiskNode=0 Features=(null) Comment=none"


def queued(*jobs: tuple[int, tuple[str, ...]], **changes) -> JobTable:
    """Return the queue that reports these jobs."""
    found = {}
    for job_id, nodes in jobs:
        key = JobKey("slurm", str(job_id))
        found[key] = Job(key=key, **{"state": JobState.RUNNING, "uid": 6001, "nodes": nodes, **changes})
    return JobTable(source="slurm", jobs=found, taken_at_secs=100.0, complete=True)


def by_node(lines, queue, node_lines=(), reservations=(), others=()) -> JobsByNode:
    found, _ = parse_whole(lines, queue)
    return JobsByNode(
        taken_at_secs=queue.taken_at_secs,
        complete=True,
        jobs=group_by_node((each.shared for each in found.values()), others),
        nodes=parse_node_records(node_lines or [f"NodeName={name} State=IDLE x" for name in NODES])[0],
        maintenances=parse_reservations(reservations)[0],
    )


@st.composite
def details(draw) -> tuple[tuple[str, ...], str, str]:
    """Return a job's nodes, as a list, and the share of each, as Slurm groups them."""
    names = tuple(sorted(draw(st.sets(st.sampled_from(NODES), min_size=1))))
    groups, left = [], list(names)
    while left:
        count = draw(st.integers(1, len(left)))
        group, left = left[:count], left[count:]
        listed = group[0] if len(group) == 1 else f"n[{','.join(name[1:] for name in group)}]"
        cpus = draw(st.sampled_from(["0", "0-3", "1,3-4"]))
        gres = draw(st.sampled_from(["", "gpu:2(IDX:0-1)", "gpu:a100:1(IDX:3)", "gpu:0(IDX:N/A)", "shard:1"]))
        groups.append(
            f"  Nodes={listed} CPU_IDs={cpus} Mem={draw(st.sampled_from(['0', '100', '1.5G']))} GRES={gres}"
        )
    text = f"n[{','.join(name[1:] for name in names)}]" if len(names) > 1 else names[0]
    return names, text, " ".join(groups) if draw(st.integers(0, 4)) else ""


@given(st.lists(details(), max_size=5))
def test_each_node_gets_the_answer_to_its_own_query(drawn):
    lines = [record(number, text, given) for number, (_, text, given) in enumerate(drawn, 1)]
    found = by_node(lines, queued(*((number, names) for number, (names, _, _) in enumerate(drawn, 1))))
    for name in NODES:
        own = [
            parse_scontrol_job(line, node_name=name)
            for line, (names, _, _) in zip(lines, drawn, strict=True)
            if name in names
        ]
        assert found.table(name, 0.0).jobs == {job.key: job for job in own}


def test_a_nodes_notice_is_the_answer_to_its_own_query():
    node_lines = ["NodeName=n1 CPUEfctv=4 State=MIXED+DRAIN x", "NodeName=n2 State=IDLE x", "NodeName=n3 x"]
    form = "ReservationName={} StartTime={} EndTime=900 Duration=1 Nodes=n[1,3] NodeCnt=2 x Flags=MAINT Users=root"
    reservations = [form.format("a", 500), form.format("b", 700), form.format("c Flags=", 800)]
    found = by_node([], queued(), node_lines, reservations)
    for name, line in zip(("n1", "n2", "n3"), node_lines, strict=True):
        own = parse_node_answer([line], reservations, node_name=name, now_secs=600)
        assert found.table(name, 600).node == own.notice
    assert found.table("n1", 600).node == NodeNotice(True, (500, 700), 4)
    assert found.table("n1", 950).node == NodeNotice(True, (), 4)
    assert "State: this field must occur exactly once" in found.table("n3", 600).node_problem
    assert found.table("n4", 600) is None


def test_two_records_of_one_node_are_both_rejected():
    found, rejected = parse_node_records(
        ["NodeName=n1 State=IDLE", "NodeName=n1 State=DOWN", "x", "NodeName=n2 x"]
    )
    assert list(found) == ["n2"]
    assert [each.text for each in rejected] == ["n1"]


HEAD = "JobId=7 JobName=x"


@pytest.mark.parametrize(
    ("lines", "good", "unsure"),
    [
        # A name that contains a complete record of another job of its user.
        ([record(1, "n1", "", name="a\n" + record(2, "n2", "")), record(2, "n1", "")], set(), {"1", "2"}),
        # … of one that is not in the queue: it started later, or is forged.
        ([record(1, "n1", ""), record(9, "n1", "")], {"1"}, {"2"}),
        # … of one that also has its own record.
        ([record(1, "n1", ""), record(2, "n1", ""), record(2, "n2", "")], {"1"}, {"2"}),
        # A record with another user than the queue's.
        ([record(1, "n1", "", UserId="bob(6002)"), record(2, "n1", "")], {"2"}, {"1"}),
        # A name that looks like fields, and one with a harmless newline.
        ([record(1, "n1", "", name="a NodeList=n2"), record(2, "n1", "", name="a\nb")], {"2"}, {"1"}),
        ([], set(), {"1", "2"}),
        (["No jobs in the system"], set(), {"1", "2"}),
    ],
)  # fmt: skip
def test_a_record_that_may_be_forged_does_not_count(lines, good, unsure):
    text = "\n\n".join(lines).split("\n")
    found, doubted = parse_whole(text, queued((1, ("n1",)), (2, ("n1",))))
    assert {key.job_id for key in found} == good
    assert {key.job_id for key in doubted} == unsure


def test_a_job_that_the_queue_has_seen_end_does_not_come_back():
    queue = queued((1, ("n1",)), state=JobState.COMPLETED)
    assert parse_whole([record(1, "n1", "")], queue) == ({}, set())
    found, _ = parse_whole([record(1, "n1", "", JobState="COMPLETED")], queue)
    assert [each.shared.job.state for each in found.values()] == [JobState.COMPLETED]


def test_a_record_is_parsed_again_only_if_it_changed():
    queue = queued((1, ("n1",)))
    first, _ = parse_whole([record(1, "n1", "")], queue)
    later, _ = parse_whole([record(1, "n1", "", RunTime="00:01:28")], queue, first)
    other, _ = parse_whole([record(1, "n1", "", RunTime="00:02:28", TimeLimit="00:20:00")], queue, later)
    [key] = first
    assert later[key].shared is first[key].shared
    assert (first[key].shared.job.limits.wall_secs, other[key].shared.job.limits.wall_secs) == (600, 1200)


def test_a_name_that_forges_the_run_time_does_not_hide_a_change():
    queue = queued((1, ("n1",)))
    first, _ = parse_whole([record(1, "n1", "", name="x RunTime=a")], queue)
    later, _ = parse_whole([record(1, "n1", "", name="x RunTime=b")], queue, first)
    assert [each.shared.job.name for each in later.values()] == ["x RunTime=b"]


@given(st.integers(0, 10**6))
def test_any_damage_costs_jobs_and_imitates_none(seed):
    """Users write names only; here anything may be corrupted, and each result is still one of the real ones."""
    draw = random.Random(seed)
    lines = [record(number, "n[1-2]", "  Nodes=n[1-2] CPU_IDs=0-1 Mem=1 GRES=") for number in (1, 2, 3)]
    text = list("\n".join(lines))
    for _ in range(draw.randrange(4)):
        place = draw.randrange(len(text))
        text[place : place + draw.randrange(60)] = draw.choice(["\n", "", "\nJobId=2 ", " JobName=", "x"])
    queue = queued(*((number, ("n1", "n2")) for number in (1, 2, 3)))
    found, unsure = parse_whole("".join(text).split("\n"), queue)
    assert found.keys() | unsure == queue.jobs.keys()


def test_jobs_without_a_record_are_taken_from_the_queue():
    [job] = queued((5, ("n1", "n2"))).jobs.values()
    found = by_node([], queued(), others=[job])
    assert found.table("n2", 0.0).jobs == {job.key: job}
    assert replace(found, complete=False).table("n2", 0.0).complete is False
