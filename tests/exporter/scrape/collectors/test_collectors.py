from dataclasses import replace

import pytest

from jobfeatures.batch.questions import ClockDifference
from jobfeatures.records.model import JobKey, JobState, Limits
from jobfeatures.status.board import StatusView
from jobfeatures.status.jobstatus import JobStatus
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import FigureSource, GroupKey, JobSample, Kind
from jobfeatures_exporter.scrape import collectors
from jobfeatures_exporter.scrape.collectors import COLLECTORS, collect, jobs
from tests.exporter.seriestext import labelled


def series(context, name):
    """Return label text → value of one metric."""
    families = collect(context, COLLECTORS.keys())
    return {
        text: value
        for family in families
        if family.metric.sample_name == name
        for text, value in labelled(family)
    }


def test_another_run_of_a_job_changes_none_of_its_labels(context):
    key = JobKey("slurm", "12")
    again = replace(context, jobs={**context.jobs, key: replace(context.jobs[key], restarts=7)})
    assert series(again, "batch_job_info") == series(context, "batch_job_info")
    assert series(again, "batch_job_restarts") == {'batch_system="slurm",job_id="12"': 7}


def test_a_failing_collector_costs_its_own_series_only(context, monkeypatch):
    def broken(_context):
        yield from ()
        raise ZeroDivisionError

    monkeypatch.setattr(jobs, "families", broken)
    monkeypatch.setattr(collectors.time, "perf_counter", lambda: 0.0)  # so none is slow
    names = {family.metric.name for family in collect(context, COLLECTORS)}
    assert "batch_job_cpu_seconds" not in names
    assert "batch_node_cpu_seconds" in names
    assert series(context, "batch_exporter_failed_collectors") == {"": 1}
    assert series(context, "batch_exporter_collector_success") == {'collector="jobs"': 0}
    assert series(context, "batch_exporter_collector_duration_seconds").keys() == {'collector="jobs"'}


def test_collectors_that_work_are_counted_and_only_the_slow_one_is_named(context, monkeypatch):
    collect(context, ["node", "jobs"])  # loaded
    monkeypatch.setattr(collectors.time, "perf_counter", iter((0, 0.0625, 1, 1.125)).__next__)
    own = [family for family in collect(context, ["node", "jobs"]) if family.metric in collectors.METRICS]
    assert [(family.metric.name, *labelled(family)) for family in own] == [
        ("batch_exporter_failed_collectors", ("", 0)),
        ("batch_exporter_collectors_duration_seconds", ("", 0.1875)),
        ("batch_exporter_collector_success", ('collector="jobs"', 1)),
        ("batch_exporter_collector_duration_seconds", ('collector="jobs"', 0.125)),
    ]


def test_a_collector_that_is_switched_off_leaves_no_trace(context):
    names = {family.metric.name for family in collect(context, {"node"})}
    own = {metric.name for metric in collectors.METRICS}
    assert all(name.startswith("batch_node_") for name in names - own)


def test_before_the_first_sample_only_what_is_known_is_shown():
    names = {
        family.metric.name for family in collect(Context(now_secs=0), COLLECTORS.keys()) if family.samples
    }
    assert not any(name.startswith(("batch_job", "batch_node")) for name in names)
    assert "batch_exporter_failed_collectors" in names


def test_a_reading_that_could_not_be_made_has_no_series_and_is_not_zero(context):
    spool = 'batch_system="spool",job_id="pilot \\"7\\"\\\\\\n"'
    cpu = series(context, "batch_job_cpu_seconds_total")
    assert cpu[f'{spool},mode="user"'] == 0.5
    assert f'{spool},mode="system"' not in cpu
    assert f'{spool},component="file"' not in series(context, "batch_job_memory_bytes")


def test_unlimited_is_infinite_and_unknown_is_absent(context):
    limits = series(context, "batch_job_wall_limit_seconds")
    assert sorted(limits.values()) == [3600, float("inf")]
    assert 'batch_system="slurm",job_id="99"' not in limits


@pytest.mark.parametrize("ahead_secs", [-300.0, 0.0, 300.0])
def test_remaining_time_does_not_depend_on_whose_clock_is_right(context, ahead_secs):
    """Start and end are by the controller's clock."""
    job = context.jobs[JobKey("slurm", "12")]
    shifted = replace(job, start_secs=job.start_secs + int(ahead_secs))
    slurm = context.sources[0]
    source = replace(slurm, table=replace(slurm.table, clock_ahead_secs=ahead_secs))
    told = replace(context, jobs={**context.jobs, job.key: shifted}, sources=(source, *context.sources[1:]))
    text = 'batch_system="slurm",job_id="12",basis="wall_limit"'
    assert series(told, "batch_job_remaining_seconds")[text] == 3000
    assert series(told, "batch_exporter_source_clock_ahead_seconds") == {'source="slurm"': ahead_secs}


