import contextlib
import errno
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from jobfeatures.features.origin import parse_origins
from jobfeatures.jobs.evidence import Presence
from jobfeatures.jobs.jobrecords import format_record
from jobfeatures.jobs.roster import Roster
from jobfeatures.publish.config import SiteSettings
from jobfeatures.publish.hookreasons import PAIRS
from jobfeatures.publish.hooksource import HookSource
from jobfeatures.publish.publisher import Publisher
from jobfeatures.publish.site import Site
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.publish.writing import write_job
from jobfeatures.records.model import JobKey, JobState, Limits
from tests.configured import configured


class Driven(Publisher):
    """A publisher whose tree is at hand, as the daemon has both."""

    def __init__(self, tree, *parts):
        super().__init__(tree, *parts)
        self.tree = tree


def update(publisher, tables, roster=None, **more):
    """Do what the daemon does with one round of answers; without a roster it has just begun."""
    if roster is None:
        roster = Roster()
        roster.remember(publisher.remembered())
    now_secs = max((each.taken_at_secs for each in tables), default=0)
    published, sources = publisher.tree.published(), {"slurm", "hooks"}
    publisher.update(roster.judge(tables, now_secs=now_secs, published=published, sources=sources), **more)


@pytest.fixture
def tree(tmp_path):
    return FeatureTree(str(tmp_path / "features"))


@pytest.fixture
def publisher(tree, clock):
    return Driven(tree, Site(configured(SiteSettings, machine_total_cpu=16, machine_hs06="171.04")), clock)


def test_jobs_count_as_published_while_a_long_round_goes_on(
    publisher, clock, make_job, make_table, monkeypatch
):
    seen = []

    def note(*arguments, **more):
        seen.append(publisher.status.published)
        write_job(*arguments, **more)

    monkeypatch.setattr("jobfeatures.publish.publisher.write_job", note)
    jobs = [make_job(job_id=str(number)) for number in range(1, 5)]
    update(publisher, [make_table(*jobs, taken_at_secs=clock.now)])
    assert (seen, publisher.status.published) == ([0, 1, 2, 3], 4)


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


def test_a_prolog_waits_until_an_answer_that_is_newer_than_its_question_is_published(
    publisher, tree, tmp_path, clock, make_job, make_table
):
    asked = tmp_path / "features/intake/slurm-12.asked"
    tree.hold_prolog(JobKey("slurm", "12"))
    os.utime(asked, (clock.now, clock.now))
    update(publisher, [make_table(make_job(), taken_at_secs=clock.now - 1)])
    assert asked.exists()
    clock.now += 1
    update(publisher, [make_table(make_job(), taken_at_secs=clock.now)])
    assert not asked.exists()
    tree.hold_prolog(JobKey("slurm", "12"))
    tree.remove_job(JobKey("slurm", "12"))
    assert not asked.exists()


def test_how_many_jobs_are_published_is_not_known_while_they_cannot_be_listed(
    publisher, tree, clock, make_job, make_table, monkeypatch
):
    assert publisher.status.published is None  # nobody has looked yet
    table = make_table(make_job("1"), make_job("2"), taken_at_secs=clock.now)
    update(publisher, [table])
    assert publisher.status.published == 2
    roll = Roster().judge([], now_secs=0, published=tree.published(), sources={"slurm", "hooks"})
    with monkeypatch.context() as patch:
        patch.setattr(tree, "published", lambda: (_ for _ in ()).throw(OSError(errno.EIO, "I/O error")))
        publisher.update(roll)
    assert publisher.status.published is None
    assert publisher.status.failures == 1
    publisher.update(roll)
    assert publisher.status.published == 2


