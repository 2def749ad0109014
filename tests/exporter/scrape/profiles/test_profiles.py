"""Names, labels and units of the other exporters. Pages stand in tests/fixtures/golden/profiles.

After a change that is meant: JOBFEATURES_WRITE_GOLDEN=1 pytest tests/exporter/profiles
"""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from jobfeatures.records.model import UNLIMITED, JobKey, Limits
from jobfeatures_exporter.families.exposition import render
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import GroupKey, JobSample, Kind
from jobfeatures_exporter.scrape.pagetext import PageMaker
from jobfeatures_exporter.scrape.profiles import PROFILES, ceems, read_profiles, to_families
from tests.exporter.seriestext import labelled

GOLDEN = Path(__file__).parents[3] / "fixtures/golden/profiles"
V2 = 'cgroup="/system.slice/slurmstepd.scope/job_1234"'
V1 = 'cgroup="/slurm/uid_6002/job_77"'


def families(context, *names):
    readings, _ = read_profiles(context, names)
    return to_families(reading for made in readings.values() for reading in made)


def series(context, *names):
    found = {}
    for family in families(context, *names):
        for text, value in labelled(family):
            key = f"{family.metric.sample_name}{{{text}}}"
            assert key not in found
            found[key] = value
    return found


@pytest.mark.parametrize("name", PROFILES)
def test_the_page_is_the_golden_one(context, name):
    text = render(families(context, name), openmetrics=False).decode()
    if os.environ.get("JOBFEATURES_WRITE_GOLDEN"):
        (GOLDEN / f"{name}.txt").write_text(text, encoding="utf-8")
    assert text == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PROFILES)
def test_every_declared_metric_is_in_the_golden_page_with_its_labels(context, name):
    found = {family.metric: family for family in families(context, name)}
    assert set(found) == set(PROFILES[name].metrics)
    for metric, family in found.items():
        assert {len(values) for values, _ in family.samples} == {len(metric.label_names)}


@pytest.mark.parametrize("name", PROFILES)
def test_prometheus_client_reads_it_in_both_formats(context, name):
    made = families(context, name)
    text = list(parse_text(render(made, openmetrics=False).decode()))
    assert len(text) == len(made)
    assert len(list(parse_openmetrics(render(made, openmetrics=True).decode()))) == len(made)


def test_a_counter_without_the_suffix_is_a_counter_in_text_and_unknown_in_openmetrics(context):
    made = families(context, "treydock")
    kinds = {each.name: each.type for each in parse_openmetrics(render(made, openmetrics=True).decode())}
    assert kinds["cgroup_cpu_user_seconds"] == "unknown"
    assert kinds["cgroup_cpu_pressure_seconds"] == "counter"
    assert "# TYPE cgroup_cpu_user_seconds counter\n" in render(made, openmetrics=False).decode()


def test_all_profiles_together_are_one_page_that_can_be_read(context):
    made = families(context, *PROFILES)
    page = render(made, openmetrics=True).decode()
    assert len(list(parse_openmetrics(page))) == len({family.metric.name for family in made}) < len(made)
    lines = [line.rpartition(" ")[0] for line in page.splitlines() if line[0] != "#"]
    assert len(set(lines)) == len(lines)


def test_of_two_that_share_a_name_the_first_tells_its_kind(context):
    page = render(families(context, "jobstats", "treydock"), openmetrics=False).decode()
    kinds = [line for line in page.splitlines() if line.startswith("# TYPE cgroup_cpu_user_seconds ")]
    assert kinds == ["# TYPE cgroup_cpu_user_seconds counter"]  # treydock's, which stands first in the table


def test_names_of_two_profiles_are_told_apart_by_the_labels_that_the_page_says(context):
    """Else each sum counts a job twice: docs/metrics-profiles.md selects by cgroup or by jobid."""
    shared = {each.sample_name for each in PROFILES["treydock"].metrics}
    shared &= {each.sample_name for each in PROFILES["jobstats"].metrics}
    found = [each for each in series(context, "treydock", "jobstats") if each.partition("{")[0] in shared]
    by_group = [each for each in found if "{cgroup=" in each]
    by_job = [each for each in found if "{jobid=" in each]
    assert len(by_group) > 10
    assert len(by_job) > 10
    assert sorted(by_group + by_job) == sorted(found)
    assert sorted(by_group) == sorted(each for each in series(context, "treydock") if each in by_group)
    assert not set(by_job) & series(context, "treydock").keys()


