"""From series to jobs: the daemon's page and a Prometheus server's answer give the same."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.drains.nodemetrics import NAMES, gather_nodes
from jobfeatures.drains.plan import plan_drain
from jobfeatures.errors import ParseError
from jobfeatures.records.series import Series, parse_lines, parse_vector
from jobfeatures.status.waste import Basis

NOW = 1_800_000_000.0
GOLDEN = Path(__file__).parents[2] / "fixtures/golden/metrics.txt"


def nodes_of_page(text):
    return gather_nodes(parse_lines(text, NAMES), "page")


def nodes_of_answer(text):
    return gather_nodes(parse_vector(text, source="http://p").series, "http://p")


def test_the_daemons_page_is_understood():
    [node] = nodes_of_page(GOLDEN.read_text(encoding="utf-8"))
    assert (node.name, node.total_cpus) == ("this node", 2)
    assert node.shutdowns == {"operator": 1_800_007_200, "slurm": 1_800_003_600}
    batch, pilot = node.jobs
    assert (batch.user, batch.allocated_cpus, batch.end_secs, batch.end_basis) == (
        "alice",
        4,
        3000,
        Basis.ESTIMATED,
    )
    assert (batch.kill_core_secs, batch.kill_basis, batch.kill_rate_cpus) == (2400, Basis.ESTIMATED, 4)
    assert not batch.is_capped
    assert pilot.job_id == 'pilot "7"\\\n'
    assert (pilot.end_secs, pilot.end_basis) == (5000, Basis.REPORTED)
    # It says 3500, in the 400 s that it has had 8 CPUs.
    assert (pilot.kill_core_secs, pilot.kill_basis, pilot.kill_rate_cpus) == (3200, Basis.REPORTED, 5)
    assert pilot.is_capped
    assert (pilot.draining_core_secs, pilot.priority_factor, pilot.can_postpone) == (1200, 1, False)


def test_a_prometheus_server_gives_the_nodes_by_instance():
    page = parse_lines(GOLDEN.read_text(encoding="utf-8"), NAMES)
    result = [
        {"metric": {"__name__": each.name, "instance": name, **each.labels}, "value": [1.5, str(each.value)]}
        for each in page
        for name in ("b:9819", "a:9819")
    ]
    text = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})
    nodes = nodes_of_answer(text)
    assert [node.name for node in nodes] == ["a:9819", "b:9819"]
    assert nodes[0].jobs == gather_nodes(page, "page")[0].jobs


def test_nodes_of_two_clusters_and_foreign_nodes_of_one_receiver_stay_apart():
    """Their instances are the same; by default Prometheus and its federation add the other labels."""

    def series(cpus, job_id, **labels):
        job = {"batch_system": "slurm", "job_id": job_id, **labels}
        return [
            Series("batch_node_allocatable_cpus", labels, cpus),
            Series("batch_job_allocated_cpus", job, cpus / 2),
        ]

    found = [
        *series(4, "1", instance="n1:9819", cluster="a"),
        *series(8, "1", instance="n1:9819", cluster="b"),
        *series(2, "5", instance="n2:9819", cluster="b"),
        *series(16, "7", instance="hub:9820", node="c1"),
        *series(32, "8", instance="hub:9820", node="c2"),
        Series("batch_exporter_source_up", {"instance": "hub:9820", "source": "slurm"}, 1),
    ]
    nodes = {
        node.name: (node.total_cpus, [job.job_id for job in node.jobs]) for node in gather_nodes(found, "")
    }
    assert nodes == {
        "a/n1:9819": (4, ["1"]),
        "b/n1:9819": (8, ["1"]),
        "n2:9819": (2, ["5"]),
        "c1": (16, ["7"]),
        "c2": (32, ["8"]),
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"status":"error","error":"parse error"}', "refused the query: 'parse error'"),
        ('{"status":"success","data":{"resultType":"matrix","result":[]}}', "not a Prometheus vector"),
        ('{"status":"success","data":{"resultType":"vector","result":[7]}}', "not a series"),
        (
            '{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"NaN"]}]}}',
            "finite",
        ),
        ("<html>", "not JSON"),
        ("[]", "not a JSON object"),
    ],
)
def test_an_answer_that_is_none_is_named(text, reason):
    with pytest.raises(ParseError, match=reason):
        nodes_of_answer(text)


def test_a_line_that_cannot_be_read_is_named_and_foreign_lines_are_passed_over():
    assert parse_lines('# HELP x\nother{a="b"} 1\nbatch_job_infox 7\n', NAMES) == []
    with pytest.raises(ParseError, match="page:2"):
        parse_lines("\nbatch_job_allocated_cpus{job_id=} 1", NAMES, source="page")


def test_process_groups_are_no_jobs_and_an_end_by_the_batch_system_beats_a_later_estimate():
    labels = {"batch_system": "slurm", "job_id": "1"}
    series = [
        Series("batch_job_allocated_cpus", {"batch_system": "none", "job_id": "3@4"}, 1),
        Series("batch_job_remaining_seconds", {**labels, "basis": "expected_end"}, 500),
        Series("batch_job_remaining_seconds", {**labels, "basis": "wall_limit"}, 400),
        Series("batch_job_remaining_seconds", {**labels, "basis": "shutdown"}, 10),
    ]
    [node] = gather_nodes(series, "page")
    [job] = node.jobs
    assert (job.end_secs, job.end_basis) == (400, Basis.ESTIMATED)


@pytest.mark.parametrize(
    ("remaining", "end"),
    [
        ({"expected_end": -7200, "wall_limit": 400}, 400),
        ({"expected_end": -7200, "maximum_end": 300, "wall_limit": 400}, 300),
        ({"wall_limit": -7200}, None),
        ({"wall_limit": -7200, "deadline": 500}, 500),
        ({"wall_limit": -30}, -30),  # its batch system is about to end it
    ],
)
def test_a_job_that_still_runs_long_after_an_end_does_not_end_then(remaining, end):
    labels = {"batch_system": "slurm", "job_id": "1"}
    series = [
        Series("batch_job_remaining_seconds", {**labels, "basis": basis}, secs)
        for basis, secs in remaining.items()
    ]
    [node] = gather_nodes(series, "page")
    assert node.jobs[0].end_secs == end


lines = st.text(max_size=60) | st.builds(
    lambda name, labels, value: f"{name}{{{labels}}} {value}",
    st.sampled_from(NAMES),
    st.text('abc="\\,\n ', max_size=20),
    st.text("0123456789.eE+-naif", max_size=8),
)


@given(st.lists(lines, max_size=5).map("\n".join))
def test_any_page_gives_nodes_or_a_parse_error(text):
    try:
        nodes_of_page(text)
    except ParseError:
        pass


def test_what_has_ended_or_is_no_batch_job_is_left_out():
    page = """
