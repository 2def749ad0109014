import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.config import Config
from jobfeatures.errors import ConfigurationError
from jobfeatures.features.job import job_features
from jobfeatures.features.keys import MjfProfile
from jobfeatures.features.machine import Machine
from jobfeatures.features.origin import job_origins
from jobfeatures.publish.config import SiteSettings
from jobfeatures.publish.site import Cores, Site, parse_cpu_model, read_cores, read_cpu_model
from jobfeatures.records.model import UNLIMITED, Limits
from jobfeatures.settings.resolve import load_config, settings_of, tables_of
from tests.configured import changed, configured

EPYC = "AMD EPYC 7763 64-Core Processor"
FILE = """
machine.hs06 = 100
machine.grace_secs = "1h"
machine.cpu_factor = 1.5
job.grace_secs = 600
job.scratch_bytes_per_cpu = "10GB"

[partition.long]
grace_secs = 7200
scratch_bytes_per_cpu = "20 GiB"

[cpu_model."AMD EPYC 7.*"]
hs06 = 171.04
cpu_factor = 2.5
scratch_bytes_per_cpu = 1

[cpu_model."AMD .*"]
hs06 = 1
jobslots = 64
"""


@pytest.fixture
def load(tmp_path):
    def make(text=FILE, *, environ=None, flags=None, strict=True):
        path = tmp_path / "config.toml"
        path.write_text(text)
        return load_config(Config, file=str(path), environ=environ or {}, flags=flags, strict=strict).site

    return make


def test_the_first_table_that_matches_the_whole_cpu_model_beats_the_plain_setting(load, tmp_path):
    machine = Site(load(), cpu_model=EPYC).machine
    assert (machine.hs06, machine.jobslots, machine.grace_secs) == ("171.04", 64, 3600)
    assert machine.origins["hs06"] == f'{tmp_path}/config.toml: cpu_model."AMD EPYC 7.*".hs06'
    assert machine.origins["grace_secs"] == f"{tmp_path}/config.toml: machine.grace_secs"
    other = Site(load(), cpu_model="Intel, not AMD EPYC 7").machine
    assert (other.hs06, other.jobslots) == ("100", None)


def test_a_partition_beats_the_cpu_model_for_its_jobs_only(load, make_job, tmp_path):
    site = Site(load(), cpu_model=EPYC)
    long = site.terms(make_job(partition="long"))
    assert (long.grace_secs, long.scratch_bytes_per_cpu, long.cpu_factor) == (7200, 20 * 2**30, "2.5")
    assert long.origins["grace_secs_job"] == f"{tmp_path}/config.toml: partition.long.grace_secs"
    short = site.terms(make_job(partition="short"))
    assert (short.grace_secs, short.scratch_bytes_per_cpu, short.cpu_factor) == (600, 1, "2.5")
    assert Site(load(), cpu_model="x").terms(make_job()).scratch_bytes_per_cpu == 10**10


def test_a_flag_and_a_variable_beat_every_table(load, make_job):
    by_flag = Site(load(flags={"machine.hs06": "5"}), cpu_model=EPYC).machine
    assert (by_flag.hs06, by_flag.origins["hs06"]) == ("5", "--machine.hs06")
    by_variable = Site(load(environ={"JOBFEATURES_JOB_GRACE_SECS": "9"}), cpu_model=EPYC)
    terms = by_variable.terms(make_job(partition="long"))
    assert (terms.grace_secs, terms.origins["grace_secs_job"]) == (9, "JOBFEATURES_JOB_GRACE_SECS")


def test_nothing_stated_is_nothing_told(make_job):
    site = Site(SiteSettings())
    assert site.terms(make_job()) == site.terms(make_job(partition="x"))
    assert site.terms(make_job()).origins == {}
    assert site.machine.hs06 is site.machine.grace_secs is site.machine.jobslots is None


def test_hs23_is_told_only_where_the_site_states_it():
    assert Site(configured(SiteSettings, machine_hs06="9")).machine.hs23 is None
    assert Site(configured(SiteSettings, machine_hs23="9")).machine.hs23 == "9"


