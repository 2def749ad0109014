"""Alerts on steady jobs say what the judge finds in the figures that they have; what it finds in more is more precise."""

import json
import random

import pytest

from jobfeatures_exporter.view.judge import LITTLE_USE, judge
from jobfeatures_exporter.view.thresholds import IDLE_GPU
from jobfeatures_exporter.view.use import GpuUse, JobUse, NodeUse, Place
from tests.rules.test_rules import TESTS, lean, run
from tests.yamltext import read_yaml

GIB = 2**30
HOURS = 4
JOBS = 40
ALERTS = {
    "cpu_idle": "BatchJobIdleCpus",
    "cpu_serial": "BatchJobSerialOnManyCpus",
    "cpu_low": "BatchJobLittleCpuUse",
    "gpu_low": "BatchJobLittleGpuUse",
    "memory_unused": "BatchJobAsksTooMuchMemory",
}
ON_IDLE_GPUS = ("BatchJobIdleGpus", "BatchJobLeavesGpusUnused")  # all of them, or some
EVERY = sorted((*ALERTS.values(), *ON_IDLE_GPUS))
SHARES = (0.0, 0.019, 0.021, 0.049, 0.051, 0.12, 0.19, 0.21, 0.24, 0.26, 0.39, 0.41, 0.7, 1.0)


def some_use(rng):
    """Return a job's use of hours on one node, as it stands in the series that alerts read."""
    elapsed, cpus = HOURS * 3600.0, rng.choice((1, 3, 4, 8, 64))
    used = rng.choice((*(share * cpus for share in SHARES), *((1.19, 1.21) if cpus > 1 else ())))
    cards = [
        GpuUse(uuid=f"card{number}", is_allocated=True, busy_secs=rng.choice(SHARES) * elapsed)
        for number in range(rng.choice((0, 0, 1, 3)))
    ]
    memory = rng.choice((8, 100)) * GIB
    node = NodeUse(
        place=Place("n1"),
        elapsed_secs=elapsed,
        allocated_cpus=cpus,
        cpu_secs=used * elapsed,
        allocated_memory=memory,
        memory_peak=rng.choice(SHARES) * memory,
        gpus=tuple(cards),
    )
    return JobUse(
        batch_system="slurm",
        job_id="1",
        start_secs=0,
        seen_until_secs=elapsed,
        is_running=True,
        nodes=(node,),
    )


def series_of(number, use):
    (node,) = use.nodes
    steps = HOURS * 60
    place = 'job="batch_nodes",instance="n1:9819",node="n1"'
    job = f'{place},batch_system="slurm",job_id="{number}"'
    who = 'user="ann",account="physics",partition="batch",name="sim"'

    def steady(name, labels, value):
        return {"series": f"{name}{{{labels}}}", "values": f"{value:.6f}x{steps}"}

    def growing(name, labels, secs):
        return {"series": f"{name}{{{labels}}}", "values": f"0+{secs / steps:.6f}x{steps}"}

    yield steady("batch_job_info", f"{job},{who}", 1)
    yield steady("batch_job_start_time_seconds", job, 0)
    yield steady("batch_job_allocated_cpus", job, node.allocated_cpus)
    yield growing("batch_job_cpu_seconds_total", f'{job},mode="user"', node.cpu_secs)
    yield steady("batch_job_allocated_memory_bytes", job, node.allocated_memory)
    yield steady("batch_job_memory_peak_bytes", job, node.memory_peak)
    for card in node.gpus:
        uuid = f'uuid="{card.uuid}-{number}"'
        yield steady("batch_job_gpu_allocated", f"{job},{uuid}", 1)
        yield steady("batch_gpu_age_seconds", f"{place},{uuid}", 5)
        yield growing("batch_gpu_busy_seconds_total", f"{place},{uuid}", card.busy_secs)


def alerts_of(use):
    """Return which alerts fire by what the judge finds: none on CPUs beside GPUs, nor on less than 16 GiB."""
    (node,) = use.nodes
    found = {each.name for each in judge(use)}
    if node.gpus:
        found -= LITTLE_USE
    if (use.unused_memory or 0.0) <= 16 * GIB:
        found.discard("memory_unused")
    if "gpu_idle" in found:
        yield ON_IDLE_GPUS[(use.gpu_share or 0.0) >= IDLE_GPU]
    yield from (ALERTS[name] for name in found & ALERTS.keys())


@pytest.mark.timeout(400)
@pytest.mark.integration
def test_alerts_on_random_steady_jobs_are_what_the_judge_finds(tmp_path):
    [waste] = [path for path in TESTS if path.stem == "waste"]
    jobs = {number: some_use(random.Random(number)) for number in range(JOBS)}
    wanted = {(name, number) for number, use in jobs.items() for name in alerts_of(use)}
    assert {name for name, _ in wanted} == set(EVERY)
    case = {
        "interval": "1m",
        "input_series": [each for number, use in jobs.items() for each in series_of(number, use)],
        "promql_expr_test": [
            {
                "expr": f'group by (job_id) (ALERTS{{alertname="{alert}",alertstate="firing"}})',
                "eval_time": f"{HOURS * 60 - 1}m",
                "exp_samples": [
                    {"labels": f'{{job_id="{number}"}}', "value": 1}
                    for number in sorted(jobs)
                    if (alert, number) in wanted
                ],
            }
            for alert in EVERY
        ],
    }
    path = tmp_path / "judge.yml"
    path.write_text(json.dumps({**read_yaml(waste.read_text(encoding="utf-8")), "tests": [case]}))
    done = run("test", "rules", *lean(path, tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
