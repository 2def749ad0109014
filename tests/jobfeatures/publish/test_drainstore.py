"""The store of drains, what the daemon makes of it, and what a hook does."""

import fcntl
import json
import os
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from jobfeatures.drains.drain import NO_DRAINS, NOT_ANNOUNCED, Announced, Drain, Drains
from jobfeatures.errors import LockTimeoutError, ParseError, UnsafePathError
from jobfeatures.features.keys import MjfProfile
from jobfeatures.features.machine import Machine
from jobfeatures.jobs.roster import Roster
from jobfeatures.publish import drainstore
from jobfeatures.publish.config import SiteSettings
from jobfeatures.publish.drainbook import DrainBook
from jobfeatures.publish.drainstore import DrainStore, read_for_hook
from jobfeatures.publish.publisher import Publisher
from jobfeatures.publish.site import Site
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobState, NodeNotice
from tests.configured import configured

ASKED = ["slurm"]
DRAIN = Drain(2_000_000_000, 1_800_000_000, "root")


@pytest.fixture
def tree(tmp_path):
    made = FeatureTree(str(tmp_path / "features"))
    made.prepare()
    return made


@pytest.fixture
def store(tree):
    return DrainStore(tree)


@pytest.fixture
def operator_file(tmp_path):
    return tmp_path / "features/drains/operator.json"