def test_no_job_has_more_time_left_than_its_limit(context):
    """By how much clocks differ is known within half a second, as slurmctld tells whole ones."""
    now = int(context.now_secs)
    difference = ClockDifference()
    difference.learn(now - 100, asked_secs=now - 99.1, answered_secs=now - 99.05)
    assert difference.ahead_secs == pytest.approx(-0.425)
    job = replace(context.jobs[JobKey("slurm", "12")], start_secs=now, limits=Limits(wall_secs=420))
    slurm = context.sources[0]
    source = replace(slurm, table=replace(slurm.table, clock_ahead_secs=difference.ahead_secs))
    for passed_secs, left_secs in ((0.137, 420), (1.137, 420 - 1.137 + 0.425)):
        told = replace(context, now_secs=now + passed_secs, jobs={job.key: job}, sources=(source,))
        remaining = series(told, "batch_job_remaining_seconds")
        text = 'batch_system="slurm",job_id="12",basis="wall_limit"'
        assert remaining[text] == pytest.approx(left_secs)
        assert remaining[text] <= 420


def test_a_suspended_job_s_remaining_time_stands_still(context):
    job = context.jobs[JobKey("slurm", "12")]
    suspended = replace(job, state=JobState.SUSPENDED, ran_secs=600)
    for later_secs in (0, 50):
        told = replace(
            context, now_secs=context.now_secs + later_secs, jobs={**context.jobs, job.key: suspended}
        )
        remaining = series(told, "batch_job_remaining_seconds")
        assert remaining['batch_system="slurm",job_id="12",basis="wall_limit"'] == 3000


def test_jobs_that_have_ended_with_processes_are_counted(context):
    name = "batch_node_ended_jobs_with_processes"
    assert series(context, name) == {"": 0}
    unseen = replace(context, leftovers={JobKey("slurm", "7"): 1.0})
    assert series(unseen, name) == {"": 0}
    leftover = replace(context, leftovers={JobKey("slurm", "12"): context.now_secs - 60})
    assert series(leftover, name) == {"": 1}
    text = 'batch_system="slurm",job_id="12"'
    assert series(leftover, "batch_job_ended_with_processes") == {text: 1}
    assert series(leftover, "batch_job_end_time_seconds")[text] == context.now_secs - 60
    assert text not in series(context, "batch_job_end_time_seconds")
    for gone in ("batch_job_remaining_seconds", "batch_job_kill_waste_core_seconds"):
        assert any('"12"' in text for text in series(context, gone))
        assert not any('"12"' in text for text in series(leftover, gone)), "it is told to run"


def test_remaining_time_stands_under_its_basis(context):
    spool = 'batch_system="spool",job_id="pilot \\"7\\"\\\\\\n"'
    assert series(context, "batch_job_remaining_seconds") == {
        'batch_system="slurm",job_id="12",basis="wall_limit"': 3000,
        'batch_system="slurm",job_id="12",basis="cpu_limit"': (14_400 - 1240.75) / 2.5,
        'batch_system="slurm",job_id="12",basis="shutdown"': 1800,
        'batch_system="slurm",job_id="99",basis="shutdown"': 3600,
        f'{spool},basis="shutdown"': 3600,
        f'{spool},basis="expected_end"': 5000,
        f'{spool},basis="maximum_end"': 6000,
        'batch_system="slurm",job_id="12",basis="minimum"': 1800,
        'batch_system="slurm",job_id="99",basis="minimum"': 3600,
        f'{spool},basis="minimum"': 3600,
    }


# "Date and time that a job must end by": DeadlineTime of the SSS job object, section 5.1.
def test_a_deadline_bounds_remaining_time_with_a_basis_of_its_own(context):
    job = context.jobs[JobKey("slurm", "12")]
    jobs = {**context.jobs, job.key: replace(job, deadline_secs=int(context.now_secs) + 900)}
    found = series(replace(context, jobs=jobs), "batch_job_remaining_seconds")
    assert found['batch_system="slurm",job_id="12",basis="deadline"'] == 900
    assert found['batch_system="slurm",job_id="12",basis="minimum"'] == 900


