"""Where a batch system's processes stand, by a /proc of constructed processes."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from jobfeatures_exporter.model.missing import DaemonGroups
from jobfeatures_exporter.state.daemongroups import GroupReader, container_of, parent_of, pattern_of

POD = (
    "/kubepods.slice/kubepods-pod0a1b2c3d_0a1b_0a1b_0a1b_0123456789ab.slice/cri-containerd-"
    + "0123456789abcdef" * 4
)
SERVICE = "/system.slice/slurmd.service"


@pytest.fixture
def runs(tmp_path: Path):
    """Return what puts a process there; and the reader."""

    def runs(
        pid: int, command: str, *groups: str, parent: int = 1, uid: int = 0, inner: str = "", named=()
    ) -> GroupReader:
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} ({command}) S {parent} 1 1 0\n")
        (folder / "status").write_text(f"Name:\tx\nUid:\t{uid}\t0\t0\t0\nNSpid:\t{pid}{inner}\n")
        (folder / "cgroup").write_text("".join(f"{n}:c{n}:{each}\n" for n, each in enumerate(groups)))
        return GroupReader(str(tmp_path), str(tmp_path / "none"), named=named)

    return runs


@pytest.mark.parametrize(
    ("path", "job_id", "parent"),
    [
        ("/a.slice/n1_slurmstepd.scope/job_4/step_0/user/task_0", "4", "/a.slice"),
        (f"{POD}.scope/system.slice/slurmstepd.scope/job_4", "4", f"{POD}.scope/system.slice"),
        ("/pbspro.service/jobid/123.srv", "123", "/pbspro.service"),
        ("/pbspro/123.srv", "123", "/pbspro"),
        ("/pbspro/1123.srv", "123", None),
        ("/pbspro/x123.srv", "123", None),
        ("/123.srv", "123", "/"),
        (SERVICE, "4", None),
        ("/", "4", None),
        ("/", "", None),
    ],
)
def test_what_a_job_s_group_stands_below(path: str, job_id: str, parent: str | None) -> None:
    assert parent_of(path, job_id) == parent


def test_a_number_in_the_daemon_s_own_group_is_no_job_s() -> None:
    above = "/machine.slice/x-7.scope/pbs.service"
    assert parent_of("/machine.slice/x-7.scope/pbspro/7.srv", "7", above) == "/machine.slice/x-7.scope/pbspro"
    assert parent_of("/machine.slice/x-7.scope/other", "7", above) is None


def test_what_a_job_makes_in_its_own_group_is_no_parent() -> None:
    forged = "/pbspro/7.srv/jobid/9.srv"
    assert parent_of(forged, "7") == "/pbspro"


def test_groups_that_cannot_be_told_do_not_prove_that_none_are_made(runs) -> None:
    runs(40, "pbs_mom", "/../../x")
    reader = runs(41, "sh", "/../../x", parent=40)
    assert reader.of_system("pbs", ["4"]) == DaemonGroups("pbs_mom", "")


def test_ids_that_change_are_left_open_in_what_is_to_be_set() -> None:
    assert pattern_of(f"{POD}.scope") == "/kubepods.slice/kubepods-pod*.slice/cri-containerd-*.scope"
    assert pattern_of("/site/a[1]*") == "/site/a[[]1][*]"
    parent = '/machine.slice/a\\x2db",\x1bc'
    pattern = pattern_of(parent)
    assert tomllib.loads(f'x = ["{pattern}"]') == {"x": ["/machine.slice/a?x2db???c"]}
    assert fnmatchcase(parent, pattern)


def test_a_container_is_named_by_its_own_group_never_by_all_of_kubernetes() -> None:
    assert container_of(f"{POD}.scope/system.slice/slurmd.service") == f"{POD}.scope"
    assert container_of(f"/docker/{'0123456789abcdef' * 4}/x") == f"/docker/{'0123456789abcdef' * 4}"
    assert container_of("/kubepods.slice/kubepods-pod1.slice") is None
    assert container_of(SERVICE) is None


def test_the_daemon_and_its_jobs_groups_are_named(runs) -> None:
    runs(40, "slurmd", SERVICE)
    runs(50, "slurmstepd", "/a.slice/b/n1_slurmstepd.scope/job_4/step_0/slurm")
    runs(51, "sleep", "/a.slice/b/n1_slurmstepd.scope/job_4/step_0/user/task_0", parent=50, uid=1000)
    reader = runs(52, "cron", "/b.slice/n1_slurmstepd.scope/job_4")  # nothing of Slurm's
    assert reader.of_system("slurm", ["4"]) == DaemonGroups("slurmd", SERVICE, ("/a.slice/b",))


def test_of_several_daemons_on_a_host_that_of_this_node_is_named(runs, tmp_path: Path) -> None:
    runs(40, "slurmd", "/system.slice/n1_slurmstepd.scope/slurmd")
    runs(41, "slurmd", "/one.slice/n2_slurmstepd.scope/slurmd")
    runs(42, "slurmd", SERVICE)
    (tmp_path / "42" / "cmdline").write_bytes(b"slurmd\0-N\0n3\0")
    for node, group in (("n2", "/one.slice/n2_slurmstepd.scope/slurmd"), ("n3", SERVICE)):
        assert GroupReader(str(tmp_path), "", node).of_system("slurm", ["4"]).group == group


def test_a_program_that_a_user_calls_slurmd_is_none(runs) -> None:
    runs(40, "slurmd", "/a.slice/n1_slurmstepd.scope/job_4", uid=1000)
    reader = runs(41, "slurmstepd", "/a.slice/n1_slurmstepd.scope/job_4", uid=1000)
    assert reader.of_system("slurm", ["4"]) == DaemonGroups("slurmd")


def test_what_a_user_can_make_is_never_to_be_set(runs) -> None:
    runs(40, "slurmd", SERVICE)
    reader = runs(41, "x", "/user.slice/user-7.slice/user@7.service/slurmstepd.scope/job_4", parent=40, uid=7)
    assert reader.of_system("slurm", ["4"]).parents == ()


def test_a_daemon_whose_processes_all_stand_in_its_group_makes_none(runs) -> None:
    runs(40, "pbs_mom", "/", "/system.slice/pbs.service")
    runs(41, "sh", "/", "/system.slice/pbs.service", parent=40, uid=7)
    reader = runs(42, "sleep", "/", "/system.slice/pbs.service", parent=41, uid=7)
    assert reader.of_system("pbs", ["4"]) == DaemonGroups(
        "pbs_mom", "/system.slice/pbs.service", (), makes_none=True
    )


def test_a_daemon_in_a_container_is_believed_to_make_none_where_that_is_named(runs) -> None:
    runs(40, "slurmd", "/docker/0123", inner="\t1")
    reader = runs(41, "slurmstepd", "/docker/0123", parent=40, inner="\t7")
    assert reader.of_system("slurm", ["4"]) == DaemonGroups("slurmd", "/docker/0123")
    reader = runs(42, "cron", "/", named=["/docker/*"])
    assert reader.of_system("slurm", ["4"]).makes_none


def test_a_program_that_root_in_a_container_calls_slurmd_neither_hides_nor_makes_jobs_without_group(
    runs,
) -> None:
    runs(40, "slurmd", "/docker/0123", inner="\t1")
    runs(41, "slurmstepd", "/docker/0123/a", parent=40, inner="\t7")
    runs(50, "slurmd", SERVICE)
    reader = runs(51, "slurmstepd", SERVICE, parent=50)
    assert reader.of_system("slurm", ["4"])[:2] == ("slurmd", SERVICE)
    assert reader.of_system("slurm", ["4"]).makes_none
    reader = runs(52, "slurmstepd", "/a.slice/n1_slurmstepd.scope/job_4", parent=50)
    assert not reader.of_system("slurm", ["4"]).makes_none


def test_where_nothing_runs_of_a_job_it_needs_no_group_but_where_a_supervisor_ought_to(runs) -> None:
    runs(40, "pbs_mom", "/system.slice/pbs.service")
    reader = runs(41, "slurmd", SERVICE)
    assert reader.of_system("pbs", ["4"]).makes_none
    assert not reader.of_system("slurm", ["4"]).makes_none


def test_a_place_that_is_known_need_not_be_set(runs) -> None:
    runs(40, "slurmd", SERVICE)
    reader = runs(50, "slurmstepd", "/system.slice/n1_slurmstepd.scope/job_4/step_0/slurm")
    assert reader.of_system("slurm", ["5"]).parents == ()


def test_who_sees_too_few_processes_is_told_why(tmp_path: Path, runs) -> None:
    assert "hidepid" in GroupReader(str(tmp_path), "").why_unseen()
    assert "run here" in runs(1, "init", "/").why_unseen()