def test_what_is_set_is_read_by_everybody_who_comes_later(tree, store, operator_file):
    assert store.read() == NO_DRAINS
    assert store.read_announced() == NOT_ANNOUNCED
    store.change(lambda old: old.with_drain(None, DRAIN))
    store.write_announced(Announced({"slurm": True}, {"slurm": 5}))
    again = DrainStore(tree)
    assert again.read() == Drains(DRAIN)
    assert again.read_announced() == Announced({"slurm": True}, {"slurm": 5})
    assert stat.S_IMODE(operator_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(operator_file.parent.stat().st_mode) == 0o700
    assert os.listdir(f"{tree.root}/staging") == []


def test_reading_makes_nothing(tmp_path):
    assert DrainStore(FeatureTree(str(tmp_path / "none"))).read() == NO_DRAINS
    assert os.listdir(tmp_path) == []


def test_a_store_that_others_could_write_is_refused(store, operator_file):
    store.change(lambda old: old.with_drain(None, DRAIN))
    operator_file.chmod(0o646)
    with pytest.raises(UnsafePathError, match=r"operator\.json: writable by others"):
        store.read()
    operator_file.chmod(0o600)
    operator_file.parent.chmod(0o777)
    with pytest.raises(UnsafePathError, match="drains: writable by others"):
        store.read()


def test_a_link_a_fifo_or_a_second_name_in_the_place_of_the_store_is_refused(store, operator_file, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text('{"machine": null}')
    operator_file.symlink_to(outside)
    with pytest.raises(OSError, match="symbolic links"):
        store.read()
    operator_file.unlink()
    os.mkfifo(operator_file)
    with pytest.raises(UnsafePathError, match="must be a regular file"):
        store.read()
    operator_file.unlink()
    os.link(outside, operator_file)
    with pytest.raises(UnsafePathError, match="has 2 hard links"):
        store.read()


def test_the_file_of_another_user_is_refused(store, operator_file):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    store.change(lambda old: old.with_drain(None, DRAIN))
    os.chown(operator_file, 6001, -1)
    with pytest.raises(UnsafePathError, match="belongs to uid 6001"):
        store.read()


def test_a_half_written_store_is_named_and_never_overwritten(store, operator_file):
    operator_file.write_text('{"machine": {"at_se')
    operator_file.chmod(0o600)
    for attempt in (store.read, lambda: store.change(lambda old: old.with_drain(None, DRAIN))):
        with pytest.raises(ParseError, match=str(operator_file)):
            attempt()
    assert operator_file.read_text() == '{"machine": {"at_se'


@pytest.mark.parametrize("name", ["operator.json", "announced.json"])
def test_a_document_of_a_later_version_is_named_left_alone_and_costs_the_other_nothing(
    tree, store, operator_file, clock, caplog, make_table, name
):
    store.change(lambda old: old.with_drain(None, DRAIN))
    store.write_announced(Announced({"slurm": True}, {"slurm": 1_900_000_000}))
    book = DrainBook(store, clock)
    book.refresh([], ASKED)
    later = operator_file.with_name(name)
    text = '{"format": 2, "draining": [{"who": "slurm"}]}'
    later.write_text(text)
    for each in (book, DrainBook(store, clock)):  # one that runs, and one after a restart
        each.refresh([replace(make_table(), node=NodeNotice(draining=False))], ASKED)
        each.forget_ended({}, ())
    if name == "operator.json":
        with pytest.raises(ParseError, match="written by a later version"):
            store.change(lambda old: old.with_drain(None, None))
    assert later.read_text() == text
    assert book.view.drains == Drains(DRAIN), "what was asked for stays in force"
    assert f"{name}:format: written by a later version" in caplog.text


def test_a_store_without_end_is_refused(store, operator_file):
    with operator_file.open("wb") as file:
        file.truncate(10 * 2**30)
    operator_file.chmod(0o600)
    with pytest.raises(ParseError, match="is larger than 1048576 bytes"):
        store.read()


def test_a_change_that_is_refused_leaves_all_as_it_is(store):
    store.change(lambda old: old.with_drain(None, DRAIN))
    with pytest.raises(ZeroDivisionError):
        store.change(lambda _: 1 / 0)
    assert store.read() == Drains(DRAIN)


def test_changes_of_several_commands_at_once_are_all_kept(store, make_job):
    keys = [make_job(str(number)).key for number in range(8)]
    threads = [
        threading.Thread(target=lambda key=key: store.change(lambda old: old.with_drain(key, DRAIN)))
        for key in keys
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(store.read().jobs) == set(keys)


def test_a_lock_that_is_held_ends_the_wait(store, operator_file, monkeypatch):
    monkeypatch.setattr(drainstore, "LOCK_TIMEOUT_SECS", 0.05)
    folder = os.open(operator_file.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with pytest.raises(LockTimeoutError, match="drains"):
        store.change(lambda old: old)
    os.close(folder)


# --- the daemon's book ---------------------------------------------------------------


def test_the_old_drains_stay_in_force_while_the_store_is_broken(store, operator_file, clock, caplog):
    book = DrainBook(store, clock)
    store.change(lambda old: old.with_drain(None, DRAIN))
    book.refresh([], ASKED)
    operator_file.write_text("{")
    for _ in range(3):
        book.refresh([], ASKED)
        assert book.view.drains == Drains(DRAIN)
        assert str(operator_file) in book.view.problem
    assert caplog.text.count("the previous ones stay in force") == 1
    operator_file.unlink()
    book.refresh([], ASKED)
    assert book.view.drains == NO_DRAINS
    assert book.view.problem == ""


def test_announcements_outlive_a_restart_until_the_batch_system_says_otherwise(store, clock, make_table):
    at = int(clock.now) + 100
    told = replace(make_table(), node=NodeNotice(True, (at,)))
    DrainBook(store, clock).refresh([told], ASKED)
    clock.advance(200)  # the time has come while the daemon was down
    book = DrainBook(store, clock)
    book.refresh([], ASKED)
    assert book.view.announced == Announced({"slurm": True}, {"slurm": at})
    book.refresh([told], ASKED)
    assert book.view.announced.shutdowns == {"slurm": at}
    book.refresh([replace(told, node=NodeNotice())], ASKED)
    assert book.view.announced == Announced({"slurm": False}, {})
    assert store.read_announced() == NOT_ANNOUNCED  # nothing is said: there is no document to read


def test_announcements_of_a_batch_system_that_is_not_asked_any_more_are_forgotten(store, clock, make_table):
    told = replace(make_table(), node=NodeNotice(True, (int(clock.now) + 100,), 8))
    DrainBook(store, clock).refresh([told], ASKED)
    book = DrainBook(store, clock)
    book.refresh([], ["htcondor"])
    assert book.view.announced == NOT_ANNOUNCED


def test_requests_for_jobs_that_have_ended_are_forgotten(store, clock, make_job):
    jobs = {job.key: job for job in (make_job("1"), make_job("2", state=JobState.COMPLETED), make_job("3"))}
    for key in jobs:
        store.change(lambda old, key=key: old.with_drain(key, DRAIN))
    book = DrainBook(store, clock)
    book.refresh([], ASKED)
    published = {key for key in jobs if key.job_id == "3"}
    book.forget_ended(jobs, published)
    assert {key.job_id for key in book.view.drains.jobs} == {"1", "3"}
    assert store.read() == book.view.drains


def shutdowntime(tree):
    try:
        with open(f"{tree.machine_path}/shutdowntime", encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        return None


@pytest.mark.parametrize(("profile", "after"), [("2016", f"{DRAIN.at_secs}\n"), ("2014", None)])
def test_when_the_time_has_come_the_profile_says_what_stays(
    tree, store, clock, make_job, make_table, profile, after
):
    site = Site(configured(SiteSettings, features_profile=profile, machine_total_cpu=4))
    assert site.profile is MjfProfile(profile)
    publisher, book = Publisher(tree, site, clock), DrainBook(store, clock)
    job = make_job("1", uid=os.geteuid(), start_secs=int(clock.now))
    store.change(lambda old: old.with_drain(None, DRAIN).with_drain(job.key, DRAIN))

    def update():
        book.refresh([], ASKED)
        publisher.update(Roster().judge([make_table(job)], now_secs=clock.now), book.view)

    update()
    assert shutdowntime(tree) == f"{DRAIN.at_secs}\n"
    own = f"{tree.job_path(job.key)}/shutdowntime_job"
    assert Path(own).read_text() == f"{DRAIN.at_secs}\n"
    clock.now = DRAIN.at_secs + 1.0
    update()
    assert shutdowntime(tree) == after
    assert Path(own).read_text() == f"{DRAIN.at_secs}\n"
    clock.now = DRAIN.at_secs - 1000.0  # a clock that jumps back: the time is still to come
    update()
    assert shutdowntime(tree) == f"{DRAIN.at_secs}\n"
    store.change(lambda old: old.with_drain(None, None).with_drain(job.key, None))
    update()
    assert shutdowntime(tree) is None
    assert not os.path.exists(own)


# --- a hook ----------------------------------------------------------------------------


def test_a_hook_tells_what_the_store_and_the_daemon_know(tree, store):
    store.change(lambda old: old.with_drain(None, DRAIN))
    store.write_announced(Announced({}, {"slurm": DRAIN.at_secs - 5}))
    machine, drains = read_for_hook(tree, Machine(total_cpus=4))
    assert machine.shutdown_secs == DRAIN.at_secs - 5
    assert machine.origins["shutdowntime"] == "drain: slurm"
    assert drains == Drains(DRAIN)


def test_a_hook_tells_the_job_slots_that_the_daemon_was_told(tree, store):
    store.write_announced(Announced({}, {}, {"lsf": 12}))
    machine, _ = read_for_hook(tree, Machine(total_cpus=4))
    assert (machine.jobslots, machine.origins["jobslots"]) == (12, "lsf")


def test_a_hook_that_cannot_read_the_store_leaves_the_shutdown_that_is_published(tree, operator_file, caplog):
    operator_file.write_text(json.dumps([]))
    operator_file.chmod(0o600)
    assert read_for_hook(tree, Machine())[0].shutdown_secs is None
    tree.put_machine_value("shutdowntime", "1900000000")
    assert read_for_hook(tree, Machine())[0].shutdown_secs == 1_900_000_000
    assert "left to the daemon" in caplog.text
