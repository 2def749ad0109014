import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.features.keys import KEYS, Lifetime
from jobfeatures.publish.http.addresses import JOB, MACHINE, STATUS, Target, cache_control, parse_target


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/machinefeatures/total_cpu", Target(MACHINE, key="total_cpu")),
        ("//machinefeatures///", Target(MACHINE)),
        ("/jobfeatures/ab12/mem_limit_MB/", Target(JOB, "ab12", "mem_limit_MB")),
        ("/jobstatus/ab12", Target(STATUS, "ab12")),
        ("/jobstatus/ab12/used_CPU?x=../y", Target(STATUS, "ab12", "used_CPU")),
    ],
)
def test_an_address_names_its_target(path, target):
    assert parse_target(path) == target


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "machinefeatures",
        "*",
        "http://x/machinefeatures",
        "/jobfeatures",
        "/machinefeatures/a/b",
        "/jobfeatures/ab12/a/b",
        "/machinefeatures/..",
        "/machinefeatures/%74otal_cpu",
        "/machinefeatures/total_cpu\n",
        "/machinefeatures/a\\b",
        "/machinefeatures/é",
        "/" * 600 + "machinefeatures",
    ],
)
def test_other_paths_name_nothing(path):
    assert parse_target(path) is None


@given(st.text(max_size=600).map(lambda text: "/" + text))
def test_any_path_gives_a_plain_target_or_none(path):
    target = parse_target(path)
    if target is not None:
        parts = [part for part in (target.token, target.key) if part]
        assert all(part.isascii() and part.replace("_", "a").isalnum() for part in parts)


def test_what_can_be_written_anew_is_kept_for_seconds_only():
    fixed = {"job_id", "phys_cores", "log_cores"}
    for key in KEYS:
        header = cache_control(Target(MACHINE if key.area.value == MACHINE else JOB, key=key.name))
        secs = 1 if key.lifetime is Lifetime.DYNAMIC else 3600 if key.name in fixed else 30
        assert header.endswith(f"max-age={secs}")
    assert cache_control(Target(STATUS, "t", "used_CPU")) == "no-store"
