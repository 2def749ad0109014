"""Every hint has a reason, with the figures that it rests on."""

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.view.hints import find_hints
from jobfeatures_exporter.view.job import GpuView, JobIdentity, JobView

LONG = {"elapsed_secs": 7200.0}
IDLE = {**LONG, "cpus_now": 0.1, "cpus_mean": 0.2, "allocated_cpus": 8}


@pytest.mark.parametrize(
    ("known", "words", "reason"),
    [
        (IDLE, "CPUs idle", "its CPUs worked 2.5 % of the time"),
        ({**IDLE, "claimed_cpus": 0}, "few payloads", "payloads took 0 of its 8 CPUs"),
        ({**IDLE, "stalled_secs": {"io": 4000.0}}, "waits for storage", "56 % of the time"),
        ({**IDLE, "stalled_secs": {"memory": 4000.0}}, "waits for memory", "56 % of the time"),
        (
            {**LONG, "gpus": (GpuView("a", True, busy_secs=0, busy_share=0),)},
            "GPU idle",
            "its GPU did nothing",
        ),
        ({"memory": 95, "memory_limit": 100}, "memory near its limit", "95\u202fB of 100\u202fB"),
        ({"enforced_secs": -60.0}, "past its end", "1\u202fmin ago"),
        ({**LONG, "enforced_secs": 60.0}, "ends soon", "in 1\u202fmin"),
        ({"is_overdue": True}, "payload overdue", "lower bound"),
        ({"is_running": False, "processes_remain": True}, "processes remain", "still here"),
    ],
)
def test_a_hint_has_its_reason(known, words, reason):
    ((_, said, why),) = find_hints(JobView(key=JobKey("slurm", "1"), **known))
    assert said == words
    assert reason in why


@pytest.mark.parametrize(
    "other",
    [
        {"cpus_now": 4.0},  # it works now
        {"cpus_mean": 4.0},
        {"elapsed_secs": 599.0},  # it may still begin
        {"identity": JobIdentity(state="SUSPENDED")},
        {"allocated_cpus": None},
        {"gpus": (GpuView("a", True, busy_secs=7000, busy_share=1),)},  # its GPU computes
        {"allocated_gpus": 1},  # and may compute
    ],
)
def test_a_job_is_called_idle_where_it_is_so_on_average_and_now_and_nothing_speaks_against_it(other):
    assert find_hints(JobView(key=JobKey("slurm", "1"), **{**IDLE, **other})) == []
