"""Which hierarchies there are, and which of their directories are jobs."""

import pytest

from jobfeatures_exporter.sampling.groups.cgroup import (
    JobCgroups,
)
from jobfeatures_exporter.sampling.layout.hierarchy import (
    find_hierarchies,
    has_local_events,
)
from tests.exporter.sampling.groups.made import listed


def test_separate_hierarchies_of_v1_are_found(fixtures):
    root = str(fixtures / "cgroup-v1")
    assert find_hierarchies(root) == {
        controller: f"{root}/{controller}"
        for controller in ("blkio", "cpuacct", "cpuset", "freezer", "memory")
    }


def test_hierarchies_mounted_together_are_found_behind_no_link(tmp_path):
    for name in ("cpu,cpuacct", "memory", "unified", "systemd"):
        (tmp_path / name).mkdir()
    (tmp_path / "cpuacct").symlink_to("cpu,cpuacct")
    assert find_hierarchies(str(tmp_path)) == {
        "cpu": f"{tmp_path}/cpu,cpuacct",
        "cpuacct": f"{tmp_path}/cpu,cpuacct",
        "memory": f"{tmp_path}/memory",
        "unified": f"{tmp_path}/unified",
    }


def test_v2_is_found(fixtures):
    root = str(fixtures / "cgroup-v2")
    assert find_hierarchies(root) == {"unified": root}


def test_no_hierarchy_is_found_where_there_is_none(tmp_path):
    assert find_hierarchies(str(tmp_path)) == {}
    with pytest.raises(FileNotFoundError):
        find_hierarchies(str(tmp_path / "nothing"))


def test_a_job_below_a_container_is_not_found(node, unreadable):
    node.job_v1("docker/abc/slurm/uid_1/job_2")
    assert listed(node.cgroup, unreadable) == []


def test_what_users_and_others_make_is_no_job(node, unreadable):
    node.job_v2("user.slice/user-1.slice/slurmstepd.scope/job_99")
    node.job_v2("job_2")
    node.job_v2("job_2/step_0/user/task_0/job_98")
    node.job_v2("system")
    node.job_v2("job_x")
    (node.cgroup / "system.slice/slurmstepd.scope/job_7").write_text("a file")
    (node.cgroup / "system.slice/slurmstepd.scope/job_8").symlink_to("job_2")
    assert [each.path for each in listed(node.cgroup, unreadable)] == ["/system.slice/slurmstepd.scope/job_2"]


def test_jobs_that_only_a_cpuset_knows_are_found_and_else_its_paths_are_those_of_the_others(node, unreadable):
    (node.cgroup / "cpuset/slurm/uid_1/job_2").mkdir(parents=True)
    (directory,) = listed(node.cgroup, unreadable)
    assert directory.groups.keys() == {"cpuset"}
    node.job_v1("slurm/uid_1/job_3")
    (directory,) = listed(node.cgroup, unreadable)
    assert directory.groups == {
        "cpuacct": f"{node.cgroup}/cpu,cpuacct/slurm/uid_1/job_3",
        "memory": f"{node.cgroup}/memory/slurm/uid_1/job_3",
        "cpuset": f"{node.cgroup}/cpuset/slurm/uid_1/job_3",
        "cpu": f"{node.cgroup}/cpu,cpuacct/slurm/uid_1/job_3",
    }


@pytest.mark.parametrize("path", ["slurm/uid_1/job_2", "torque/2.head"])
def test_a_job_with_a_memory_group_alone_is_found_beside_others_that_have_more(
    node, budget, unreadable, path
):
    node.job_v1("slurm/uid_1/job_3")
    group = node.cgroup / "memory" / path
    group.mkdir(parents=True)
    groups = JobCgroups(str(node.cgroup), budget, unreadable)
    for _ in range(2):  # one that is known is found again
        [found] = (each for each in groups.update().directories if each.membership.job_id == "2")
        assert (found.path, found.groups["memory"]) == (f"/{path}", str(group))
        assert found.unique_name.startswith(f"/{path}@{group.stat().st_ino}#")  # the next one is another
        assert "cpuacct" not in found.groups
    group.rmdir()
    found = groups.update()
    assert [each.membership.job_id for each in found.directories] == ["3"]
    groups.close()


@pytest.mark.parametrize(
    ("line", "is_local"),
    [
        (
            "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nsdelegate,memory_localevents,memory_recursiveprot 0 0\n",
            True,
        ),
        ("cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nsdelegate,memory_recursiveprot 0 0\n", False),
        ("memory_localevents /mnt tmpfs rw,memory_localevents 0 0\n", False),
        ("cgroup2\n", False),
    ],
)
def test_it_is_known_whether_events_of_the_groups_below_are_left_out(tmp_path, line, is_local):
    """Constructed after mount_options of Linux's kernel/cgroup/cgroup.c."""
    mounts = tmp_path / "mounts"
    assert not has_local_events(str(tmp_path / "none"))
    mounts.write_text(f"proc /proc proc rw 0 0\n{line}")
    assert has_local_events(str(mounts)) is is_local
