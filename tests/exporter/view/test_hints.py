"""Every hint has a reason, with the figures that it rests on."""

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.view.hints import find_hints
from jobfeatures_exporter.view.job import GpuUse, JobView

LONG = {"elapsed_secs": 7200.0}
IDLE = {**LONG, "cpus_now": 0.1, "cpus_mean": 0.2, "allocated_cpus": 8}


@pytest.mark.parametrize(
    ("known", "words", "reason"),
    [
        (IDLE, "CPUs idle", "0.1 of 8 CPUs now and 0.2 on average"),
        ({**IDLE, "claimed_cpus": 0}, "no payload", "JOBSTATUS says 0"),
        ({**IDLE, "io_stalled_secs": 4000.0}, "waits for storage", "for 1\u202fh 6\u202fmin"),
        ({**LONG, "gpus": (GpuUse("a", True),), "idle_gpus": 1}, "GPU idle", "less than 2.0\u202f% busy"),
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