@pytest.mark.parametrize("name", PROFILES)
def test_before_the_first_look_there_is_nothing(name):
    assert families(Context(now_secs=0), name) == []


@pytest.mark.parametrize("name", PROFILES)
def test_what_is_not_known_has_no_series(context, name):
    bare = JobSample(
        key=JobKey("slurm", "1"), accounting=context.snapshot.jobs[JobKey("slurm", "77")].accounting
    )
    empty = replace(
        context,
        jobs={},
        sysinfo=None,
        snapshot=replace(context.snapshot, jobs={bare.key: bare}, gpus=(), job_gpus=(), node=None),
    )
    named = {
        "slurm_job_process_count",
        "namedprocess_namegroup_num_procs",
        "namedprocess_namegroup_num_threads",
    }
    assert {family.metric.name for family in families(empty, name)} <= named


def test_a_profile_that_fails_costs_its_own_series_only(context, monkeypatch):
    def broken(_view, _sample):
        yield from ()
        raise ZeroDivisionError

    monkeypatch.setattr(ceems, "of_job", broken)
    readings, success = read_profiles(context, PROFILES)
    assert dict(success.samples)[("ceems",)] == 0
    assert sum(value for _, value in success.samples) == len(PROFILES) - 1
    names = {metric.name for made in readings.values() for metric, _, _ in made}
    assert "ceems_compute_units" not in names
    assert "slurm_job_memory_usage" in names


def test_a_page_shows_them_beside_our_own_names_where_asked_for(context):
    names = {family.metric.name for family in PageMaker({"jobs"}, ("treydock",), 20_000).families(context)}
    assert {"cgroup_info", "batch_job_cpu_seconds", "batch_exporter_profile_success"} <= names
    names = {family.metric.name for family in PageMaker({"jobs"}, (), 20_000).families(context)}
    assert not {"cgroup_info", "batch_exporter_profile_success"} & names


def test_a_job_beyond_the_budget_has_none_of_their_series_either(context):
    full = PageMaker({"jobs"}, PROFILES, 0).families(context)
    size = sum(len(family.samples) for family in full)
    marks = ("1234", "77", "5.ser", "no-group")

    def count(made, mark):
        return sum(mark in text for family in made for text, _ in labelled(family))

    seen = set()
    for max_series in range(40, size, 10):
        made = PageMaker({"jobs"}, PROFILES, max_series).families(context)
        assert sum(len(family.samples) for family in made) <= max_series
        for mark in marks:
            assert count(made, mark) in {0, count(full, mark)}
            seen.add((mark, count(made, mark) > 0))
    assert seen == {(mark, shown) for mark in marks for shown in (True, False)}


def test_on_v2_each_core_of_a_slurm_job_has_an_equal_part_of_its_cpu_time_as_in_the_original(context):
    job = 'user="alice",account="phys",slurmjobid="1234"'
    jobs = dict(context.snapshot.jobs)  # others share its cores, and where one of them runs is not known
    jobs[JobKey("pbs", "5")] = replace(jobs[JobKey("pbs", "5")], cpu_numbers=None)
    found = series(replace(context, snapshot=replace(context.snapshot, jobs=jobs)), "slurm-job-exporter")
    cores = {name: value for name, value in found.items() if f"core_usage_total{{{job}" in name}
    part = 62.75e9 / 8
    assert cores == {f'slurm_job_core_usage_total{{{job},core="{core}"}}': part for core in range(8)}


def without_limit(context, key, *, allocated=None, **of_steps):
    """Return the context with a job whose control group has no memory limit."""
    one = context.snapshot.jobs[key]
    one = replace(one, memory=one.memory._replace(limit=None), **of_steps)
    job = replace(context.jobs[key], limits=Limits(memory_bytes=allocated))
    return replace(
        context,
        jobs={**context.jobs, key: job},
        snapshot=replace(context.snapshot, jobs={**context.snapshot.jobs, key: one}),
    )


