"""The tree that is followed, against a walk that lists everything each time."""

import errno
import os
import shutil

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobfeatures.system import inotify
from jobfeatures.system.inotify import Inotify, InotifyEvent
from jobfeatures_exporter.sampling.groups import grouptree
from jobfeatures_exporter.sampling.groups.grouptree import (
    Change,
    GroupTree,
    compute_shapes_below,
    find_candidates,
    list_subdirectories,
)
from tests.running import NO_INOTIFY, count_watches

SHAPES = frozenset({("slurm*", "uid_*", "job_*"), ("*slurmstepd.scope", "[js]*"), ("htcondor", "condor_*")})
BELOW = frozenset({("torque", "[0-9]*")})  # without a mark of its own: where a setting says so
NAMES = ["a.slice", "x", "slurm", "uid_1", "job_1", "n1_slurmstepd.scope", "htcondor", "torque", "7", "user"]
PARENTS = [
    "",
    "/x",
    "/a.slice",
    "/a.slice/x",
    "/x/x",
    "/slurm",
    "/x/slurm/uid_1",
    "/user",
    "/x/n1_slurmstepd.scope",
]


def shapes_at(path):
    return SHAPES | BELOW if path == "/a.slice" else SHAPES


def skips(path):
    return path.endswith("/user")


def walked(top):
    """Return candidates, jobs, and the directories above jobs, by listing all."""
    candidates, jobs, above = set(), set(), set()

    def walk(path, expected):
        above.add(path)
        for name in sorted(
            each.name for each in os.scandir(f"{top}{path}") if each.is_dir(follow_symlinks=False)
        ):
            marked = compute_shapes_below(shapes_at(path), name)
            below = marked | compute_shapes_below(expected, name)
            if () not in below and skips(f"{path}/{name}"):
                continue
            if marked:
                candidates.add(path)
            if () in below:
                jobs.add(f"{path}/{name}")
            else:
                walk(f"{path}/{name}", below)

    walk("", frozenset())
    return candidates, jobs, above


