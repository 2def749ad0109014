import re
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.features.job import (
    Terms,
    compute_normalized,
    compute_share,
    job_features,
)
from jobfeatures.features.keys import KEYS, Area, MjfProfile, names_in
from jobfeatures.features.machine import Machine, machine_features
from jobfeatures.records.model import UNLIMITED, Job, JobKey, Limits


def test_all_that_is_known_is_told(make_job):
    job = make_job(
        allocated_cpus=4,
        start_secs=1_795_246_160,
        limits=Limits(wall_secs=10800, cpu_secs=43200, memory_bytes=2**31, swap_bytes=0, scratch_bytes=5),
    )
    assert job_features(job, Machine(total_cpus=16, hs06="171.04")) == {
        "allocated_cpu": "4",
        "hs06_job": "42.76",
        "job_id": "12",
        "jobstart_secs": "1795246160",
        "wall_limit_secs": "10800",
        "cpu_limit_secs": "43200",
        "max_rss_bytes": "2147483648",
        "max_swap_bytes": "0",
        "scratch_limit_bytes": "5",
    }


@pytest.mark.parametrize(
    ("schedd", "job_id", "number"),
    [("s@pool", "7.0@s@pool", "7.0"), (None, "7.0@None", "7.0@None"), ("s", "@s7.0@s", "@s7.0")],
)
def test_a_job_is_told_its_number_without_its_schedd(make_job, schedd, job_id, number):
    assert job_features(make_job(job_id, schedd=schedd), Machine())["job_id"] == number


@pytest.mark.parametrize(
    ("nodes", "here", "told"),
    [
        (("n1", "n2"), 2, "840"),  # of the wall limit times all 8 CPUs, which no 2 can use
        ((), 2, "840"),
        (("n1", "n2"), 0, None),
        (("n1",), 8, "3360"),
        (("n1",), 2, "3360"),
    ],
)
def test_of_a_job_on_several_nodes_the_cpu_limit_is_that_of_the_cpus_here(make_job, nodes, here, told):
    job = make_job(
        nodes=nodes, total_cpus=8, allocated_cpus=here, limits=Limits(wall_secs=420, cpu_secs=3360)
    )
    values = job_features(job, Machine(), terms=Terms(cpu_factor="2", profile=MjfProfile.BOTH))
    assert values.get("cpu_limit_secs") == told
    assert values.get("cpu_limit_secs_lrms") == (None if told is None else str(2 * int(told)))


def test_unknown_and_unlimited_have_no_key(make_job):
    job = make_job(limits=Limits(wall_secs=UNLIMITED, cpu_secs=UNLIMITED))
    assert job_features(job, Machine()) == {"job_id": "12"}


@pytest.mark.parametrize("job_id", ["a b", "ü", "a\nb", ""])
def test_an_id_that_is_not_printable_ascii_is_not_told(job_id):
    assert "job_id" not in job_features(Job(key=JobKey("spool", job_id)), Machine())


@pytest.mark.parametrize(
    ("machine", "cpus", "rating"),
    [
        (Machine(total_cpus=16, hs06="171.04"), 4, "42.76"),
        (Machine(total_cpus=3, hs06="10"), 1, "3.3333"),
        (Machine(total_cpus=1, hs06="10"), 1, "10"),
        (Machine(total_cpus=2, hs06="0.0001"), 1, "0"),  # half to even
        (Machine(total_cpus=2, hs06="0.0003"), 1, "0.0002"),
        (Machine(total_cpus=2, hs06="0.0005"), 1, "0.0002"),
        (Machine(total_cpus=2, hs06="0.0007"), 1, "0.0004"),
        (Machine(total_cpus=0, hs06="10"), 1, None),
        (Machine(total_cpus=16), 4, None),
        (Machine(hs06="10"), 4, None),
        (Machine(total_cpus=16, hs06="10"), None, None),
    ],
)
def test_a_job_s_rating_is_its_share_of_the_machine(machine, cpus, rating):
    assert compute_share(machine.hs06, machine.total_cpus, cpus) == rating