def test_jobstats_has_the_allocated_memory_of_a_job_whose_group_has_no_limit_and_else_minus_one(context):
    name, key = "cgroup_memory_total_bytes", JobKey("slurm", "1234")
    steps = [
        replace(each, memory=each.memory._replace(limit=None)) for each in context.snapshot.jobs[key].steps
    ]
    for allocated, shown in ((2**32, 2**32), (None, -1), (UNLIMITED, -1)):
        found = series(without_limit(context, key, allocated=allocated, steps=tuple(steps)), "jobstats")
        assert found[f'{name}{{jobid="1234",step="",task=""}}'] == shown
        assert found[f'{name}{{jobid="1234",step="batch",task=""}}'] == shown
        assert f'{name}{{jobid="1234",step="0",task=""}}' not in found  # its memory is not known at all
    limited = series(without_limit(context, JobKey("slurm", "77"), allocated=2**32), "jobstats")
    assert limited[f'{name}{{jobid="1234",step="",task=""}}'] == 2**31
    assert limited[f'{name}{{jobid="77",step="",task=""}}'] == 2**32  # on v1 too
    step = replace(context.snapshot.jobs[key].steps[0], memory=steps[0].memory)
    found = series(replace(context, snapshot=replace(context.snapshot, jobs={
        key: replace(context.snapshot.jobs[key], steps=(step,))})), "jobstats")  # fmt: skip
    assert found[f'{name}{{jobid="1234",step="batch",task=""}}'] == 2**31  # its job's limit holds for it


def test_slurm_job_exporter_has_the_allocated_memory_of_a_job_whose_group_has_no_limit(context):
    name = 'slurm_job_memory_limit{user="alice",account="phys",slurmjobid="1234"}'
    key = JobKey("slurm", "1234")
    assert series(context, "slurm-job-exporter")[name] == 2**31
    assert series(without_limit(context, key, allocated=2**32), "slurm-job-exporter")[name] == 2**32
    assert name not in series(without_limit(context, key), "slurm-job-exporter")  # a sum takes no -1


def test_ceems_has_the_nodes_memory_for_a_job_whose_group_has_no_limit(context):
    unit = 'manager="slurm",hostname="node1",cgrouphostname="",uuid="1234"'
    name = f"ceems_compute_unit_memory_total_bytes{{{unit}}}"
    unlimited = without_limit(context, JobKey("slurm", "1234"), allocated=2**32)
    assert series(context, "ceems")[name] == 2**31
    assert series(unlimited, "ceems")[name] == 2**37
    unknown = replace(unlimited, snapshot=replace(unlimited.snapshot, node=None))
    assert name not in series(unknown, "ceems")


def test_open_files_are_told_of_groups_of_which_each_process_can_be_read(context):
    name = 'namedprocess_namegroup_open_filedesc{groupname="slurm/1234"}'
    assert series(context, "process-exporter")[name] == 10 + 11 + 12 + 13
    known = {pid: each for pid, each in context.snapshot.open_files.items() if pid != 103}
    fewer = replace(context, snapshot=replace(context.snapshot, open_files=known))
    assert name not in series(fewer, "process-exporter")


# --- values, computed by hand from conftest.py ---------------------------------------


def test_treydock_memory_means_what_it_means_there_on_each_version(context):
    found = series(context, "treydock")
    assert found[f"cgroup_memory_rss_bytes{{{V2}}}"] == 1000 + 200 + 30
    assert found[f"cgroup_memory_rss_bytes{{{V1}}}"] == 1000
    assert found[f"cgroup_memory_cache_bytes{{{V2}}}"] == 200 + 30
    assert found[f"cgroup_memory_used_bytes{{{V2}}}"] == 1234
    assert found[f"cgroup_memory_total_bytes{{{V2}}}"] == 2**31
    assert found[f"cgroup_memsw_used_bytes{{{V2}}}"] == 50
    assert found[f"cgroup_memsw_used_bytes{{{V1}}}"] == 1234 + 50
    assert found[f"cgroup_memory_fail_count{{{V1}}}"] == 4
    assert found[f"cgroup_memory_fail_count{{{V2}}}"] == 3  # which counts something else, there as here


def test_treydock_cpu_is_in_seconds_and_its_total_only_where_both_parts_are_known(context):
    found = series(context, "treydock")
    assert found[f"cgroup_cpu_total_seconds{{{V2}}}"] == 62.75
    assert found[f"cgroup_cpu_user_seconds{{{V1}}}"] == 1
    assert f"cgroup_cpu_total_seconds{{{V1}}}" not in found
    assert found[f'cgroup_cpu_pressure_seconds_total{{{V2},type="some"}}'] == 3.5
    assert found[f'cgroup_info{{{V2},username="alice",uid="6001",jobid="1234"}}'] == 1


def test_jobs_without_a_control_group_are_unknown_to_exporters_of_control_groups(context):
    for name in ("treydock", "ceems"):
        assert not any("no-group" in each for each in series(context, name))


