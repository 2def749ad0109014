import os
import re

import pytest

from jobfeatures.config import Config
from jobfeatures.model import JobState, Limits, merge_jobs
from jobfeatures.publish.publisher import Publisher
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.site import Site


def update(publisher, tables):
    publisher.update(merge_jobs(tables), tables)


@pytest.fixture
def tree(tmp_path):
    return FeatureTree(str(tmp_path / "features"))


@pytest.fixture
def publisher(tree, clock):
    return Publisher(tree, Site(Config(machine_total_cpu=16, machine_hs06="171.04")), clock)


def test_a_job_gets_its_directories_and_loses_them_when_it_ends(
    publisher, tree, tmp_path, clock, make_job, make_table
):
    job = make_job(allocated_cpus=4, start_secs=1, limits=Limits(wall_secs=60))
    update(publisher, [make_table(job, taken_at_secs=clock.now)])
    folder = tmp_path / "features"
    assert (folder / "machinefeatures/total_cpu").read_text() == "16\n"
    assert (folder / "jobfeatures/slurm-12/hs06_job").read_text() == "42.76\n"
    assert (folder / "jobstatus/slurm-12").is_dir()
    assert "export JOBFEATURES=" in (folder / "exports/slurm-12").read_text()
    assert publisher.status.published == 1
    clock.now = 2e10
    update(publisher, [make_table(make_job(state=JobState.COMPLETED), taken_at_secs=clock.now)])
    assert tree.published() == {}
    assert publisher.status.published == 0


def test_a_restart_keeps_the_living_and_removes_the_dead(tree, clock, make_job, make_table):
    for job_id in ("1", "2"):
        tree.write_job(make_job(job_id).key, {"job_id": job_id})
    clock.now = 2e10
    update(Publisher(tree, Site(Config()), clock), [make_table(make_job("1"), taken_at_secs=clock.now)])
    assert [key.job_id for key in tree.published()] == ["1"]


def test_a_restart_without_an_answer_keeps_everything(tree, clock, make_job):
    tree.write_job(make_job().key, {"job_id": "12"})
    update(Publisher(tree, Site(Config()), clock), [])
    assert len(tree.published()) == 1


def test_a_job_that_cannot_be_written_does_not_cost_the_others(
    publisher, tree, clock, make_job, make_table, tmp_path
):
    tree.prepare()
    (tmp_path / "features/jobfeatures/slurm-1").write_text("in the way")
    update(publisher, [make_table(make_job("1"), make_job("2"), taken_at_secs=clock.now)])
    assert [key.job_id for key in tree.published()] == ["2"]
    assert publisher.status.failures == 1


@pytest.mark.parametrize("profile", ["2016", "2014", "both"])
def test_job_files_belong_to_the_job_s_user_in_the_profile_of_2014_only(
    tree, clock, make_job, make_table, tmp_path, profile
):
    job = make_job(uid=6001, allocated_cpus=4)
    site = Site(Config(features_profile=profile))
    update(Publisher(tree, site, clock), [make_table(job, taken_at_secs=clock.now)])
    folder = tmp_path / "features/jobfeatures/slurm-12"
    given = profile == "2014" and os.geteuid() == 0
    assert {path.stat().st_uid for path in (folder, *folder.iterdir())} == {6001 if given else os.geteuid()}
    names = {path.name for path in folder.iterdir()}
    assert ("allocated_CPU" in names, "allocated_cpu" in names) == (profile != "2016", profile != "2014")
    machine = {path.stat().st_uid for path in (tmp_path / "features/machinefeatures").iterdir()}
    assert machine == {os.geteuid()}


def test_no_key_of_a_site_in_the_profile_of_2016_has_a_name_that_it_forbids(
    tree, clock, make_job, make_table, tmp_path
):
    config = Config(
        machine_hs06="1", machine_hs23="2", features_hs23=True, machine_jobslots=3, job_grace_secs=4
    )
    job = make_job(allocated_cpus=4, limits=Limits(wall_secs=60, memory_bytes=2**31, scratch_bytes=10**10))
    update(Publisher(tree, Site(config), clock), [make_table(job, taken_at_secs=clock.now)])
    folders = (tmp_path / "features/machinefeatures", tmp_path / "features/jobfeatures/slurm-12")
    names = [path.name for folder in folders for path in folder.iterdir()]
    assert {"hs23", "hs23_job", "grace_secs_job"} <= set(names)
    assert [name for name in names if not re.fullmatch("[a-z0-9_]+", name)] == []


def test_an_update_that_changes_nothing_writes_nothing(tree, clock, make_job, make_table, tmp_path):
    publisher = Publisher(tree, Site(Config(features_profile="both")), clock)
    tables = [make_table(make_job(uid=os.getuid(), allocated_cpus=4), taken_at_secs=clock.now)]
    update(publisher, tables)

    def look():
        paths = [path for path in (tmp_path / "features").rglob("*") if "staging" not in path.parts]
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}

    before = look()
    update(publisher, tables)
    assert look() == before


def test_hooks_that_failed_are_counted_by_what_they_were_to_do(publisher, tree, tmp_path):
    tree.prepare()
    update(publisher, [])
    assert publisher.status.hook_failures == {"publish": 0, "remove": 0}
    (tmp_path / "features/failures/publish").write_bytes(b"...")
    update(publisher, [])
    assert publisher.status.hook_failures == {"publish": 3, "remove": 0}


def test_failures_of_hooks_that_cannot_be_counted_are_not_told(publisher, tmp_path, caplog):
    update(publisher, [])
    (tmp_path / "features/failures/publish").symlink_to("/etc/passwd")
    update(publisher, [])
    assert publisher.status.hook_failures == {"remove": 0}, "a link is no count"
    (tmp_path / "features/failures").chmod(0o777)
    update(publisher, [])
    assert publisher.status.hook_failures == {}, "anybody may have left them"
    assert "failures of hooks are not known" in caplog.text
    assert publisher.status.failures == 0
