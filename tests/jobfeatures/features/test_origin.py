from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch import SYSTEMS
from jobfeatures.errors import ParseError
from jobfeatures.features.job import Terms, job_features
from jobfeatures.features.keys import KEYS, Area, MjfProfile
from jobfeatures.features.machine import Machine
from jobfeatures.features.origin import (
    DERIVED,
    SETTINGS,
    UNKNOWN,
    format_origins,
    job_origins,
    machine_origins,
    parse_origins,
)
from jobfeatures.records.model import Limits

JOB_KEYS = {key.name for key in KEYS if key.area is Area.JOB}


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_batch_system_s_sources_are_keys_of_jobs_that_nobody_derives(system):
    sources = SYSTEMS[system].key_sources
    assert sources.keys() <= JOB_KEYS - DERIVED.keys()
    assert {"allocated_cpu", "job_id", "jobstart_secs", "wall_limit_secs"} <= sources.keys()


def test_every_key_has_a_source_somewhere():
    told = set().union(*(SYSTEMS[system].key_sources for system in SYSTEMS))
    told |= DERIVED.keys() | SETTINGS.keys() | {"shutdowntime", "shutdowntime_job", "phys_cores", "log_cores"}
    assert {key.name for key in KEYS} - told == set()


def test_every_value_of_a_job_has_an_origin(make_job):
    job = make_job(
        allocated_cpus=4,
        start_secs=1,
        limits=Limits(wall_secs=60, cpu_secs=240, memory_bytes=2**31, scratch_bytes=10**10),
    )
    terms = Terms(grace_secs=1, cpu_factor="2", origins={"grace_secs_job": "a", "cpufactor_lrms": "b"})
    machine = Machine(total_cpus=8, hs06="1", hs23="2")
    values = job_features(job, machine, terms=replace(terms, profile=MjfProfile.BOTH), shutdown_secs=5)
    origins = job_origins(values, job, terms, SYSTEMS["slurm"].key_sources)
    assert origins.keys() == values.keys()
    assert UNKNOWN not in origins.values()
    assert origins["wall_limit_secs"].startswith("slurm: TimeLimit")
    assert origins["hs06_job"] == "derived: hs06 * allocated_cpu / total_cpu"
    assert origins["grace_secs_job"] == "a"
    assert origins["shutdowntime_job"] == "drain"


def test_the_site_s_scratch_is_named_only_where_the_batch_system_has_none(make_job):
    terms = Terms(scratch_bytes_per_cpu=5, origins={"scratch_limit_bytes": "file: job.scratch_bytes_per_cpu"})
    fields = {"scratch_limit_bytes": "MinTmpDiskNode"}
    key = "scratch_limit_bytes"
    limited = make_job(limits=Limits(scratch_bytes=1))
    assert job_origins([key], limited, terms, fields) == {key: "slurm: MinTmpDiskNode"}
    assert job_origins([key], make_job(), terms, fields) == {
        key: "file: job.scratch_bytes_per_cpu * allocated_cpu"
    }


def test_defaults_of_the_machine_are_called_so():
    found = machine_origins(["total_cpu", "phys_cores"], Machine())
    assert all(origin.startswith("default: ") for origin in found.values())
    assert machine_origins(["total_cpu"], Machine(origins={"total_cpu": "--x"})) == {"total_cpu": "--x"}


def test_a_key_that_nobody_accounts_for_is_said_to_be_so(make_job):
    assert machine_origins(["shutdowntime", "odd"], Machine()) == {"shutdowntime": "drain", "odd": UNKNOWN}
    assert job_origins(["odd"], make_job(), Terms(), {}) == {"odd": UNKNOWN}
    key = "scratch_limit_bytes"
    assert job_origins([key], make_job(), Terms(scratch_bytes_per_cpu=5), {}) == {
        key: f"{UNKNOWN} * allocated_cpu"
    }


def test_the_job_s_own_factor_hides_the_site_s_origin_of_it_and_no_other(make_job):
    terms = Terms(cpu_factor="2", grace_secs=1, origins={"grace_secs_job": "a", "cpufactor_lrms": "b"})
    names, fields = ["grace_secs_job", "cpufactor_lrms"], {"cpufactor_lrms": "CPUF"}
    assert job_origins(names, make_job(cpu_factor="3"), terms, fields) == {
        "grace_secs_job": "a",
        "cpufactor_lrms": "slurm: CPUF",
    }
    assert job_origins(names, make_job(), terms, fields)["cpufactor_lrms"] == "b"


def test_a_job_s_deadline_is_an_origin_of_its_shutdown(make_job):
    names = ["shutdowntime_job"]
    assert job_origins(names, make_job(deadline_secs=5), Terms(), {}) == {
        "shutdowntime_job": "drain, or slurm: the job's deadline"
    }
    assert job_origins(names, make_job(deadline_secs=5), Terms(), {"shutdowntime_job": "EndTime"}) == {
        "shutdowntime_job": "drain, or slurm: EndTime"
    }
    assert job_origins(names, make_job(), Terms(), {"shutdowntime_job": "EndTime"}) == {
        "shutdowntime_job": "drain"
    }


@pytest.mark.parametrize(("of_system", "told"), [(15, "slurm: Grace"), (300, "a"), (600, "a"), (None, "a")])
def test_the_lesser_notice_is_the_origin_of_the_promised_one(make_job, of_system, told):
    terms = Terms(grace_secs=300, origins={"grace_secs_job": "a"})
    assert job_origins(
        ["grace_secs_job"], make_job(grace_secs=of_system), terms, {"grace_secs_job": "Grace"}
    ) == {"grace_secs_job": told}


lines = st.text(st.characters(exclude_characters="\t\n", exclude_categories=("Cs",)), min_size=1)


@given(st.dictionaries(lines, lines))
def test_origins_are_read_as_they_were_written(origins):
    assert parse_origins(format_origins(origins)) == origins


@given(st.text())
def test_any_text_gives_origins_or_a_parse_error(text):
    try:
        found = parse_origins(text)
    except ParseError:
        assert any(line and "\t" not in line for line in text.split("\n"))
    else:
        assert len(found) <= text.count("\t")


def test_an_origin_may_hold_tabs_and_a_line_without_one_is_named():
    assert parse_origins("a\tb\tc\n") == {"a": "b\tc"}
    with pytest.raises(ParseError) as caught:
        parse_origins("a\tb\nno\n", source="machine")
    assert str(caught.value) == "machine:2: no tab between key and origin: 'no'"
    with pytest.raises(ParseError, match=r"^1: no tab"):
        parse_origins("no")