def test_jobstats_has_a_series_for_the_job_and_for_each_step(context):
    found = series(context, "jobstats")
    cpu = "cgroup_cpu_total_seconds"
    assert found[f'{cpu}{{jobid="1234",step="",task=""}}'] == 62.75
    assert found[f'{cpu}{{jobid="1234",step="batch",task=""}}'] == 10.5
    assert f'{cpu}{{jobid="1234",step="0",task=""}}' not in found
    assert found['cgroup_uid{jobid="1234"}'] == 6001
    assert found['cgroup_memory_rss_bytes{jobid="1234",step="",task=""}'] == 1000


def test_jobstats_power_is_in_milliwatts_and_cards_carry_their_job(context):
    found = series(context, "jobstats")
    card = 'ordinal="0",minor_number="3",uuid="GPU-aa",name="H200",GPU_I_ID="",jobid="1234",userid="6001"'
    assert found[f"nvidia_gpu_power_usage_milliwatts{{{card}}}"] == 351_500
    assert found[f"nvidia_gpu_duty_cycle{{{card}}}"] == 97
    assert found[f"nvidia_gpu_memory_total_bytes{{{card}}}"] == 137_438_953_472
    assert found[f"nvidia_gpu_jobId{{{card}}}"] == 1234
    idle = 'ordinal="1",minor_number="4",uuid="GPU-bb",name="H200",GPU_I_ID="",jobid="",userid=""'
    assert found[f"nvidia_gpu_power_usage_milliwatts{{{idle}}}"] == 70_250
    assert found["nvidia_gpu_num_devices{}"] == 2  # an instance is not a card
    mig = [each for each in found if "MIG-cc" in each]
    assert all('ordinal="1",minor_number="4"' in each and 'GPU_I_ID="9"' in each for each in mig)
    [power] = [each for each in mig if "milliwatts" in each]
    assert found[power] == 70_250  # its card's


def test_two_jobs_that_jobstats_cannot_tell_apart_do_not_spoil_the_page(context):
    one = context.snapshot.jobs[JobKey("slurm", "77")]
    twin = replace(one, key=JobKey("pbs", "77"))
    snapshot = replace(context.snapshot, jobs={one.key: one, twin.key: replace(twin, user_cpu_secs=9.0)})
    assert (
        series(replace(context, snapshot=snapshot), "jobstats")[
            'cgroup_cpu_user_seconds{jobid="77",step="",task=""}'
        ]
        == 1
    )


def test_slurm_job_exporter_shows_slurms_jobs_only_in_bytes_and_milliwatts(context):
    found = series(context, "slurm-job-exporter")
    job = 'user="alice",account="phys",slurmjobid="1234"'
    assert found[f"slurm_job_memory_usage{{{job}}}"] == 1234
    assert found[f"slurm_job_memory_max{{{job}}}"] == 2000
    assert found[f"slurm_job_memory_cache{{{job}}}"] == 230
    assert found[f'slurm_job_power_gpu{{{job},gpu="0",gpu_type="H200"}}'] == 351_500
    assert found[f'slurm_job_memory_usage_gpu{{{job},gpu="MIG-cc",gpu_type="H200 MIG 1g.18gb"}}'] == 2**20
    assert not any('slurmjobid="5"' in each for each in found)


def test_slurm_job_exporters_memory_utilisation_is_how_busy_memory_is_not_how_full(context):
    found = series(context, "slurm-job-exporter")
    card = 'user="alice",account="phys",slurmjobid="1234",gpu="0",gpu_type="H200"'
    assert found[f"slurm_job_utilization_gpu_memory{{{card}}}"] == 31
    assert not any("utilization_gpu_memory" in each and "MIG-cc" in each for each in found)


def test_slurm_job_exporter_counts_neither_slurmstepd_nor_the_script(context):
    found = series(context, "slurm-job-exporter")
    job = 'user="alice",account="phys",slurmjobid="1234"'
    assert found[f"slurm_job_process_count{{{job}}}"] == 2
    assert found[f'slurm_job_threads_count{{{job},state="running"}}'] == 1  # each thread by its own state
    assert found[f'slurm_job_threads_count{{{job},state="sleeping"}}'] == 5
    assert found[f'slurm_job_threads_count{{{job},state="disk-sleep"}}'] == 1
    name = f"slurm_job_threads_count{{{job}"
    assert not any(each.startswith(name) for each in series(without_a_process(context), "slurm-job-exporter"))