def test_a_rating_of_each_processor_counts_where_the_machine_s_is_not_stated():
    each = configured(
        SiteSettings, machine_hs06_per_core="10.69", machine_hs23_per_core="12.5", machine_total_cpu=64
    )
    machine = Site(each).machine
    assert (machine.hs06, machine.hs23) == ("684.16", "800")
    assert machine.origins["hs06"] == "machine.hs06_per_core * total_cpu"
    shown = Site(changed(each, machine_hs06="700")).machine
    assert (shown.hs06, shown.hs23) == ("700", "800")


def test_of_2014_a_job_without_a_limit_is_told_the_size_of_the_scratch_file_system(tmp_path, make_job):
    found = os.statvfs(tmp_path)
    size = found.f_blocks * found.f_frsize
    config = configured(SiteSettings, features_profile="both", machine_scratch_dir=str(tmp_path))
    terms = Site(config).terms(make_job())
    machine, own = Machine(), {"job_id": "12"}
    for limit in (None, UNLIMITED):
        told = job_features(make_job(limits=Limits(scratch_bytes=limit)), machine, terms=terms)
        assert told == own | {"disk_limit_GB": str(size // 10**9)}
        origins = job_origins(told, make_job(), terms, {})
        assert origins["disk_limit_GB"] == f"size of machine.scratch_dir {tmp_path}"
    limited = make_job(limits=Limits(scratch_bytes=5 * 10**9))
    told = job_features(limited, machine, terms=terms)
    assert told == own | {"scratch_limit_bytes": "5000000000", "disk_limit_GB": "5"}
    assert job_origins(told, limited, terms, {})["disk_limit_GB"] == "derived: scratch_limit_bytes / 10^9"
    assert Site(changed(config, features_profile="2016")).terms(make_job()).scratch_size_bytes is None
    assert Site(changed(config, machine_scratch_dir="/no/such")).terms(make_job()).scratch_size_bytes is None


def test_processors_that_go_on_or_off_line_are_counted_anew(monkeypatch):
    """As where SMT is switched for a job; what the site states stays."""
    online = [Cores(4, 8), Cores(4, 4), Cores(4, 8)]
    site = Site(configured(SiteSettings, features_profile="both", machine_hs06_per_core="10"))
    stated = Site(configured(SiteSettings, machine_total_cpu=6))
    for cores in online:
        monkeypatch.setattr("os.cpu_count", lambda now=cores: now.logical)
        monkeypatch.setattr("jobfeatures.publish.site.read_cores", lambda now=cores: now)
        machine = site.machine
        assert (machine.total_cpus, machine.physical_cores, machine.logical_cores) == (cores.logical, *cores)
        assert (machine.hs06, stated.machine.total_cpus) == (str(10 * cores.logical), 6)
        assert site.machine is machine


def test_cores_are_counted_only_for_the_keys_of_2014():
    assert Site(SiteSettings(), cores=Cores(4, 8)).machine.physical_cores is None
    for profile in ("2014", "both"):
        machine = Site(configured(SiteSettings, features_profile=profile), cores=Cores(4, 8)).machine
        assert (machine.physical_cores, machine.logical_cores) == (4, 8)
    assert Site(configured(SiteSettings, features_profile="both")).profile is MjfProfile.BOTH


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[partition.long]\nhs06 = 1", "partition.long.hs06"),
        ("[partition.long]\ngrace = 1", "partition.long.grace"),
        ("[partition.long]\ngrace_secs = 'soon'", "partition.long.grace_secs"),
        ("[partition.long]\ngrace_secs = 1.5", "partition.long.grace_secs"),
        ("[partition.long]\nscratch_bytes_per_cpu = '5 XB'", "partition.long.scratch_bytes_per_cpu"),
        ("[partition.long.deeper]\nx = 1", "partition.long.deeper"),
        ("partition = 5", "partition"),
        ("partition.long = 5", "partition.long"),
        ("[cpu_model.'(']\nhs06 = 1", 'cpu_model."("'),
        ("[cpu_model.x]\ncpu_factor = '0.0'", "cpu_model.x.cpu_factor"),
        ("[cpu_model.'a b']\nhs06 = '1e3'", 'cpu_model."a b".hs06'),
        ("[cpu_models.x]\nhs06 = 1", "cpu_models.x.hs06"),
        ("features.profile = '2015'", "features.profile"),
    ],
)
def test_a_wrong_table_is_refused_with_its_key(load, text, named):
    with pytest.raises(ConfigurationError) as caught:
        load(text)
    assert re.search(rf"config\.toml:[12]: {re.escape(named)}$", caught.value.key)


