"""An exporter in a control group namespace of its own. Constructed; texts as Linux 6.18 and 6.1 print them."""

import errno

import pytest

from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.processes import namespace as namespaces
from jobfeatures_exporter.sampling.processes.namespace import GroupNamespace


@pytest.fixture
def make(tmp_path):
    """Return a function that makes control groups, in one of which process 77 is us."""

    def make(*groups, ours, top=""):
        (tmp_path / top).mkdir(exist_ok=True)
        if not top:
            (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
        for group in ("", *groups, ours):
            folder = tmp_path / top / group
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cgroup.procs").write_text("1\n177\n77\n" if group == ours else "7\n777\n")
        return GroupNamespace(str(tmp_path), Unreadable(), pid=77)

    return make


OURS = "system.slice/podman-1.scope/container"


@pytest.mark.parametrize(
    ("told", "path"),
    [
        ("/../../../slurm.slice/n1_slurmstepd.scope/job_7", "/slurm.slice/n1_slurmstepd.scope/job_7"),
        ("/../../slurmstepd.scope/job_7/step_0", "/system.slice/slurmstepd.scope/job_7/step_0"),
        ("/../other", "/system.slice/podman-1.scope/other"),
        ("/../../..", "/"),
        ("/", "/"),
        ("/below/..us", "/below/..us"),
        ("/../../../a:b/c", "/a:b/c"),
    ],
)
def test_paths_are_those_from_the_root(make, told, path):
    namespace = make("system.slice/other", OURS.rpartition("/")[0], "system.slice", ours=OURS)
    assert namespace.absolute(f"0::{told}\n") == f"0::{path}\n"


def test_each_hierarchy_of_v1_has_a_path_of_its_own(make):
    make("a", ours="a/b", top="memory")
    namespace = make(ours="docker", top="cpu,cpuacct")
    told = "9:name=systemd:/../x\n4:memory:/../../slurm/uid_1/job_2\n3:cpu,cpuacct:/../slurm/uid_1/job_2\n"
    assert namespace.absolute(told) == "4:memory:/slurm/uid_1/job_2\n3:cpu,cpuacct:/slurm/uid_1/job_2\n"


def test_what_cannot_be_known_is_left_out_and_counted(tmp_path, make):
    make("a", ours="a/b")
    unreadable = Unreadable()
    namespace = GroupNamespace(str(tmp_path), unreadable, pid=5)
    for _ in range(2):
        assert namespace.absolute("0::/../../slurm/uid_1/job_2\n") == ""
    assert sum(unreadable.counts.values()) == 1
    assert make("a", ours="a/b").absolute("0::/../../../x\n") == ""  # above the root: no such path


def test_a_group_that_vanishes_while_ours_is_looked_for_hides_nothing(tmp_path, make):
    namespace = make("a/b", ours="z")
    assert not (tmp_path / "a/cgroup.procs").exists()
    assert namespace.absolute("0::/../x\n") == "0::/x\n"


def test_it_is_looked_for_again_later_if_it_could_not_be_read(tmp_path, make, monkeypatch):
    monkeypatch.setattr(namespaces, "FIND_AGAIN", 3)
    namespace = make("a", ours="z")
    (tmp_path / "z/cgroup.procs").rename(tmp_path / "z/away")
    assert [namespace.absolute("0::/../x\n") for _ in range(2)] == ["", ""]
    (tmp_path / "z/away").rename(tmp_path / "z/cgroup.procs")
    assert [namespace.absolute("0::/../x\n") for _ in range(2)] == ["", "0::/x\n"]


def test_a_threaded_group_whose_processes_no_kernel_tells_is_no_failure(tmp_path, make, fail_opening):
    fail_opening("/a/cgroup.procs", errno.EOPNOTSUPP)
    make("a", ours="a/z")
    unreadable = Unreadable()
    assert GroupNamespace(str(tmp_path), unreadable, pid=77).absolute("0::/../x\n") == "0::/a/x\n"
    assert unreadable.counts == {}


def test_nothing_is_looked_for_where_paths_are_from_the_root():
    assert GroupNamespace("/nonexistent", Unreadable()).absolute("0::/a/..b\n") == "0::/a/..b\n"