def test_a_machine_tells_what_it_knows():
    assert machine_features(Machine(total_cpus=16, hs06="171.04"), now_secs=0) == {
        "total_cpu": "16",
        "hs06": "171.04",
    }
    assert machine_features(Machine(), now_secs=0) == {}


numbers = st.none() | st.integers(0, 2**63 - 1) | st.just(UNLIMITED)


@given(
    st.builds(Limits, wall_secs=numbers, cpu_secs=numbers, memory_bytes=numbers),
    st.none() | st.integers(0, 9999),
)
def test_every_value_is_one_line_of_a_known_key(limits, cpus):
    known = {key.name: key for key in KEYS if key.area is Area.JOB}
    job = Job(key=JobKey("slurm", "1"), limits=limits, allocated_cpus=cpus)
    for name, value in job_features(job, Machine(total_cpus=7, hs06="10.5")).items():
        form = {"integer": r"[0-9]+", "decimal": r"[0-9]+(\.[0-9]+)?", "text": r"[!-~]+"}[
            known[name].value_type
        ]
        assert re.fullmatch(form, value)


def test_names_are_legal_in_the_text_of_2016():
    for area in Area:
        assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in names_in(area, MjfProfile.OF_2016))
    assert len({(key.area, key.name) for key in KEYS}) == len(KEYS)


@pytest.mark.parametrize(
    ("name", "profiles"),
    [
        ("total_cpu", {MjfProfile.OF_2016, MjfProfile.BOTH}),
        ("jobslots", {MjfProfile.OF_2014, MjfProfile.BOTH}),
        ("hs06", set(MjfProfile)),
        ("hs23", set(MjfProfile)),  # of neither text
    ],
)
def test_a_key_is_in_the_profiles_of_its_texts_and_one_of_neither_in_all(name, profiles):
    [key] = (key for key in KEYS if key.name == name)
    assert {profile for profile in MjfProfile if key.is_in(profile)} == profiles


MACHINE_2016 = {"total_cpu", "hs06", "shutdowntime", "grace_secs"}
MACHINE_2014 = {"hs06", "shutdowntime", "jobslots", "phys_cores", "log_cores", "shutdown_command"}
JOB_2016 = {
    *("allocated_cpu", "hs06_job", "shutdowntime_job", "grace_secs_job", "jobstart_secs", "job_id"),
    *("wall_limit_secs", "cpu_limit_secs", "max_rss_bytes", "max_swap_bytes", "scratch_limit_bytes"),
}
JOB_2014 = {
    *("cpufactor_lrms", "cpu_limit_secs_lrms", "cpu_limit_secs", "wall_limit_secs_lrms", "wall_limit_secs"),
    *("disk_limit_GB", "jobstart_secs", "mem_limit_MB", "allocated_CPU", "shutdowntime_job"),
}
FULL_MACHINE = Machine(
    total_cpus=16,
    hs06="171.04",
    shutdown_secs=1_900_000_000,
    grace_secs=7200,
    jobslots=16,
    physical_cores=8,
    logical_cores=0,
    shutdown_command="/usr/sbin/away",
)
FULL_TERMS = Terms(grace_secs=600, cpu_factor="2.5", scratch_bytes_per_cpu=10**10)


@pytest.mark.parametrize(
    ("profile", "machine_keys", "job_keys"),
    [
        (MjfProfile.OF_2016, MACHINE_2016, JOB_2016),
        (MjfProfile.OF_2014, MACHINE_2014, JOB_2014),
        (MjfProfile.BOTH, MACHINE_2016 | MACHINE_2014, JOB_2016 | JOB_2014),
    ],
)
def test_a_profile_publishes_every_key_of_its_text_and_no_other(make_job, profile, machine_keys, job_keys):
    limits = Limits(wall_secs=34560, cpu_secs=17280, memory_bytes=2**31, swap_bytes=1)
    job = make_job(allocated_cpus=4, start_secs=1, limits=limits)
    assert machine_features(FULL_MACHINE, profile=profile, now_secs=0).keys() == machine_keys
    told = job_features(
        job, FULL_MACHINE, terms=replace(FULL_TERMS, profile=profile), shutdown_secs=2_000_000_000
    )
    assert told.keys() == job_keys


