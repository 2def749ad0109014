import errno
import os
import shutil

import pytest

from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.groups import memorytree
from jobfeatures_exporter.sampling.groups.groupfiles import GroupFiles
from jobfeatures_exporter.sampling.groups.memorytree import RELIST_SAMPLES, WALK_SAMPLES, MemoryTree


@pytest.fixture
def unreadable():
    return Unreadable()


@pytest.fixture
def job(tmp_path):
    return tmp_path / "job_1"


@pytest.fixture
def read(job, unreadable):
    """Return a function that takes one look, at which the node counts so many kills."""
    files = GroupFiles(DescriptorBudget(), unreadable)
    tree = MemoryTree(str(job), files, unreadable)

    def read(node_kills=None):
        files.number += 1
        return tree.read(node_kills)

    yield read
    files.close()


def count(path, *, kills: int | None = 0, hits: int = 0) -> None:
    path.mkdir(parents=True, exist_ok=True)
    line = "" if kills is None else f"oom_kill {kills}\n"
    (path / "memory.oom_control").write_text(f"oom_kill_disable 0\nunder_oom 0\n{line}")
    (path / "memory.failcnt").write_text(f"{hits}\n")


def test_every_group_below_the_job_counts_for_itself(job, read):
    count(job, hits=174)
    count(job / "step_0")
    count(job / "step_0/task_0", kills=1)
    assert read() == {
        "oom_kills": {"": (0,), "/step_0": (0,), "/step_0/task_0": (1,)},
        "limit_hits": {"": (174,), "/step_0": (0,), "/step_0/task_0": (0,)},
    }


def test_kills_are_read_when_the_node_has_counted_one(job, read):
    count(job, kills=1)
    assert read(5)["oom_kills"] == {"": (1,)}
    count(job, kills=2)
    assert read(5)["oom_kills"] == {"": (1,)}
    assert read(6)["oom_kills"] == {"": (2,)}


def test_a_group_that_is_new_is_read_although_nothing_was_killed_since(job, read):
    count(job)
    read(5)
    count(job / "step_0", kills=4)
    found = [read(5)["oom_kills"] for _ in range(WALK_SAMPLES)]
    assert found[-1] == {"": (0,), "/step_0": (4,)}


def test_limit_hits_are_read_at_every_look(job, read):
    count(job, hits=1)
    read(5)
    count(job, hits=2)
    assert read(5)["limit_hits"] == {"": (2,)}


def test_a_node_that_counts_no_kills_has_its_groups_read(job, read):
    count(job, kills=1)
    read()
    count(job, kills=2)
    assert read()["oom_kills"] == {"": (2,)}


def test_steps_that_come_and_go_are_noticed(job, read, unreadable):
    count(job)
    assert read()["oom_kills"] == {"": (0,)}
    count(job / "step_0", kills=3)
    assert read()["oom_kills"] == {"": (0,), "/step_0": (3,)}
    shutil.rmtree(job / "step_0")
    assert read()["oom_kills"] == {"": (0,)}
    shutil.rmtree(job)
    assert read() == {}
    assert unreadable.counts == {}


def test_a_step_that_takes_the_place_of_another_is_noticed_soon(job, read):
    count(job)
    count(job / "step_0")
    read()
    shutil.rmtree(job / "step_0")
    count(job / "step_1")
    looks = [read()["oom_kills"] for _ in range(RELIST_SAMPLES)]
    assert looks[-1] == {"": (0,), "/step_1": (0,)}


def test_an_old_kernel_counts_no_kills_and_that_is_not_zero(job, read):
    count(job, kills=None, hits=5)
    assert read() == {"limit_hits": {"": (5,)}}


def test_one_group_that_cannot_be_read_leaves_the_sum_unknown(job, read, unreadable, fail_opening):
    count(job)
    count(job / "step_0")
    fail_opening("step_0/memory.failcnt", errno.EACCES)
    assert read() == {"oom_kills": {"": (0,), "/step_0": (0,)}, "limit_hits": None}
    assert unreadable.counts == {"job_memory_failcnt_eacces": 1}


def test_groups_that_cannot_be_listed_leave_both_unknown(job, read, unreadable, monkeypatch):
    count(job)

    def fail(path):
        raise OSError(errno.EIO, "x", path)

    monkeypatch.setattr(os, "scandir", fail)
    assert read() == {"oom_kills": None, "limit_hits": None}
    assert unreadable.counts == {"job_memory_groups_eio": 1}


def test_a_job_of_very_many_groups_does_not_take_the_sampler_with_it(job, read, monkeypatch):
    monkeypatch.setattr(memorytree, "MAX_GROUPS", 3)
    count(job)
    for number in range(9):
        count(job / f"step_{number}")
    assert len(read()["oom_kills"]) == 3


def test_links_lead_nowhere(job, read, tmp_path):
    count(job)
    count(tmp_path / "other", kills=9)
    (job / "step_0").symlink_to(tmp_path / "other")
    assert read()["oom_kills"] == {"": (0,)}