def test_waste_is_reported_where_the_job_tells_measured_where_its_use_is_known_else_estimated(context):
    batch = JobKey("slurm", "12")  # it works on a card
    found = series(context, "batch_job_kill_waste_core_seconds")
    assert found['batch_system="slurm",job_id="12",basis="estimated"'] == 4 * 600
    context = replace(
        context, jobs={**context.jobs, batch: replace(context.jobs[batch], allocated_gpus=None)}
    )
    spool = 'batch_system="spool",job_id="pilot \\"7\\"\\\\\\n"'
    assert series(context, "batch_job_kill_waste_core_seconds") == {
        'batch_system="slurm",job_id="12",basis="measured"': 1234.5 + 6.25,
        f'{spool},basis="reported"': 500 + 5 * 600,
    }
    assert series(context, "batch_job_draining_waste_core_seconds") == {
        'batch_system="slurm",job_id="12",basis="estimated"': 0,
        f'{spool},basis="reported"': 1200,  # the first end has passed: clamped, and flagged
    }
    assert series(context, "batch_job_draining_waste_overdue") == {f'{spool},basis="reported"': 1}


def test_a_job_that_tells_more_than_its_cpus_can_waste_keeps_its_figure_and_is_flagged(context):
    spool, now = JobKey("spool", 'pilot "7"\\\n'), int(context.now_secs)
    text = 'batch_system="spool",job_id="pilot \\"7\\"\\\\\\n"'
    # It ends in 57 s and holds 8 CPUs; its payloads are said to leave 3 of them idle for an hour.
    status = JobStatus(
        used_cpu=5, first_exp_job_end=now + 3600, last_exp_job_end=now + 4500, add_final_exp_waste=1191,
        last_job_start=now - 600, add_uncom_time=1_000_000,
    )  # fmt: skip
    job = replace(context.jobs[spool], limits=Limits(wall_secs=1057), start_secs=now - 1000)
    only = replace(
        context,
        jobs={spool: job},
        statuses={spool: StatusView(status)},
        snapshot=replace(context.snapshot, jobs={}),
    )
    assert series(only, "batch_job_draining_waste_core_seconds") == {f'{text},basis="reported"': 11_991}
    assert series(only, "batch_job_kill_waste_core_seconds") == {f'{text},basis="reported"': 1_003_000}
    assert series(only, "batch_job_waste_capped_core_seconds") == {
        f'{text},waste="draining"': 456,
        f'{text},waste="kill"': 8000,
    }
    assert series(only, "batch_node_draining_waste_core_seconds") == {'basis="mixed"': 456}
    assert series(only, "batch_node_kill_waste_core_seconds") == {'basis="reported"': 8000}


def test_a_job_that_no_source_knows_is_shown_with_what_the_node_knows(context):
    assert series(context, "batch_job_processes")['batch_system="slurm",job_id="99"'] == 1
    [info] = [text for text in series(context, "batch_job_info") if 'job_id="99"' in text]
    assert 'user=""' in info
    assert 'uid="6002"' in info


def test_a_job_that_has_ended_is_not_shown(context):
    assert not any('job_id="11"' in text for text in series(context, "batch_job_info"))


@pytest.mark.parametrize("shown", [True, False])
def test_process_groups_are_shown_where_asked_for(context, shown):
    found = series(
        replace(context, kinds=frozenset({Kind.BATCH, Kind.GROUP} if shown else {Kind.BATCH})),
        "batch_job_processes",
    )
    assert ('batch_system="none",job_id="321@216000000"' in found) is shown


def test_a_job_without_figures_is_still_told_of(context):
    jobs = {**context.jobs, JobKey("slurm", "50"): context.jobs[JobKey("slurm", "12")]}
    assert any('job_id="50"' in text for text in series(replace(context, jobs=jobs), "batch_job_info"))


def test_every_job_of_a_node_of_five_hundred_is_shown(context):
    template = context.snapshot.jobs[JobKey("slurm", "12")]
    keys = [JobKey("slurm", str(number)) for number in range(500)]
    snapshot = replace(context.snapshot, jobs={key: replace(template, key=key) for key in keys})
    assert len(series(replace(context, snapshot=snapshot), "batch_job_cpu_seconds_total")) == 1000


