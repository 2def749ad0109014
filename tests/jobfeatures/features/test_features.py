import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.features.job import compute_hs06_job, job_features
from jobfeatures.features.keys import KEYS, Area
from jobfeatures.features.machine import Machine, machine_features
from jobfeatures.model import UNLIMITED, Job, JobKey, Limits


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
        (Machine(total_cpus=0, hs06="10"), 1, None),
        (Machine(total_cpus=16), 4, None),
        (Machine(hs06="10"), 4, None),
        (Machine(total_cpus=16, hs06="10"), None, None),
    ],
)
def test_a_job_s_rating_is_its_share_of_the_machine(machine, cpus, rating):
    assert compute_hs06_job(machine, cpus) == rating


def test_a_machine_tells_what_it_knows():
    assert machine_features(Machine(total_cpus=16, hs06="171.04")) == {"total_cpu": "16", "hs06": "171.04"}
    assert machine_features(Machine()) == {}


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
    assert all(re.fullmatch(r"[a-z0-9_]+", key.name) for key in KEYS)
    assert len({key.name for key in KEYS}) == len(KEYS)
