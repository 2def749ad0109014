from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.joblogs.jobnumbers import LARGEST, parse_job_number
from jobfeatures_exporter.sonar.sample import SonarJobId, identify


@pytest.mark.parametrize(
    ("job_id", "number"),
    [("12", 12), ("123.pbs1", 123), ("4294967295", LARGEST), ("7.head.example.org", 7)],
)
def test_numbers_with_or_without_a_server_are_numbers(job_id, number):
    assert parse_job_number(job_id) == number


@pytest.mark.parametrize(
    "job_id",
    ["", "0", "12.0", "7[3].pbs1", "7_3", "4294967296", "s5K1KKYAYG5D00", "-1", "١٢", "1 ", "1\n", "j.1"],
)
def test_what_is_more_than_a_number_is_none(job_id):
    assert parse_job_number(job_id) is None


@given(st.text(max_size=40))
def test_any_name_of_a_job_is_judged(text):
    number = parse_job_number(text)
    assert number is None or 0 < number <= LARGEST


def test_processes_without_a_job_count_by_group_and_boot(snapshot):
    found = identify(snapshot)
    assert found[321] == SonarJobId(321, snapshot.epoch, is_batch=False)
    assert found[500] == SonarJobId(500, snapshot.epoch, is_batch=False)  # a container too
    assert found[101] == SonarJobId(12, 0, is_batch=True)
    assert found[201] == SonarJobId(200, snapshot.epoch, is_batch=True)


def test_without_a_boot_time_only_numbered_jobs_are_told(snapshot):
    assert set(identify(replace(snapshot, epoch=None))) == set(range(100, 106))
