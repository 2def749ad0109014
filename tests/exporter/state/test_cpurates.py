from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import CpuSecs, FigureSource, JobSample, NodeSample, Snapshot
from jobfeatures_exporter.state.cpurates import CpuRates

KEY = JobKey("slurm", "1")


def look(used: float | None, at: float) -> Snapshot:
    jobs = {}
    if used is not None:
        jobs[KEY] = JobSample(
            key=KEY, accounting=FigureSource.CGROUP, user_cpu_secs=used, system_cpu_secs=0.0
        )
    return Snapshot(taken_at_secs=0, duration_secs=0, node=None, jobs=jobs, read_at_secs=at)


def test_a_rate_is_cpu_seconds_a_second_over_two_looks():
    rates = CpuRates()
    assert rates.update(look(100.0, 0.0)) == {}
    assert rates.update(look(120.0, 10.0)) == {KEY: 2.0}
    assert rates.update(look(125.0, 20.0)) == {KEY: 0.5}


def test_looks_that_are_close_together_are_not_compared():
    rates = CpuRates()
    rates.update(look(100.0, 0.0))
    assert rates.update(look(100.5, 0.5)) == {}
    assert rates.update(look(110.0, 10.0)) == {KEY: 1.0}


def test_a_job_that_came_later_or_whose_counter_fell_has_no_rate_yet():
    rates = CpuRates()
    rates.update(look(None, 0.0))
    assert rates.update(look(5.0, 10.0)) == {}
    assert rates.update(look(1.0, 20.0)) == {}
    assert rates.update(look(11.0, 30.0)) == {KEY: 1.0}


def node_look(at: float, *secs: float, cpus: int = 2) -> Snapshot:
    """Return a look at a node whose modes have these seconds: user, idle, iowait, steal."""
    user, idle, iowait, steal = secs
    cpu = CpuSecs(user, 0.0, 0.0, idle, iowait, 0.0, 0.0, steal)
    node = NodeSample(cpu=cpu, cores=dict.fromkeys(range(cpus), cpu))
    return Snapshot(taken_at_secs=0, duration_secs=0, node=node, jobs={}, read_at_secs=at)


def test_the_node_is_busy_with_all_but_idling_and_waiting():
    rates = CpuRates()
    rates.update(node_look(0.0, 100.0, 50.0, 7.0, 1.0))
    assert rates.node_busy_cpus is None
    rates.update(node_look(10.0, 114.0, 52.0, 10.0, 2.0))
    assert rates.node_busy_cpus == 1.5


def test_a_reading_that_came_late_makes_no_node_busier_than_it_can_be():
    rates = CpuRates()
    rates.update(node_look(0.0, 100.0, 50.0, 7.0, 1.0))
    rates.update(node_look(5.0, 122.0, 50.0, 7.0, 1.0))  # 11 s of two CPUs, told as if 5 s had passed
    assert rates.node_busy_cpus == 2.0


def test_a_job_uses_no_more_cpus_than_the_node_has():
    rates = CpuRates()
    for at, used in ((0.0, 0.0), (5.0, 22.0)):
        job = look(used, at)
        rated = rates.update(replace(node_look(at, used, 0.0, 0.0, 0.0), jobs=job.jobs))
    assert rated == {KEY: 2.0}


def test_a_node_whose_waiting_time_fell_is_no_more_than_busy():
    rates = CpuRates()
    rates.update(node_look(0.0, 100.0, 50.0, 7.0, 1.0))
    rates.update(node_look(10.0, 119.0, 50.0, 6.5, 1.0))
    assert rates.node_busy_cpus == 2.0


def test_a_node_that_cannot_be_read_or_whose_counters_fell_is_not_known_to_be_idle():
    rates = CpuRates()
    rates.update(node_look(0.0, 100.0, 50.0, 7.0, 1.0))
    rates.update(look(None, 10.0))
    assert rates.node_busy_cpus is None
    rates.update(node_look(20.0, 3.0, 50.0, 7.0, 1.0))
    assert rates.node_busy_cpus is None
    rates.update(node_look(30.0, 13.0, 60.0, 7.0, 1.0))
    assert rates.node_busy_cpus == 1.0


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.01, 50)), max_size=30))
def test_a_rate_never_exceeds_the_fastest_use_and_is_never_negative(steps):
    rates = CpuRates()
    at, used, fastest = 0.0, 0.0, 0.0
    rates.update(look(used, at))
    for more, elapsed in steps:
        at, used = at + elapsed, used + more
        fastest = max(fastest, more / elapsed)
        for rate in rates.update(look(used, at)).values():
            assert 0 <= rate <= fastest * 1.000001


def test_another_run_that_has_used_more_than_the_last_one_has_no_rate_yet():
    rates = CpuRates()
    rates.update(look(100.0, 0.0))
    later = look(120.0, 10.0)
    another = replace(later, jobs={KEY: replace(later.jobs[KEY], run=1)})
    assert rates.update(another) == {}
