"""The worked examples: each number is computed by the code that makes the metrics."""

import json
import re
import shutil
import subprocess

import pytest

from jobfeatures.analysis.schedule.eet import Lanes
from jobfeatures.drains.nodemetrics import SeenJob, SeenNode
from jobfeatures.drains.plan import plan_drain
from jobfeatures.status.jobstatus import JobStatus
from jobfeatures.status.waste import Basis, compute_draining_waste, compute_kill_waste
from tests.docs.pages import blocks_in, queries_in, text_of

PAGE = text_of("docs/examples.md")


def rows_of(head):
    """Return the cells of the table that begins so, as numbers where they are."""
    rows = PAGE[PAGE.index(head) :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [[float(cell) if re.fullmatch(r"[\d.]+", cell) else cell for cell in row] for row in cells]


NOW = 1_800_000_000
PILOT = JobStatus(
    used_cpu=5,
    last_job_start=NOW - 600,
    first_exp_job_end=NOW + 3600,
    last_exp_job_end=NOW + 4500,
    add_uncom_time=0,
    add_final_exp_waste=1200,
)
NODE = SeenNode(
    "node",
    16,
    (
        SeenJob(
            batch_system="x",
            job_id="pilot",
            allocated_cpus=8,
            end_secs=4500,
            draining_core_secs=12000,
            kill_core_secs=3000,
            kill_rate_cpus=5,
        ),
        SeenJob(
            batch_system="x",
            job_id="job",
            allocated_cpus=4,
            end_secs=900,
            draining_core_secs=0,
            kill_core_secs=4 * 1800,
            kill_rate_cpus=4,
        ),
    ),
)


def core_secs(what, status=PILOT, *, after=0):
    return what(status, allocated_cpus=8, now_secs=NOW + after)


def kill_waste(status, *, allocated_cpus, now_secs):
    return compute_kill_waste(status, allocated_cpus=allocated_cpus, start_secs=NOW - 3600, now_secs=now_secs)


def test_what_one_job_wastes():
    draining, killing = core_secs(compute_draining_waste), core_secs(kill_waste)
    assert f"= {draining.core_secs:.0f} core seconds" in PAGE
    assert f"5 × 600 = {killing.core_secs:.0f} core seconds" in PAGE
    assert {draining.basis, killing.basis} == {Basis.REPORTED}
    assert core_secs(compute_draining_waste, after=1125) == core_secs(kill_waste, after=1125)
    assert "equal after 1125 s" in PAGE


def test_what_can_be_said_of_a_job_that_tells_nothing():
    estimated = core_secs(kill_waste, None)
    assert estimated.basis is Basis.ESTIMATED
    assert f"8 × 3600 = {estimated.core_secs}." in PAGE


def test_when_to_shut_the_node_down():
    plan = plan_drain(NODE, NOW)
    promised = plan_drain(NODE, NOW, earliest_secs=600)
    choices = {each.after_secs: each for each in (*plan.choices, *promised.choices)}
    shown = {row[0]: row[1:5] for row in rows_of("| T |")}
    assert shown == {
        after: [each.idle_core_secs, each.draining_core_secs, each.kill_core_secs, each.core_secs]
        for after, each in choices.items()
    }
    assert f"The cheapest moment is now: {plan.best.core_secs:.0f}" in PAGE
    assert f"it is in {promised.best.after_secs} s: {promised.best.core_secs:.0f}" in PAGE
    killed = {row[0]: row[5] for row in rows_of("| T |")}
    words = {2: "both", 1: "the pilot", 0: "nobody"}
    assert killed == {after: words[len(each.killed)] for after, each in choices.items()}


def test_when_jobs_may_be_expected_to_end():
    rows = rows_of("| job | user |")
    for user in (1, 2):
        own = [row for row in rows if row[1] == user]
        work = [[int(part) for part in row[3].split("×")] for row in own]
        ends = Lanes(3).place(
            [int(row[2]) for row in own], [each[0] for each in work], [each[1] for each in work]
        )
        assert ends == [row[5] for row in own]
        assert [max(0, row[4] - end) for row, end in zip(own, ends, strict=True)] == [row[6] for row in own]


LABELS = 'instance="n1:9819", batch_system="slurm", job_id="7"'
SERIES = {
    f"batch_job_allocated_cpus{{{LABELS}}}": "8x20",
    f'batch_job_cpu_seconds_total{{{LABELS}, mode="user"}}': "0+240x20",  # 4 CPUs, each minute
    f'batch_job_cpu_seconds_total{{{LABELS}, mode="system"}}': "0+60x20",  # 1 CPU
    f'batch_job_info{{{LABELS}, user="alice"}}': "1x20",
}


@pytest.mark.program
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_the_query_gives_what_the_page_says(tmp_path):
    [block] = [each for each in blocks_in(PAGE) if each.language == "promql"]
    [by_user] = queries_in(block)
    expected = {by_user: '{user="alice"}'}
    document = {
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in SERIES.items()],
                "promql_expr_test": [
                    {"expr": query, "eval_time": "10m", "exp_samples": [{"labels": labels, "value": 3}]}
                    for query, labels in expected.items()
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(json.dumps(document))
    done = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "test.yml")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "for the pilot 3" in PAGE