def test_values_of_2014_are_in_its_units(make_job):
    limits = Limits(wall_secs=34560, cpu_secs=17280, memory_bytes=4_000_999_999, scratch_bytes=29_999_999_999)
    job = make_job(allocated_cpus=4, start_secs=1, limits=limits)
    assert job_features(job, FULL_MACHINE, terms=replace(FULL_TERMS, profile=MjfProfile.OF_2014)) == {
        "cpufactor_lrms": "2.5",
        "cpu_limit_secs_lrms": "43200",
        "cpu_limit_secs": "17280",
        "wall_limit_secs_lrms": "86400",
        "wall_limit_secs": "34560",
        "disk_limit_GB": "29",
        "mem_limit_MB": "4000",
        "allocated_CPU": "4",
        "jobstart_secs": "1",
    }


def test_less_than_a_unit_of_2014_is_not_told_as_nothing(make_job):
    job = make_job(limits=Limits(memory_bytes=999_999, scratch_bytes=1))
    assert job_features(job, Machine(), terms=Terms(profile=MjfProfile.OF_2014)) == {}


def test_job_slots_that_nobody_states_are_one_for_each_processor():
    assert machine_features(Machine(total_cpus=16), profile=MjfProfile.OF_2014, now_secs=0) == {
        "jobslots": "16"
    }
    assert machine_features(Machine(total_cpus=16, jobslots=4), profile=MjfProfile.OF_2014, now_secs=0) == {
        "jobslots": "4"
    }


def test_cores_are_told_as_they_are_counted():
    told = machine_features(FULL_MACHINE, profile=MjfProfile.OF_2014, now_secs=0)
    assert (told["phys_cores"], told["log_cores"]) == ("8", "0")


def test_hs23_is_told_in_every_profile_once_it_is_stated(make_job):
    machine = Machine(total_cpus=16, hs23="200")
    for profile in MjfProfile:
        assert machine_features(machine, profile=profile, now_secs=0)["hs23"] == "200"
        assert (
            job_features(make_job(allocated_cpus=4), machine, terms=Terms(profile=profile))["hs23_job"]
            == "50"
        )


@pytest.mark.parametrize("profile", MjfProfile)
def test_a_shutdown_time_that_has_come_is_removed_by_the_rule_of_2014_only(make_job, profile):
    machine = Machine(shutdown_secs=1000)
    before = machine_features(machine, profile=profile, now_secs=999.9)
    after = machine_features(machine, profile=profile, now_secs=1000.0)
    assert before == {"shutdowntime": "1000"}
    assert after == ({} if profile is MjfProfile.OF_2014 else before)
    assert (
        job_features(make_job(), machine, terms=Terms(profile=profile), shutdown_secs=5)["shutdowntime_job"]
        == "5"
    )


# "The job needs to have finished all of its processing when the shutdown time has arrived": so it does by its
# own deadline, "Date and time that a job must end by".
def test_a_job_is_told_its_deadline_unless_a_shutdown_comes_before(make_job):
    job = make_job(deadline_secs=70)
    assert job_features(job, Machine())["shutdowntime_job"] == "70"
    assert job_features(job, Machine(), shutdown_secs=80)["shutdowntime_job"] == "70"
    assert job_features(job, Machine(), shutdown_secs=60)["shutdowntime_job"] == "60"


@pytest.mark.parametrize(
    ("of_site", "of_system", "told"),
    [(300, 15, "15"), (10, 15, "10"), (None, 0, "0"), (300, None, "300"), (None, None, None)],
)
def test_a_job_is_promised_the_least_notice_that_the_site_or_its_batch_system_gives(
    make_job, of_site, of_system, told
):
    values = job_features(make_job(grace_secs=of_system), Machine(), terms=Terms(grace_secs=of_site))
    assert values.get("grace_secs_job") == told