def test_directories_of_which_one_cannot_be_looked_at_are_no_list(tree, monkeypatch):
    for job_id in ("1", "2"):
        tree.write_job(JobKey("slurm", job_id), {"job_id": job_id})

    class Entry:
        name = "slurm-2"

        def is_dir(self, *, follow_symlinks):
            return True

        def stat(self, *, follow_symlinks):
            raise self.error

    monkeypatch.setattr(os, "scandir", lambda _folder: contextlib.nullcontext([Entry()]))
    Entry.error = PermissionError(errno.EACCES, "no")
    with pytest.raises(PermissionError):
        tree.published()
    Entry.error = FileNotFoundError(errno.ENOENT, "gone")
    assert tree.published() == {}


def test_what_a_later_version_knew_of_a_job_is_left_alone_and_costs_no_directory(
    publisher, tree, clock, make_job, make_table, tmp_path, caplog
):
    table = make_table(make_job(), taken_at_secs=clock.now)
    update(publisher, [table])
    known = tmp_path / "features/known/slurm-12.json"
    text = '{"format": 2, "job": {"id": "12"}}'
    known.write_text(text)
    again = Driven(tree, Site(SiteSettings()), clock)
    update(again, [])
    assert len(tree.published()) == 1
    roster = Roster()
    for wall_secs in (60, 120):
        clock.now += 1
        job = make_job(limits=Limits(wall_secs=wall_secs))
        update(again, [make_table(job, taken_at_secs=clock.now)], roster)
        assert (tmp_path / "features/jobfeatures/slurm-12/wall_limit_secs").read_text() == f"{wall_secs}\n"
    assert known.read_text() == text
    assert "written by a later version" in caplog.text
    clock.now += 1
    over = make_table(make_job(state=JobState.COMPLETED), taken_at_secs=clock.now)
    update(again, [over], roster)
    assert not known.exists(), "its job has ended"


def test_a_restart_keeps_the_living_and_removes_the_dead(tree, clock, make_job, make_table):
    for job_id in ("1", "2"):
        tree.write_job(make_job(job_id).key, {"job_id": job_id})
    clock.now = 2e10
    update(Driven(tree, Site(SiteSettings()), clock), [make_table(make_job("1"), taken_at_secs=clock.now)])
    assert [key.job_id for key in tree.published()] == ["1"]


def test_a_restart_without_an_answer_keeps_everything(tree, clock, make_job):
    tree.write_job(make_job().key, {"job_id": "12"})
    update(Driven(tree, Site(SiteSettings()), clock), [])
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
def test_job_files_belong_to_the_job_s_user_where_the_text_of_2014_is_kept(
    tree, clock, make_job, make_table, tmp_path, profile
):
    job = make_job(uid=6001, allocated_cpus=4)
    site = Site(configured(SiteSettings, features_profile=profile))
    update(Driven(tree, site, clock), [make_table(job, taken_at_secs=clock.now)])
    folder = tmp_path / "features/jobfeatures/slurm-12"
    given = profile != "2016" and os.geteuid() == 0
    assert {path.stat().st_uid for path in (folder, *folder.iterdir())} == {6001 if given else os.geteuid()}
    names = {path.name for path in folder.iterdir()}
    assert ("allocated_CPU" in names, "allocated_cpu" in names) == (profile != "2016", profile != "2014")
    machine = {path.stat().st_uid for path in (tmp_path / "features/machinefeatures").iterdir()}
    assert machine == {os.geteuid()}


def test_no_key_of_a_site_in_the_profile_of_2016_has_a_name_that_it_forbids(
    tree, clock, make_job, make_table, tmp_path
):
    config = configured(
        SiteSettings, machine_hs06="1", machine_hs23="2", machine_jobslots=3, job_grace_secs=4
    )
    job = make_job(allocated_cpus=4, limits=Limits(wall_secs=60, memory_bytes=2**31, scratch_bytes=10**10))
    update(Driven(tree, Site(config), clock), [make_table(job, taken_at_secs=clock.now)])
    folders = (tmp_path / "features/machinefeatures", tmp_path / "features/jobfeatures/slurm-12")
    names = [path.name for folder in folders for path in folder.iterdir()]
    assert {"hs23", "hs23_job", "grace_secs_job"} <= set(names)
    assert [name for name in names if not re.fullmatch("[a-z0-9_]+", name)] == []