class Kernel(Inotify):
    """Inotify as it is, or as a kernel that refuses watches or loses notifications."""

    def __init__(self, granted=1 << 30):
        super().__init__()
        self.granted = granted
        self.watched = {}
        self.loses = False

    def add(self, path, mask):
        if self.granted <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self.granted -= 1
        watch = super().add(path, mask)
        self.watched[watch] = path, mask
        return watch

    def remove(self, watch):
        self.watched.pop(watch, None)
        super().remove(watch)

    def notices(self):
        pending = list(super().notices())
        for each in pending:
            if each.mask & inotify.IGNORED:
                self.watched.pop(each.watch, None)
        if self.loses and pending:
            self.loses = False
            pending = [*pending[: len(pending) // 2], InotifyEvent(-1, inotify.OVERFLOW, "")]
        return iter(pending)


@pytest.fixture
def followed(tmp_path):
    """Return a function that follows a new tree; it returns tree, the kernel and the top."""
    made = []

    def follow(kernel=None, **more):
        made.append(kernel or Kernel())
        if len(made) > 1:
            made[-2].close()  # a user may have but 128, fewer than a property has examples
        top = tmp_path / f"top{len(made)}"
        top.mkdir()
        tree = GroupTree(shapes_at, skips, made[-1], **more)
        tree.walk([str(top)])
        return tree, made[-1], str(top)

    yield follow
    for each in made:
        each.close()


def change(top, step):
    """Make, remove or rename a directory, or none of it where that is impossible."""
    kind, parent, name, other = step
    path = f"{top}{parent}/{name}"
    try:
        if kind == "make":
            os.mkdir(path)
        elif kind == "make all":
            os.makedirs(f"{path}/{other}")
        elif kind == "remove":
            os.rmdir(path)
        elif kind == "remove all":
            shutil.rmtree(path)
        else:
            os.rename(path, f"{top}{parent}/{other}")
    except OSError:
        pass


KINDS = ["make", "make", "make all", "make all", "remove", "remove all", "rename"]
NAME = st.sampled_from(NAMES)
STEP = st.tuples(st.sampled_from(KINDS), st.sampled_from(PARENTS), NAME, NAME)
# Steps, each with what comes after it: nothing, the notifications are read, or some of them have been lost.
HISTORY = st.lists(st.tuples(STEP, st.sampled_from(["", "", "read", "lost"])), min_size=20, max_size=120)


def watched(kernel, top, mask):
    """Return the directories, from the top, in which the kernel watches for this."""
    return {
        path[len(top) :] for path, asked in kernel.watched.values() if asked & mask and path.startswith(top)
    }


@given(HISTORY)
def test_the_tree_that_is_followed_is_the_one_that_is_there(followed, history):
    tree, kernel, top = followed()
    for step, then in history:
        change(top, step)
        if then:
            kernel.loses = then == "lost"
            list(tree.follow())
    list(tree.follow())
    candidates, jobs, above = walked(top)
    assert tree.candidates() == candidates == find_candidates([top], shapes_at, skips)
    assert watched(kernel, top, inotify.CREATE) == above
    assert watched(kernel, top, inotify.DELETE) == above | jobs
    assert (tree.unwatched, tree.problem) == ({}, "")


def is_in_container(path):
    return path == "/x" or path.startswith("/x/")


@given(HISTORY)
def test_so_it_is_where_what_is_in_containers_is_followed_apart(followed, history):
    slow = Kernel()
    try:
        tree, kernel, top = followed(slow=slow, is_in_container=is_in_container)
        for step, then in history:
            change(top, step)
            if then:
                slow.loses = then == "lost"
                list(tree.follow())
        list(tree.follow())
        candidates, jobs, above = walked(top)
        assert tree.candidates() == candidates
        fast, other = (watched(each, top, inotify.DELETE) for each in (kernel, slow))
        assert fast | other == above | jobs
        assert all(map(is_in_container, other))
        assert fast & other == set()
        assert other & (candidates | jobs) == set()  # where jobs may be is urgent
    finally:
        slow.close()


@given(HISTORY, st.integers(0, 40))
def test_where_watches_are_refused_the_rest_is_listed_again(followed, history, granted):
    tree, kernel, top = followed(Kernel(granted))
    for step, then in history:
        change(top, step)
        if then:
            kernel.loses = then == "lost"
            list(tree.follow())
    list(tree.follow())
    tree.walk([top])
    assert tree.candidates() == walked(top)[0]
    if tree.unwatched:
        assert tree.problem == "No space left on device"
    kernel.granted = 1 << 30
    tree.walk([top])
    list(tree.follow())
    assert (
        watched(kernel, top, inotify.CREATE) == walked(top)[2]
    )  # jobs that were there meanwhile are the samples'
    assert (tree.unwatched, tree.problem) == ({}, "")


MADE_AGAIN = [
    (("make", "", "x", "x"), ""),
    (("remove", "", "x", "x"), ""),
    (("make all", "/x/slurm/uid_1", "x", "x"), ""),
]


@given(HISTORY, st.integers(1, 30))
@example(MADE_AGAIN, 6)
@example(MADE_AGAIN, 30)
def test_beyond_our_own_bound_too(followed, history, most):
    bounds = pytest.MonkeyPatch()
    bounds.setattr(grouptree, "MAX_WATCHES", most)
    try:
        tree, kernel, top = followed()
        for step, then in history:
            change(top, step)
            if then:
                list(tree.follow())
        list(tree.follow())
        tree.walk([top])
        assert tree.candidates() == walked(top)[0]
        assert len(kernel.watched) <= most
    finally:
        bounds.undo()


@given(HISTORY)
def test_without_inotify_a_listing_tells_all(tmp_path_factory, history):
    top = str(tmp_path_factory.mktemp("top"))
    kernel = pytest.MonkeyPatch()
    kernel.setattr(inotify, "_libc", NO_INOTIFY)
    notifier = Inotify()
    try:
        tree = GroupTree(shapes_at, skips, notifier)
        for step, _ in history:
            change(top, step)
        tree.walk([top])
        assert tree.candidates() == walked(top)[0]
        assert tree.problem == "Too many open files"
    finally:
        kernel.undo()
        notifier.close()


def test_a_job_below_a_prefix_never_thought_of_is_told_at_once(followed):
    tree, _, top = followed()
    os.makedirs(f"{top}/site.slice/pod/n7_slurmstepd.scope/job_5")
    assert list(tree.follow()) == [(Change.BEGAN, f"{top}/site.slice")]
    assert tree.candidates() == {"/site.slice/pod"}
    os.mkdir(f"{top}/site.slice/pod/n7_slurmstepd.scope/job_6")
    assert list(tree.follow()) == [(Change.BEGAN, f"{top}/site.slice/pod/n7_slurmstepd.scope/job_6")]
    os.rmdir(f"{top}/site.slice/pod/n7_slurmstepd.scope/job_5")
    assert list(tree.follow()) == [(Change.ENDED, f"{top}/site.slice/pod/n7_slurmstepd.scope/job_5")]


def test_in_a_container_all_is_urgent_as_soon_as_there_is_a_sign_of_jobs(followed):
    slow = Kernel()
    tree, _, top = followed(slow=slow, is_in_container=is_in_container)
    os.makedirs(f"{top}/x/pod")
    assert list(tree.follow(is_slow=False)) == []
    assert len(slow.watched) == 2
    os.makedirs(f"{top}/x/pod/n7_slurmstepd.scope")
    assert list(tree.follow(is_slow=False)) == []
    assert tree.candidates() == set()
    list(tree.follow())
    assert tree.candidates() == {"/x/pod"}
    for scope in ("n7", "n8"):  # neither the job nor another daemon's waits
        os.makedirs(f"{top}/x/pod/{scope}_slurmstepd.scope/job_5")
        [(change, path)] = tree.follow(is_slow=False)
        assert (change, path.startswith(f"{top}/x/pod/{scope}_slurmstepd.scope")) == (Change.BEGAN, True)
    slow.close()


def test_where_no_second_instance_is_to_be_had_the_first_follows_all(followed):
    kernel = pytest.MonkeyPatch()
    kernel.setattr(inotify, "_libc", NO_INOTIFY)
    slow = Inotify()
    kernel.undo()
    tree, kernel, top = followed(slow=slow, is_in_container=is_in_container)
    os.makedirs(f"{top}/x/pod")
    list(tree.follow(is_slow=False))
    assert watched(kernel, top, inotify.CREATE) == {"", "/x", "/x/pod"}
    assert tree.problem == ""
    slow.close()


def test_a_renamed_directory_is_followed_by_its_new_name_and_the_old_name_anew(followed):
    tree, _, top = followed()
    os.makedirs(f"{top}/x/y/slurm")
    list(tree.follow())
    os.rename(f"{top}/x", f"{top}/z")
    list(tree.follow())
    assert tree.candidates() == {"/z/y"}
    os.makedirs(f"{top}/x/y/htcondor")
    list(tree.follow())
    os.makedirs(f"{top}/x/y/w/slurm")
    list(tree.follow())
    assert tree.candidates() == {"/x/y", "/x/y/w", "/z/y"}


def test_a_directory_that_takes_another_s_place_is_followed(followed):
    tree, _, top = followed()
    os.makedirs(f"{top}/x/y")
    os.mkdir(f"{top}/z")
    list(tree.follow())
    os.rename(f"{top}/x", f"{top}/z")
    list(tree.follow())
    os.mkdir(f"{top}/z/y/slurm")
    list(tree.follow())
    assert tree.candidates() == {"/z/y"}


def test_what_goes_or_comes_where_nothing_is_watched_is_seen_with_the_next_listing(followed):
    kernel = Kernel(granted=2)
    tree, _, top = followed(kernel)
    os.makedirs(f"{top}/x/y/slurm")
    list(tree.follow())
    assert tree.candidates() == {"/x/y"}
    assert list(tree.unwatched) == [f"{top}/x/y"]
    os.rename(f"{top}/x/y/slurm", f"{top}/x/y/z")
    os.makedirs(f"{top}/x/y/z/htcondor")
    assert list(tree.follow()) == []
    kernel.granted = 1  # the hierarchy's top is asked for
    tree.walk([top])
    assert tree.candidates() == {"/x/y/z"}
    shutil.rmtree(f"{top}/x/y")
    list(tree.follow())
    assert tree.candidates() == set()


def test_a_change_of_the_candidates_is_told(followed):
    told = []
    tree, _, top = followed(on_candidates=lambda: told.append(tree.candidates()))
    os.makedirs(f"{top}/x/htcondor/condor_slot1")
    os.makedirs(f"{top}/y/z")
    list(tree.follow())
    assert told == [{"/x"}]
    shutil.rmtree(f"{top}/x/htcondor")
    list(tree.follow())
    assert told == [{"/x"}, set()]


def test_what_is_skipped_and_what_is_below_a_job_is_nobody_s_business(followed):
    tree, _, top = followed()
    os.makedirs(f"{top}/user/slurm/uid_1/job_1")
    os.makedirs(f"{top}/slurm/uid_1/job_1/slurm/uid_1/job_2")
    list(tree.follow())
    before = count_watches()
    os.makedirs(f"{top}/user/slurm_x/uid_1/job_1")
    os.makedirs(f"{top}/slurm/uid_1/job_1/slurmstepd.scope/job_1")
    assert list(tree.follow()) == []
    assert tree.candidates() == {""}
    assert count_watches() == before


def test_a_hierarchy_that_comes_later_or_is_another_is_listed(followed, tmp_path):
    tree, _, top = followed()
    other = tmp_path / "other"
    (other / "x/slurm/uid_1/job_1").mkdir(parents=True)
    tree.walk([top, str(other)])
    assert tree.candidates() == {"/x"}
    shutil.rmtree(other)
    (other / "y/slurm").mkdir(parents=True)
    tree.walk([top, str(other)])
    assert tree.candidates() == {"/y"}


def test_more_directories_than_one_listing_takes_are_counted_and_listed_again(followed, monkeypatch):
    monkeypatch.setattr(grouptree, "MAX_LISTED", 20)
    tree, kernel, top = followed()
    for number in range(30):
        os.makedirs(f"{top}/x/{number}")
    list(tree.follow())
    assert tree.problem == "more than 20 directories"
    assert list(tree.unwatched) == [f"{top}/x"]
    assert len(watched(kernel, top, inotify.CREATE)) == 22
    os.makedirs(f"{top}/x/new/slurm")
    list(tree.follow())
    assert tree.candidates() == {"/x/new"}
    tree.walk([top])
    assert tree.candidates() == {"/x/new"}
    assert watched(kernel, top, inotify.CREATE) == walked(top)[2]
    assert (tree.unwatched, tree.problem) == ({}, "")


def test_half_of_the_watches_of_a_user_are_left_to_others(followed, monkeypatch, tmp_path):
    (tmp_path / "limit").write_text("8\n")
    monkeypatch.setattr(grouptree, "_LIMIT_FILE", str(tmp_path / "limit"))
    before = count_watches()
    tree, _, top = followed()
    for number in range(9):
        os.makedirs(f"{top}/{number}")
    list(tree.follow())
    assert count_watches() == before + 3  # and one for a job
    assert tree.problem == "more than 3 watches"
    assert len(tree.unwatched) == 7


def test_file_systems_that_count_no_subdirectories_are_listed_too(tmp_path, monkeypatch):
    (tmp_path / "x").mkdir()
    (tmp_path / "file").touch()
    assert list_subdirectories(str(tmp_path)) == ["x"]
    assert list_subdirectories(str(tmp_path / "x")) == []
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path: os.stat_result((*stat(path)[:3], 1, *stat(path)[4:])))
    assert list_subdirectories(str(tmp_path)) == ["x"]