def test_a_hook_passes_over_names_in_tables_that_it_does_not_know(load, make_job):
    config = load("[partition.long]\ncolour = 'red'\ngrace_secs = 5\n", strict=False)
    assert Site(config).terms(make_job(partition="long")).grace_secs == 5


def test_every_name_in_a_table_is_the_name_of_a_plain_setting():
    plain = {key.rpartition(".")[2] for key in (each.key for each in settings_of(Config))}
    for group in tables_of(Config):
        assert group.values.keys() <= plain


def test_the_cpu_model_is_the_first_of_cpuinfo(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text(f"processor\t: 0\nmodel\t\t: 1\nmodel name\t: {EPYC}\n" * 500)
    assert read_cpu_model(str(path)) == EPYC
    assert read_cpu_model(str(tmp_path / "absent")) is None
    assert parse_cpu_model("processor\t: 0\n") is None
    assert parse_cpu_model("cpu\t\t: POWER9, altivec supported\n") == "POWER9, altivec supported"


@given(st.text())
def test_any_cpuinfo_gives_a_model_or_none(text):
    model = parse_cpu_model(text)
    assert model is None or (model and model in text)


def make_cpus(folder, siblings):
    for number, text in enumerate(siblings):
        topology = folder / f"cpu{number}/topology"
        topology.mkdir(parents=True)
        if text is not None:
            (topology / "thread_siblings_list").write_text(f"{text}\n")
    (folder / "cpufreq").mkdir()
    (folder / "cpuidle").mkdir()


@pytest.mark.parametrize(
    ("siblings", "cores"),
    [
        (["0,2", "1,3", "0,2", "1,3"], Cores(2, 4)),
        (["0", "1", "2"], Cores(3, 3)),
        (["0-1", "0-1", "2"], Cores(2, 3)),  # cores of two kinds
        (["0", None], Cores(1, 1)),  # one is offline
        ([], None),
    ],
)
def test_cores_are_counted_by_their_siblings(tmp_path, siblings, cores):
    make_cpus(tmp_path, siblings)
    assert read_cores(str(tmp_path)) == cores


def test_where_the_system_does_not_tell_no_cores_are_known(tmp_path):
    assert read_cores(str(tmp_path / "absent")) is None


def test_a_partition_has_its_own_profile_keys_and_end(load, make_job):
    text = """
        features.leave_out = ["hs06_job"]
        [partition.dirac]
        profile = "2014"
        leave_out = ["max_rss_bytes", "grace_secs_job"]
        shutdown_by_limit = true
    """
    site = Site(load(text), cpu_model="x", cores=Cores(1, 1))
    dirac, other = site.terms(make_job(partition="dirac")), site.terms(make_job(partition="x"))
    assert (dirac.profile, dirac.shutdown_by_limit) == (MjfProfile.OF_2014, True)
    assert dirac.left_out == {"max_rss_bytes", "grace_secs_job"}
    assert (other.profile, other.left_out, other.shutdown_by_limit) == (
        MjfProfile.OF_2016,
        {"hs06_job"},
        False,
    )


def test_a_key_that_no_job_has_cannot_be_left_out(load):
    with pytest.raises(ConfigurationError, match="max_rss_bytes"):
        load('features.leave_out = ["max_rss_byte"]')