def test_the_age_of_a_source_is_told_and_absent_before_its_first_answer(context):
    assert series(context, "batch_exporter_source_age_seconds") == {'source="slurm"': 30}
    assert series(context, "batch_exporter_source_up") == {'source="slurm"': 1, 'source="spool"': 0}


def test_an_absurd_limit_does_not_end_the_page(context):
    key = JobKey("slurm", "12")
    job = replace(context.jobs[key], limits=Limits(wall_secs=2**62))
    assert series(replace(context, jobs={key: job}), "batch_job_wall_limit_seconds") == {
        'batch_system="slurm",job_id="12"': 2**62
    }


def test_group_keys_and_job_keys_never_meet():
    assert GroupKey(1, 2) != JobKey("1", "2")


def test_the_time_of_a_core_is_a_jobs_where_no_other_may_use_it(context):
    """By jobs with CPUs 0 to 3, 1 and 5, 1 to 3, on a node with CPUs 0 and 1."""
    name, job = "batch_job_core_cpu_seconds_total", 'batch_system="slurm",job_id="12"'
    assert series(context, name) == {f'{job},core="0"': 14.25}  # user, nice, system, softirq
    snapshot = context.snapshot
    free = JobSample(
        key=JobKey("slurm", "100"), accounting=FigureSource.CGROUP
    )  # may use any, for all we know
    jobs = {**snapshot.jobs, free.key: free}
    assert series(replace(context, snapshot=replace(snapshot, jobs=jobs)), name) == {}


def test_on_cgroup_v1_the_kernels_own_count_is_shown_of_shared_cores_too(context):
    key, snapshot = JobKey("slurm", "12"), context.snapshot
    counted = replace(snapshot.jobs[key], cgroup_version=1, core_nanosecs={1: 2_500_000_000, 2: 0})
    known = replace(context, snapshot=replace(snapshot, jobs={**snapshot.jobs, key: counted}))
    job = 'batch_system="slurm",job_id="12"'
    assert series(known, "batch_job_core_cpu_seconds_total") == {f'{job},core="1"': 2.5, f'{job},core="2"': 0}


def test_what_a_job_counts_has_series_and_what_is_not_known_of_another_has_none(context):
    job = 'batch_system="slurm",job_id="12"'
    assert series(context, "batch_job_oom_kills_total") == {job: 1}
    assert series(context, "batch_job_memory_limit_hits_total") == {job: 174}
    assert series(context, "batch_job_cpu_throttled_seconds_total") == {job: 2.5}
    assert series(context, "batch_job_block_read_bytes_total") == {job: 2**33}
    assert series(context, "batch_job_io_storage_cancelled_bytes_total") == {job: 0}  # known to be none
    assert series(context, "batch_job_cpuset_cpus") == {job: 4}
    assert series(context, "batch_job_pressure_seconds_total") == {
        f'{job},resource="cpu",share="some"': 12.5,
        f'{job},resource="io",share="full"': 0.25,
    }


def test_a_step_has_the_series_of_what_is_known_of_it(context):
    steps = series(context, "batch_job_step_cpu_seconds_total")
    assert {text.partition("step=")[2] for text in steps} == {'"batch",mode="user"', '"batch",mode="system"'}
    assert list(series(context, "batch_job_step_memory_peak_bytes").values()) == [180]


def test_a_command_without_processes_keeps_its_time_only_and_its_name_is_escaped(context):
    job = 'batch_system="slurm",job_id="12"'
    weird = f'{job},command="a \\"b\\"\\n"'
    assert series(context, "batch_job_command_cpu_seconds_total") == {
        weird: 1.5,
        f'{job},command="make"': 7.25,
        f'{job},command="other"': 0.5,
    }
    assert series(context, "batch_job_command_processes") == {weird: 1, f'{job},command="other"': 4}


def test_whole_disks_are_shown_in_base_units_and_partitions_are_not(context):
    assert series(context, "batch_node_disk_read_bytes_total") == {'device="sda"': 80 * 512}
    assert series(context, "batch_node_disk_writes_total") == {'device="sda"': 20}
    assert series(context, "batch_node_disk_io_time_seconds_total") == {'device="sda"': 1.5}
    short = replace(
        context.snapshot.node, disks={"sda": context.snapshot.node.disks["sda"]._replace(stats=(1,))}
    )
    bare = replace(context, snapshot=replace(context.snapshot, node=short))
    assert series(bare, "batch_node_disk_reads_total") == {'device="sda"': 1}
    assert series(bare, "batch_node_disk_writes_total") == {}