def test_an_update_that_changes_nothing_writes_nothing(tree, clock, make_job, make_table, tmp_path):
    publisher = Driven(tree, Site(configured(SiteSettings, features_profile="both")), clock)
    tables = [make_table(make_job(uid=os.getuid(), allocated_cpus=4), taken_at_secs=clock.now)]
    update(publisher, tables)

    def look():
        paths = [path for path in (tmp_path / "features").rglob("*") if "staging" not in path.parts]
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}

    before = look()
    update(publisher, tables)
    assert look() == before


def test_hooks_that_failed_are_counted_by_what_they_were_to_do_and_why(publisher, tree, tmp_path):
    tree.prepare()
    update(publisher, [])
    assert publisher.status.hook_failures == dict.fromkeys(PAIRS, 0)
    with (tmp_path / "features/failures/publish.timeout").open("ab") as file:
        file.write(b"...")
    update(publisher, [])
    assert publisher.status.hook_failures == {**dict.fromkeys(PAIRS, 0), ("publish", "timeout"): 3}


def test_failures_of_hooks_that_cannot_be_counted_are_not_told(publisher, tmp_path, caplog):
    update(publisher, [])
    count = tmp_path / "features/failures/publish.other"
    count.unlink()
    count.symlink_to("/etc/passwd")
    update(publisher, [])
    assert set(publisher.status.hook_failures) == set(PAIRS) - {("publish", "other")}, "a link is no count"
    (tmp_path / "features/failures").chmod(0o777)
    update(publisher, [])
    assert publisher.status.hook_failures == {}, "anybody may have left them"
    assert "cannot read how often prologs and epilogs failed" in caplog.text
    assert publisher.status.failures == 0


# --- two writers, one id ---------------------------------------------------------


def read_table(tree, clock):
    tree.prepare()
    return HookSource(tree.records_path, clock).poll_jobs(())


def put_record(tree, job, at_secs):
    tree.write_record(job.key, format_record(job, reported_at_secs=at_secs))


def test_a_restart_of_the_daemon_takes_no_key_away_while_the_controller_is_silent(
    publisher, tree, clock, make_job, make_table, tmp_path
):
    """The prolog of Slurm 22.05 knows no memory limit, wall limit or start: the controller told them."""
    answer = make_job(start_secs=5, limits=Limits(wall_secs=1200, memory_bytes=2**30))
    tree.prepare()
    put_record(tree, make_job(limits=Limits(wall_secs=600)), clock.now - 10)
    update(publisher, [read_table(tree, clock), make_table(answer, taken_at_secs=clock.now)])
    folder = tmp_path / "features/jobfeatures/slurm-12"
    before = {path.name: path.read_text() for path in folder.iterdir()}
    assert before["wall_limit_secs"] == "1200\n"
    assert {"max_rss_bytes", "jobstart_secs"} <= before.keys()
    clock.advance(60)
    update(Driven(tree, publisher.site, clock), [read_table(tree, clock)])
    assert {path.name: path.read_text() for path in folder.iterdir()} == before


def test_a_daemon_killed_as_it_tells_a_job_something_leaves_the_next_what_it_knew(
    publisher, tree, clock, make_job, make_table, monkeypatch, tmp_path
):
    """Else the next one, of which the controller has not answered yet, would take the key away for a moment."""

    class Killed(BaseException):
        pass

    def told_last(self, key, values, owner=None, write=FeatureTree.write_job):
        write(self, key, values, owner)
        raise Killed

    record = make_table(make_job(start_secs=1), source="hooks", complete=False, taken_at_secs=clock.now)
    update(publisher, [record])
    answer = make_table(make_job(limits=Limits(memory_bytes=2**20)), taken_at_secs=clock.now + 1)
    with monkeypatch.context() as patched:
        patched.setattr(FeatureTree, "write_job", told_last)
        with pytest.raises(Killed):
            update(publisher, [record, answer])
    [told] = (tmp_path / "features/jobfeatures").iterdir()
    assert (told / "max_rss_bytes").read_text().strip() == str(2**20)
    update(Driven(tree, publisher.site, clock), [record])
    assert (told / "max_rss_bytes").exists()