batch_job_allocated_cpus{batch_system="slurm",job_id="1"} 4
batch_job_allocated_cpus{batch_system="slurm",job_id="2"} 8
batch_job_end_time_seconds{batch_system="slurm",job_id="2"} 1795264114
batch_job_allocated_cpus{batch_system="slurm",job_id="other"} 16
batch_job_info{batch_system="service",job_id="sshd.service",user="root"} 1
"""
    [node] = nodes_of_page(page.replace('job_id="other"', 'job_id="3"'))
    assert [(job.name, job.allocated_cpus) for job in node.jobs] == [("slurm 1", 4), ("slurm 3", 16)]


def test_jobs_beyond_the_series_budget_are_one_job_of_which_only_the_cpus_are_known():
    page = """
batch_node_allocatable_cpus 32
batch_job_allocated_cpus{batch_system="slurm",job_id="1"} 4
batch_job_kill_waste_core_seconds{batch_system="slurm",job_id="1",basis="estimated"} 500
batch_job_allocated_cpus{batch_system="slurm",job_id="other"} 16
batch_job_kill_waste_core_seconds{batch_system="slurm",job_id="other",basis="estimated"} 9000
"""
    [node] = nodes_of_page(page)
    assert [(job.name, job.allocated_cpus, job.is_known) for job in node.jobs] == [
        ("slurm 1", 4, True),
        ("slurm other", 16, False),
    ]
    plan = plan_drain(node, NOW)
    assert plan.best is None
    assert plan.unknown_jobs == ("slurm other",)
    assert plan_drain(node, NOW, earliest_secs=10).choices[0].idle_core_secs == 120


def test_what_is_measured_goes_on_as_it_did_since_the_jobs_start():
    page = """
batch_node_sample_timestamp_seconds 2000
batch_job_allocated_cpus{batch_system="slurm",job_id="1"} 4
batch_job_start_time_seconds{batch_system="slurm",job_id="1"} 1000
batch_job_kill_waste_core_seconds{batch_system="slurm",job_id="1",basis="measured"} 500
"""
    [node] = nodes_of_page(page)
    assert (node.jobs[0].kill_core_secs, node.jobs[0].kill_rate_cpus) == (500, 0.5)
    [node] = nodes_of_page(page.replace("start_time", "other_time"))
    assert node.jobs[0].kill_rate_cpus == 4  # all it was given, where that is not known