def test_a_batch_system_s_scratch_limit_beats_the_site_s(make_job):
    told = job_features(make_job(allocated_cpus=4), Machine(), terms=FULL_TERMS)
    assert told["scratch_limit_bytes"] == str(4 * 10**10)
    for limit, text in ((7, "7"), (UNLIMITED, None)):
        job = make_job(allocated_cpus=4, limits=Limits(scratch_bytes=limit))
        assert job_features(job, Machine(), terms=FULL_TERMS).get("scratch_limit_bytes") == text


decimals = st.decimals(0, 10**11, places=4).map(lambda number: format(number, "f"))


@given(decimals, st.integers(1, 10**9), st.integers(0, 2**63 - 1))
def test_a_share_is_rounded_half_to_even_at_any_size(rating, total, allocated):
    exact = Fraction(rating) * allocated / total
    share = compute_share(rating, total, allocated)
    assert Fraction(share) == round(exact, 4)
    assert not share.endswith(".")


@given(st.integers(0, 2**63 - 1), decimals)
def test_a_normalized_limit_is_rounded_down_at_any_size(limit, factor):
    assert compute_normalized(limit, factor) == Fraction(factor) * limit // 1


def test_the_job_s_own_factor_and_scratch_go_before_the_site_s(make_job):
    job = make_job(cpu_factor="3", limits=Limits(cpu_secs=10, scratch_bytes=2 * 10**9))
    terms = Terms(cpu_factor="2", scratch_size_bytes=7 * 10**9)
    values = job_features(job, Machine(), terms=replace(terms, profile=MjfProfile.BOTH))
    assert (values["cpufactor_lrms"], values["cpu_limit_secs_lrms"]) == ("3", "30")
    assert values["disk_limit_GB"] == "2"


def test_a_job_without_a_scratch_limit_has_the_whole_scratch_space(make_job):
    values = job_features(
        make_job(), Machine(), terms=Terms(profile=MjfProfile.BOTH, scratch_size_bytes=7 * 10**9)
    )
    assert values["disk_limit_GB"] == "7"


@pytest.mark.parametrize(("limit_bytes", "told"), [(0, "0"), (1, None), (10**9 - 1, None), (10**9, "1")])
def test_none_of_a_thing_is_told_and_less_than_one_unit_is_not(make_job, limit_bytes, told):
    job = make_job(limits=Limits(scratch_bytes=limit_bytes))
    assert job_features(job, Machine(), terms=Terms(profile=MjfProfile.BOTH)).get("disk_limit_GB") == told


@pytest.mark.parametrize(
    ("drain", "deadline", "wall", "told"),
    [
        (None, None, 600, "1600"),
        (1500, None, 600, "1500"),
        (1700, 1650, 600, "1600"),
        (1700, 1550, 600, "1550"),
        (None, None, UNLIMITED, None),
        (None, None, None, None),
    ],
)
def test_on_request_the_end_of_the_wall_limit_is_a_shutdown_too(make_job, drain, deadline, wall, told):
    job = make_job(start_secs=1000, deadline_secs=deadline, limits=Limits(wall_secs=wall))
    terms = Terms(shutdown_by_limit=True)
    assert job_features(job, Machine(), terms=terms, shutdown_secs=drain).get("shutdowntime_job") == told
    announced = min(filter(None, (drain, deadline)), default=None)
    told = None if announced is None else str(announced)
    assert job_features(job, Machine(), shutdown_secs=drain).get("shutdowntime_job") == told


def test_keys_are_left_out_on_request_and_no_others(make_job):
    job = make_job(allocated_cpus=4, start_secs=1, limits=Limits(wall_secs=5, memory_bytes=10**9))
    every = job_features(job, FULL_MACHINE, terms=FULL_TERMS)
    terms = replace(FULL_TERMS, left_out=frozenset({"max_rss_bytes", "hs06_job"}))
    assert job_features(job, FULL_MACHINE, terms=terms).keys() == every.keys() - {"max_rss_bytes", "hs06_job"}
