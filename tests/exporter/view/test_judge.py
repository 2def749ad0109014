"""Each rule of the table: a job to which it applies, and one just beyond its bound. Constructed."""

import math
from dataclasses import replace

import pytest

from jobfeatures_exporter.view.judge import RULES, judge
from jobfeatures_exporter.view.use import GpuUse, JobUse, NodeUse, Place

GIB = 2**30


def node(name="n1", **changes):
    return NodeUse(
        place=Place(name),
        elapsed_secs=3600,
        **{
            "allocated_cpus": 8,
            "cpu_secs": 8 * 3600 * 0.9,
            "allocated_memory": 8 * GIB,
            "memory_peak": 4 * GIB,
        }
        | changes,
    )


def job(*nodes, **changes):
    return JobUse(
        **{
            "batch_system": "slurm",
            "job_id": "1",
            "state": "COMPLETED",
            "start_secs": 0,
            "end_secs": 3600,
            "wall_limit_secs": 7200,
            "nodes": nodes or (node(),),
        }
        | changes
    )


def card(busy, number=1):
    return GpuUse(uuid=f"GPU-{number}", is_allocated=True, busy_secs=busy)


def names(report):
    return [hint.name for hint in judge(report)]


def test_a_good_job_has_no_hints():
    assert names(job()) == []


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("memory_killed", job(node(oom_kills=2)), job(node(oom_kills=0))),
        ("memory_killed", job(state="OUT_OF_MEMORY"), job(state="FAILED")),
        ("memory_near_limit", job(node(memory_peak=7.3 * GIB)), job(node(memory_peak=7 * GIB))),
        ("memory_unused", job(node(memory_peak=1.9 * GIB)), job(node(memory_peak=2.1 * GIB))),
        ("memory_unused", job(node(memory_peak=0)), job(node(memory_peak=0, allocated_memory=GIB / 2))),
        ("cpu_serial", job(node(cpu_secs=3600)), job(node(cpu_secs=3600, allocated_cpus=3))),
        ("cpu_low", job(node(cpu_secs=3600 * 3)), job(node(cpu_secs=3600 * 4))),
        ("cpu_idle", job(node(cpu_secs=0)), job(node(cpu_secs=None))),
        ("nodes_idle", job(node(), node("n2", cpu_secs=100)), job(node(), node("n2", cpu_secs=3000))),
        ("gpu_idle", job(node(gpus=(card(0.0),))), job(node(gpus=(card(None),)))),
        ("gpu_idle", job(node(gpus=(card(3000), card(71, 2)))), job(node(gpus=(card(3000), card(72, 2))))),
        ("gpu_low", job(node(gpus=(card(719),))), job(node(gpus=(card(720),)))),
        ("time_limit", job(state="TIMEOUT"), job(state="FAILED")),
        ("time_unused", job(wall_limit_secs=14_401), job(wall_limit_secs=14_400)),
        ("time_unused", job(wall_limit_secs=86_400), job(wall_limit_secs=86_400, end_secs=None, is_running=True, seen_until_secs=3600)),
        ("time_unlimited", job(wall_limit_secs=math.inf), job(wall_limit_secs=None)),
        ("memory_wait", job(node(stalled_secs={"memory": 360})), job(node(stalled_secs={"memory": 359}))),
        ("memory_wait", job(node(stalled_secs={"memory": 360})), job(node(stalled_secs={"memory": 360}, oom_kills=1))),
        ("memory_cache", job(node(memory_peak=GIB, charged_peak=7.3 * GIB)), job(node(memory_peak=GIB, charged_peak=7 * GIB))),
        ("memory_cache", job(node(memory_peak=GIB, charged_peak=8 * GIB)), job(node(memory_peak=GIB, charged_peak=8 * GIB, stalled_secs={"memory": 360}))),
        ("memory_unused", job(node(memory_peak=GIB, charged_peak=7 * GIB)), job(node(memory_peak=GIB, charged_peak=7.3 * GIB))),
        ("memory_unused", job(node(memory_peak=GIB)), job(node(memory_peak=GIB, stalled_secs={"memory": 360}))),
        ("cpu_idle", job(node(cpu_secs=0, suspended_secs=3000)), job(node(cpu_secs=0, suspended_secs=3001))),
        ("cpu_low", job(node(cpu_secs=5700, suspended_secs=1800)), job(node(cpu_secs=5760, suspended_secs=1800))),
        ("cpu_idle", job(node(cpu_secs=0, gpus=(card(1700),))), job(node(cpu_secs=0, gpus=(card(1800),)))),
        ("cpu_idle", job(node(cpu_secs=0, stalled_secs={"io": 1799})), job(node(cpu_secs=0, stalled_secs={"io": 1800}))),
        ("cpu_low", job(node(cpu_secs=3600 * 2.3, stalled_secs={"io": 900})), job(node(cpu_secs=3600 * 2.5, stalled_secs={"io": 900}))),
        ("cpu_idle", job(node(cpu_secs=0, claimed_cpus=3.2)), job(node(cpu_secs=0, claimed_cpus=3.1))),
        ("cpu_low", job(node(), node("n2", cpu_secs=1500), node("n3", cpu_secs=1500)), job(node(), node("n2", cpu_secs=100))),
        ("cpu_serial", job(node(cpu_secs=3600)), job(node(cpu_secs=3600, stalled_secs={"io": 1800}))),
        ("cpu_serial", job(node(cpu_secs=3600)), job(node(cpu_secs=3600, throttled_secs=3600))),
        ("cpu_throttled", job(node(cpu_secs=3600, throttled_secs=900)), job(node(cpu_secs=3600, throttled_secs=899))),
        ("cpu_throttled", job(node(cpu_secs=3600, throttled_secs=900)), job(node(cpu_secs=3600 * 6.4, throttled_secs=9000))),
        ("cpu_contended", job(node(cpu_secs=3600 * 6, stalled_secs={"cpu": 1080})), job(node(cpu_secs=3600 * 6.4, stalled_secs={"cpu": 1080}))),
        ("cpu_contended", job(node(cpu_secs=3600, stalled_secs={"cpu": 1080})), job(node(cpu_secs=3600, stalled_secs={"cpu": 1079}))),
        ("cpu_contended", job(node(cpu_secs=3600, stalled_secs={"cpu": 1080})), job(node(cpu_secs=3600, stalled_secs={"cpu": 1080}, throttled_secs=3600))),
        ("cpu_contended", job(node(cpu_secs=3600, stalled_secs={"cpu": 1080, "io": 1080})), job(node(cpu_secs=3600, stalled_secs={"cpu": 1080, "io": 1081}))),
        ("pilot_idle", job(node(cpu_secs=0, claimed_cpus=3.1)), job(node(cpu_secs=0, claimed_cpus=3.2))),
        ("pilot_idle", job(node(cpu_secs=0, claimed_cpus=0)), job(node(claimed_cpus=0))),
        ("io_wait", job(node(cpu_secs=0, stalled_secs={"io": 900})), job(node(cpu_secs=0, stalled_secs={"io": 899}))),
        ("io_wait", job(node(stalled_secs={"io": 900}, all_stalled_secs={"io": 900})), job(node(stalled_secs={"io": 3600}, all_stalled_secs={"io": 899}))),
        ("cpu_crowded", job(node(stalled_secs={"cpu": 1080}, threads=16)), job(node(stalled_secs={"cpu": 1080}, threads=15))),
        ("cpu_crowded", job(node(cpu_secs=3600 * 3.2, stalled_secs={"cpu": 1080}, threads=16)), job(node(cpu_secs=3600 * 3.1, stalled_secs={"cpu": 1080}, threads=16))),
    ],
)  # fmt: skip
def test_a_rule_applies_up_to_its_bound(name, bad, good):
    assert name in names(bad)
    assert name not in names(good)


def test_what_is_said_of_idle_cards_depends_on_the_cpus():
    def said(cpu_secs):
        return judge(job(node(cpu_secs=cpu_secs, gpus=(card(500),))))[-1].text

    assert "ask for more of them" in said(8 * 3600)
    assert "do they wait for data?" in said(3600)


def test_every_rule_is_tried_above():
    marks = test_a_rule_applies_up_to_its_bound.pytestmark
    assert {row[0] for row in marks[0].args[1]} == {rule.name for rule in RULES}


def test_a_short_job_is_judged_by_what_ended_it_alone():
    short = job(node(cpu_secs=1.0, memory_peak=0, oom_kills=1), end_secs=100)
    assert names(replace(short, wall_limit_secs=110)) == ["memory_killed"]


def test_nothing_known_gives_no_hint():
    assert names(JobUse(batch_system="pbs", job_id="1", nodes=(NodeUse(place=Place("n")),))) == []