def test_what_a_prolog_writes_is_not_taken_away_by_what_was_known_before(
    publisher, tree, clock, make_job, tmp_path
):
    """The daemon reads the first record, the prolog asks and writes again, and then the daemon publishes."""
    tree.prepare()
    job = make_job(allocated_cpus=2)
    put_record(tree, job, clock.now)
    first = read_table(tree, clock)
    asked = make_job(allocated_cpus=2, limits=Limits(wall_secs=600))
    write_job(tree, asked, publisher.site, publisher.site.machine, reported_at_secs=clock.now)
    put_record(tree, asked, clock.now + 0.1)
    update(publisher, [first])
    limit = tmp_path / "features/jobfeatures/slurm-12/wall_limit_secs"
    assert limit.read_text() == "600\n"
    clock.advance(1)
    update(publisher, [read_table(tree, clock)])
    assert limit.read_text() == "600\n"


@pytest.mark.parametrize(
    ("first", "later", "told"), [(1000, 974, 1000), (1000, 1003, 1000), (1000, 699, 699), (None, 974, 974)]
)
def test_the_start_stays_what_the_job_read_first(
    publisher, tree, clock, tmp_path, make_job, make_table, first, later, told
):
    """A prolog that is told no start tells its own time, and the batch system later an earlier one."""
    tree.prepare()
    if first is not None:
        put_record(tree, make_job(start_secs=first), clock.now)
    job = make_job(start_secs=later, limits=Limits(wall_secs=60))
    update(publisher, [read_table(tree, clock), make_table(job, taken_at_secs=clock.now + 5)])
    folder = tmp_path / "features/jobfeatures/slurm-12"
    assert (folder / "jobstart_secs").read_text() == f"{told}\n"
    assert (folder / "wall_limit_secs").read_text() == "60\n"


def test_a_start_that_a_prolog_may_have_from_the_run_before_is_put_right(
    publisher, tree, clock, tmp_path, make_job, make_table
):
    """Slurm 22.05 tells a prolog no restart count: of a job requeued seconds ago the daemon knew the earlier start."""
    tree.prepare()
    put_record(tree, make_job(start_secs=1000), clock.now)
    job = make_job(start_secs=1006, restarts=1)
    update(publisher, [read_table(tree, clock), make_table(job, taken_at_secs=clock.now + 5)])
    assert (tmp_path / "features/jobfeatures/slurm-12/jobstart_secs").read_text() == "1006\n"


def test_a_directory_is_not_made_again_after_an_epilog_that_the_daemon_has_not_seen(
    publisher, tree, clock, make_job, tmp_path
):
    put_record(tree, make_job(), clock.now)
    table = read_table(tree, clock)
    tree.remove_job(make_job().key)
    update(publisher, [table])
    assert tree.published() == {}


def test_an_answer_between_an_epilog_and_the_next_run_s_prolog_counts(
    publisher, tree, clock, make_job, make_table, tmp_path
):
    """The note on the run before is gone: of its epilog, which the daemon has seen."""
    roster, before = Roster(), make_job(restarts=0)
    put_record(tree, before, clock.now)
    running = make_table(before, taken_at_secs=clock.now)
    update(publisher, [read_table(tree, clock), running], roster)
    tree.remove_job(before.key)
    clock.advance(1)
    update(publisher, [read_table(tree, clock), running], roster)
    clock.advance(1)
    answer = make_table(
        make_job(restarts=1, limits=Limits(wall_secs=60)), taken_at_secs=clock.now, complete=False
    )
    clock.advance(1)
    put_record(tree, make_job(restarts=1), clock.now)
    for _ in range(2):
        update(publisher, [read_table(tree, clock), answer], roster)
        assert publisher.take_withdrawn() == {}
        assert (tmp_path / "features/jobfeatures/slurm-12/wall_limit_secs").read_text() == "60\n"


