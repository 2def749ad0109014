"""Who knows less of a job says less of it, or says it less precisely, but nothing else. Random jobs."""

import random
from dataclasses import replace

import pytest

from jobfeatures.records.metrics import JOB_CPUS, JOB_INFO, JOB_SAYS_CPUS, JOB_START, NODE_READ_AT
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.families.exposition import Family, render
from jobfeatures_exporter.jobreport.fromnode import report_page
from jobfeatures_exporter.scrape.collectors import allocation, gpus, jobs
from jobfeatures_exporter.top.pages import parse_page
from jobfeatures_exporter.view.hints import BADGES, find_hints, judge_now
from jobfeatures_exporter.view.job import JobIdentity, view_job
from jobfeatures_exporter.view.judge import INSTEAD_OF, LITTLE_USE, WAITS, judge
from jobfeatures_exporter.view.use import GpuUse, JobUse, NodeUse, Place

GIB = 2**30
JOB = ("slurm", "7")
RESOURCES = ("cpu", "io", "memory")
BOUNDS = (0.0, 0.02, 0.05, 0.2, 0.25, 0.4, 0.5, 0.8, 0.9, 0.95, 1.0)


def share(rng):
    """Return a share: a threshold, a little less than one, or any."""
    return rng.choice((rng.choice(BOUNDS), rng.choice(BOUNDS) * 0.98, rng.random()))


def node_use(rng, number, elapsed):
    cpus = rng.choice((1, 2, 4, 8, 64))

    def by_resource():
        return {each: share(rng) * elapsed * rng.choice((0, 0, 1)) for each in RESOURCES}

    return NodeUse(
        place=Place(f"n{number}"),
        elapsed_secs=elapsed,
        allocated_cpus=cpus,
        cpu_secs=share(rng) * cpus * elapsed,
        allocated_memory=8 * GIB,
        memory_peak=share(rng) * 8 * GIB,
        charged_peak=share(rng) * 8 * GIB,
        oom_kills=rng.choice((0, 0, 0, 1)),
        gpus=tuple(
            GpuUse(uuid=f"{number}-{card}", is_allocated=True, busy_secs=share(rng) * elapsed)
            for card in range(rng.choice((0, 0, 1, 3)))
        ),
        stalled_secs=by_resource(),
        all_stalled_secs=by_resource(),
        throttled_secs=share(rng) * elapsed * rng.choice((0, 0, cpus)),
        claimed_cpus=rng.choice((None, share(rng) * cpus)),
        threads=rng.choice((None, rng.randrange(1, 200))),
    )


def job_use(rng):
    """Return a job's use of 1,024 to 8,192 seconds on one to three nodes."""
    elapsed = 2.0 ** rng.randrange(10, 14)  # so that shares of it are exact
    return JobUse(
        batch_system="slurm",
        job_id="7",
        state=rng.choice(("", "COMPLETED", "TIMEOUT", "OUT_OF_MEMORY")),
        start_secs=0,
        seen_until_secs=elapsed,
        nodes=tuple(node_use(rng, number, elapsed) for number in range(rng.randrange(1, 4))),
    )


FORGOTTEN = {
    "cpu_secs": None,
    "allocated_cpus": None,
    "memory_peak": None,
    "charged_peak": None,
    "allocated_memory": None,
    "oom_kills": None,
    "throttled_secs": None,
    "claimed_cpus": None,
    "threads": None,
}


def without(use, names):
    changes = {name: FORGOTTEN[name] for name in names if name in FORGOTTEN}
    if "stalled" in names:
        changes |= {"stalled_secs": {}, "all_stalled_secs": {}}
    nodes = [replace(node, **changes) for node in use.nodes]
    if "busy" in names:
        nodes = [
            replace(node, gpus=tuple(replace(card, busy_secs=None) for card in node.gpus)) for node in nodes
        ]
    return replace(use, nodes=tuple(nodes))


def is_told_by(other, name):
    """Return whether advice of the other name says what this one's does, or says better what it says."""
    return other == name or name in INSTEAD_OF.get(other, ()) or (other in WAITS and name in LITTLE_USE)


def test_what_is_found_without_some_figures_is_found_with_them_or_told_more_precisely():
    for seed in range(3000):
        rng = random.Random(seed)
        use = job_use(rng)
        forgotten = rng.sample([*FORGOTTEN, "stalled", "busy"], rng.randrange(1, 4))
        with_all = {each.name for each in judge(use)}
        for each in judge(without(use, forgotten)):
            assert any(is_told_by(other, each.name) for other in with_all), (seed, each, forgotten, with_all)


@pytest.mark.parametrize("seed", range(200))
def test_the_page_finds_of_a_job_what_its_report_does_of_what_badges_say(seed):
    rng = random.Random(seed)
    use = job_use(rng)
    elapsed, node = use.seen_until_secs, use.nodes[0]
    families = [
        Family(NODE_READ_AT, [((), elapsed)]),
        Family(JOB_INFO, [((*JOB, *[""] * (len(JOB_INFO.label_names) - 2)), 1)]),
        Family(JOB_START, [(JOB, 0)]),
        Family(JOB_CPUS, [(JOB, node.allocated_cpus)]),
        Family(jobs.CPU, [((*JOB, "user"), node.cpu_secs), ((*JOB, "system"), 0)]),
        Family(allocation.MEMORY, [(JOB, node.allocated_memory)]),
        Family(jobs.USED, [(JOB, node.memory_peak)]),
        Family(
            jobs.PRESSURE,
            [((*JOB, each, "some"), secs) for each, secs in node.stalled_secs.items()]
            + [((*JOB, each, "full"), secs) for each, secs in node.all_stalled_secs.items()],
        ),
        Family(gpus.JOB_ALLOCATED, [((*JOB, card.uuid), 1) for card in node.gpus]),
        Family(gpus.JOB_BUSY, [((*JOB, card.uuid), card.busy_secs) for card in node.gpus]),
        Family(gpus.BUSY, [((card.uuid,), card.busy_secs) for card in node.gpus]),
        Family(gpus.UTILIZATION, [((card.uuid,), card.busy_secs / elapsed) for card in node.gpus]),
    ]
    if node.claimed_cpus is not None:
        families.append(Family(JOB_SAYS_CPUS, [(JOB, node.claimed_cpus)]))
    text = render(families, openmetrics=False).decode()
    (report,) = report_page(text, "7", node="n0", now_secs=elapsed).reports
    of_report = {each.name for each in judge(report)}

    def on_page(cpus_now):
        return view_job(parse_page(text), JobKey(*JOB), JobIdentity(), now_secs=elapsed, cpus_now=cpus_now)

    steady = on_page(None)
    assert {each.name for each in judge_now(steady)} & BADGES.keys() == of_report & BADGES.keys()
    now = on_page(share(rng) * node.allocated_cpus)
    assert {each.name for each in judge_now(now)} & BADGES.keys() <= of_report
    words = {each.words for each in find_hints(now)}
    assert "memory near its limit" not in words or "memory_near_limit" in of_report