def test_slurm_job_exporter_names_a_program_by_its_path_and_leaves_shells_out(context):
    job = 'user="alice",account="phys",slurmjobid="1234"'
    found = series(context, "slurm-job-exporter")
    used = {name: value for name, value in found.items() if name.startswith("slurm_job_process_usage_total")}
    assert used == {f'slurm_job_process_usage_total{{{job},exe="/cvmfs/soft/bin/python3.11"}}': 61.5}


def without_a_process(context):
    """Return the context with a process whose threads could not be read."""
    known = {pid: each for pid, each in context.snapshot.thread_states.items() if pid != 103}
    return replace(context, snapshot=replace(context.snapshot, thread_states=known))


def test_ceems_names_the_manager_and_the_host(context):
    found = series(context, "ceems")
    unit = 'manager="slurm",hostname="node1",cgrouphostname="",uuid="1234"'
    assert found[f"ceems_compute_unit_cpu_user_seconds_total{{{unit}}}"] == 60.5
    assert found[f"ceems_compute_unit_memory_rss_bytes{{{unit}}}"] == 1000
    assert found[f"ceems_compute_unit_cpu_psi_seconds{{{unit}}}"] == 1.5  # the share "full"
    assert found[f'ceems_compute_unit_blkio_read_total_bytes{{{unit},device=""}}'] == 10
    assert found['ceems_compute_units{manager="slurm",hostname="node1"}'] == 2
    assert found['ceems_compute_units{manager="openpbs",hostname="node1"}'] == 1
    flag = f'{unit},index="0",hindex="node1/gpu-0",gpuuuid="GPU-aa",gpuiid=""'
    assert found[f"ceems_compute_unit_gpu_index_flag{{{flag}}}"] == 1
    # CEEMS' rules join these two with DCGM's, which names an instance by its card and number.
    instance = f'{unit},index="1",hindex="node1/gpu-1",gpuuuid="GPU-bb",gpuiid="9"'
    assert found[f"ceems_compute_unit_gpu_index_flag{{{instance}}}"] == 1


def test_process_exporters_groups_are_jobs(context):
    found = series(context, "process-exporter")
    group = 'groupname="slurm/1234"'
    assert found[f'namedprocess_namegroup_cpu_seconds_total{{{group},mode="user"}}'] == 60.5
    assert found[f"namedprocess_namegroup_read_bytes_total{{{group}}}"] == 700
    assert found[f'namedprocess_namegroup_memory_bytes{{{group},memtype="resident"}}'] == 38_192
    assert found[f'namedprocess_namegroup_memory_bytes{{{group},memtype="virtual"}}'] == 4 * 2**20
    # 5,000 ticks of 10 ms after boot is the oldest
    assert found[f"namedprocess_namegroup_oldest_start_time_seconds{{{group}}}"] == 1_799_000_050
    # Each process by its own state, and if it has several threads each of these as well, as there.
    states = {"Running": 1 + 1, "Sleeping": 2 + 3 + 2, "Waiting": 1 + 1, "Zombie": 0, "Other": 0}
    for state, count in states.items():
        assert found[f'namedprocess_namegroup_states{{{group},state="{state}"}}'] == count
    fewer = series(without_a_process(context), "process-exporter")
    assert not any(each.startswith(f"namedprocess_namegroup_states{{{group}") for each in fewer)


def test_process_exporter_shows_process_groups_where_they_are_shown(context):
    key = GroupKey(321, 216_000_000)
    lone = JobSample(key=key, accounting=context.snapshot.jobs[JobKey("spool", "no-group")].accounting)
    snapshot = replace(context.snapshot, jobs={**context.snapshot.jobs, key: lone})
    shown = replace(context, snapshot=snapshot, kinds=frozenset(Kind))
    name = 'namedprocess_namegroup_num_procs{groupname="none/321@216000000"}'
    assert name in series(shown, "process-exporter")
    assert name not in series(replace(shown, kinds=frozenset({Kind.BATCH})), "process-exporter")


@pytest.mark.program
@pytest.mark.parametrize("name", PROFILES)
def test_promtool_finds_the_page_well_formed(name):
    """It dislikes some of these names, as anybody may; it must not fail to read them."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    page = (GOLDEN / f"{name}.txt").read_bytes()
    done = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False)
    said = (done.stdout + done.stderr).decode()
    assert "error while linting" not in said
    assert "parsing" not in said