@pytest.mark.parametrize("how", ["emptied", "removed", "moved"])
def test_who_empties_the_folders_ends_no_job(
    publisher, tree, clock, make_job, make_table, tmp_path, how, caplog
):
    """Somebody cleans up, or mounts over it. No epilog has removed the record and the note."""
    job, roster, source = make_job(), Roster(), HookSource(tree.records_path, clock)
    put_record(tree, job, clock.now)
    running = make_table(job, taken_at_secs=clock.now, complete=False)
    update(publisher, [source.poll_jobs(()), running], roster)
    root = tmp_path / "features"
    if how == "moved":
        root.rename(tmp_path / "elsewhere")
    else:
        shutil.rmtree(root)
    if how == "emptied":
        root.mkdir()
        root.chmod(0o755)
    clock.advance(1)
    tree.prepare()
    for _ in range(2):
        table = source.poll_jobs(())
        assert roster.judge([table, running], now_secs=clock.now).presences == {job.key: Presence.HERE}
        update(publisher, [table, running], roster)
        assert publisher.take_withdrawn() == {}
        assert (root / "jobfeatures/slurm-12/job_id").read_text() == "12\n"
    assert caplog.text.count("were replaced: all is published anew") == 1
    tree.remove_job(job.key)
    assert roster.judge([source.poll_jobs(()), running], now_secs=clock.now).presences == {
        job.key: Presence.HERE
    }  # what the new folder never had proves nothing, but the lost note does
    update(publisher, [running], roster)
    assert publisher.take_withdrawn() == {job.key: clock.now}


def test_a_held_lock_delays_one_job_and_no_other(publisher, tree, clock, make_job, make_table):
    first, second = make_job("1"), make_job("2")
    with tree.locked(first.key):
        update(publisher, [make_table(first, second, taken_at_secs=clock.now)])
    assert [key.job_id for key in tree.published()] == ["2"]
    assert publisher.status.failures == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to lose")
def test_root_without_its_capabilities_is_told_which_it_needs(
    publisher, clock, make_job, make_table, caplog, monkeypatch
):
    """As in a container started with --cap-drop all, or a unit with its own CapabilityBoundingSet."""

    def refuse(*_arguments, **_more):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("jobfeatures.publish.publisher.write_job", refuse)
    update(publisher, [make_table(make_job(), taken_at_secs=clock.now)])
    assert "Operation not permitted; root needs CAP_CHOWN, CAP_FOWNER and" in caplog.text


def test_what_another_user_left_under_an_id_goes_with_its_secret(tree, clock, make_job, make_table, tmp_path):
    """Alice's job has ended unnoticed; Bob's has her id now, and nobody has told the daemon but the controller."""
    publisher = Driven(tree, Site(SiteSettings()), clock)
    alices = make_job(uid=6001, limits=Limits(wall_secs=60))
    update(publisher, [make_table(alices, taken_at_secs=clock.now)])
    token = tree.make_token(alices.key)
    status = tmp_path / "features/jobstatus/slurm-12"
    (status / "used_CPU").write_text("1\n")
    clock.advance(60)
    bobs = make_job(uid=6002, user="bob")
    update(publisher, [make_table(bobs, taken_at_secs=clock.now)])
    assert list(status.iterdir()) == []
    if os.geteuid() == 0:
        assert status.stat().st_uid == 6002
    assert tree.make_token(bobs.key) != token
    assert not (tmp_path / "features/jobfeatures/slurm-12/wall_limit_secs").exists()


def test_a_kept_answer_about_the_user_before_gives_him_nothing_of_the_next(
    tree, clock, make_job, make_table, tmp_path
):
    """The controller gives nothing usable any more, so its source tells at each poll what it knew of Alice's job."""
    publisher = Driven(tree, Site(SiteSettings()), clock)
    alices = make_job(uid=6001, user="alice", name="secret", limits=Limits(wall_secs=60))
    asked_secs = clock.now
    clock.advance(60)
    bobs = make_job(uid=6002, user="bob")
    record = make_table(bobs, source="hooks", complete=False, taken_at_secs=clock.now)
    clock.advance(60)
    kept = replace(
        make_table(alices, taken_at_secs=clock.now, complete=False), reported_secs={alices.key: asked_secs}
    )
    roll = Roster().judge([kept, record], now_secs=clock.now)
    publisher.update(roll)
    assert roll.jobs == {bobs.key: bobs}
    folder = tmp_path / "features"
    assert not (folder / "jobfeatures/slurm-12/wall_limit_secs").exists()
    if os.geteuid() == 0:
        assert (folder / "jobstatus/slurm-12").stat().st_uid == 6002


def test_a_status_directory_of_another_user_is_made_anew_even_where_nothing_else_is_known(
    tree, make_job, tmp_path
):
    if os.geteuid() != 0:
        pytest.skip("needs root to give directories away")
    key = make_job().key
    tree.make_status(key, 6001)
    token = tree.make_token(key)
    tree.make_status(key, 6001)
    assert tree.make_token(key) == token
    tree.make_status(key, 6002)
    assert (tmp_path / "features/jobstatus/slurm-12").stat().st_uid == 6002
    assert tree.make_token(key) != token


def test_a_requeued_run_of_the_same_user_finds_no_status_of_the_run_before(
    publisher, tree, clock, make_job, make_table, tmp_path
):
    update(publisher, [make_table(make_job(restarts=0), taken_at_secs=clock.now)])
    status = tmp_path / "features/jobstatus/slurm-12"
    (status / "used_CPU").write_text("1\n")
    clock.advance(60)
    update(publisher, [make_table(make_job(restarts=1), taken_at_secs=clock.now)])
    assert list(status.iterdir()) == []


def test_a_living_job_s_status_does_not_move(publisher, tree, clock, make_job, make_table, tmp_path):
    """Clocks differ: the prolog says that it started 300 s later than the controller does."""
    roster = Roster()
    for start_secs, source in ((1000, "slurm"), (1300, "hooks"), (1000, "slurm")):
        clock.advance(60)
        job = make_job(start_secs=start_secs)
        update(publisher, [make_table(job, source=source, taken_at_secs=clock.now)], roster)
        status = tmp_path / "features/jobstatus/slurm-12"
        if not list(status.iterdir()):
            (status / "used_CPU").write_text("1\n")
            written = status.stat().st_ino
    assert status.stat().st_ino == written
    assert list(status.iterdir())


def test_the_swap_that_a_control_group_allows_is_told_where_the_batch_system_tells_none(
    publisher, tree, clock, make_job, make_table
):
    def told(limits, **more):
        job = make_job("1", limits=Limits(wall_secs=60, **more))
        update(publisher, [make_table(job, taken_at_secs=clock.now)], swap_limits=limits)
        path = Path(tree.job_path(job.key), "max_swap_bytes")
        return path.read_text() if path.exists() else None

    assert told({}) is None
    assert told({JobKey("slurm", "1"): 2**30}) == f"{2**30}\n"
    origins = parse_origins(Path(tree.origins_path(JobKey("slurm", "1"))).read_text())
    assert origins["max_swap_bytes"] == "slurm: its control group"
    assert told({JobKey("slurm", "1"): 2**20}) == f"{2**20}\n"
    assert told({JobKey("slurm", "1"): 2**30}, swap_bytes=5) == "5\n"
