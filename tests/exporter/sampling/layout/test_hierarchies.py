"""What holds for every batch system: which part of a path, and which line, proves something."""

import fnmatch
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.groups import Membership, unescape
from jobfeatures_exporter.model.snapshot import Kind, UnitKey
from jobfeatures_exporter.sampling.layout.hierarchies import (
    BATCH_HIERARCHIES,
    Parent,
    Places,
    find_parent,
    is_no_place,
    layouts_at,
    match_path,
    match_unit,
    parse_process_cgroup,
)
from tests.together import together

V2 = "/system.slice/slurmstepd.scope"
HEX = "0123456789abcdef" * 4
JOBS = {
    "/slurm/uid_1000/job_12": "slurm",
    f"{V2}/job_4": "slurm",
    "/htcondor/condor_var_lib_condor_execute_slot1@host": "htcondor",
    "/system.slice/condor.service/htcondor/condor_var_lib_condor_execute_slot1_1@host": "htcondor",
    "/pbs_jobs.service/jobid/12.server": "pbs",
    "/pbs_jobs.service/jobs/12.server": "pbs",
    "/pbs.slice/pbs_jobs.service/jobs/12.server": "pbs",
    "/torque/12.server": "torque",
    "/lsf/cluster1/job.12.3456.1700000000": "lsf",
    "/oar/alice_b_12": "oar",
}


def slurm(job_id: str | None = None, **more) -> Membership:
    return Membership(batch_system="slurm", job_id=job_id, **more)


def test_the_line_that_names_a_step_is_best(fixtures):
    task = (fixtures / "proc/6663/cgroup").read_text()
    assert parse_process_cgroup(task) == slurm("10", uid=6001, step="batch", node="n1")
    daemon = (fixtures / "proc/6659/cgroup").read_text()
    assert parse_process_cgroup(daemon) == slurm("10", uid=6001, node="n1")
    assert parse_process_cgroup((fixtures / "proc/1/cgroup").read_text()) is None
    assert parse_process_cgroup("4:memory:/slurm/uid_1/job_2\n1:cpu:/slurm/uid_1/job_2/step_3\n").step == "3"


@pytest.mark.parametrize("path", JOBS)
def test_every_system_is_known_by_the_start_of_its_paths_only(path):
    assert match_path(path).batch_system == JOBS[path]
    for user_made in (
        "/user.slice/user-1000.slice",
        "/user.slice/user-1000.slice/user@1000.service",
        "/user.slice",
        f"/docker/{HEX}",
        "/system.slice/mine.service",
        f"/system.slice/docker-{HEX}.scope",
        "/x",
    ):
        assert match_path(user_made + path) is None


@together(itertools.product(JOBS, JOBS))
def test_what_a_job_makes_below_its_own_group_is_its_own(outer, inner):
    for below in (inner, f"/docker/{HEX}", "/user.slice/user-1.slice", f"/libpod-{HEX}.scope"):
        assert match_path(outer + below) == match_path(outer)


@pytest.mark.parametrize("path", JOBS)
def test_the_directories_of_jobs_are_listed_where_the_paths_match(path):
    parts = path.strip("/").split("/")
    [hierarchy] = [each for each in BATCH_HIERARCHIES if each.name == JOBS[path]]
    assert any(
        len(patterns) == len(parts) and all(map(fnmatch.fnmatchcase, parts, patterns))
        for patterns in hierarchy.job_directories
    )


def test_a_job_goes_before_a_unit_and_a_container_before_a_service():
    service, container = "1:name=systemd:/system.slice/a.service\n", f"2:memory:/docker/{HEX}\n"
    job = "3:freezer:/slurm/uid_1/job_2\n"
    assert parse_process_cgroup(service + container + job) == slurm("2", uid=1)
    assert parse_process_cgroup(service + container) == UnitKey(Kind.CONTAINER, "docker-0123456789ab")
    assert parse_process_cgroup(container + service) == UnitKey(Kind.CONTAINER, "docker-0123456789ab")
    assert parse_process_cgroup(service + "4:cpu:/\n") == UnitKey(Kind.SERVICE, "a.service")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (r"a\x2db", "a-b"),
        (r"a\x5b4\x5d", "a[4]"),
        (r"a\x2fb", r"a\x2fb"),
        (r"\x00\x0a\xc3\xa9", r"\x00\x0a\xc3\xa9"),
        (r"\x2\xZZ\x2D", r"\x2\xZZ\x2D"),
    ],
)
def test_what_systemd_escaped_is_read_but_for_slashes_and_bytes_that_are_no_text(name, expected):
    assert unescape(name) == expected


def test_a_unified_line_and_colons_in_a_path_are_read():
    assert parse_process_cgroup(f"0::{V2}/job_4/step_0/user/task_0/a:b\n") == slurm("4", step="0")


@given(st.text() | st.text(alphabet="0:/slurmuid_job12step.scope\n", max_size=200))
def test_any_text_gives_a_job_or_none(text):
    found = parse_process_cgroup(text)
    assert found is None or found.name


PIECES = st.sampled_from(
    ["/", "..", "slurm", "uid_1", "job_2", "step_0", "system.slice", "user.slice", "user-1.slice", ".scope",
     "slurmstepd.scope", "htcondor", "condor_", "slot1_1@h", "pbs_jobs.service", "jobid", "jobs", "torque", "lsf",
     "job.1.2.3", "docker", "kubepods", HEX, "libpod-", "machine-", ".service", ":", "-", "1", "a", "\\x2d", "\0",
     "é", "\udcff"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_path_gives_a_job_or_a_unit_that_can_be_named_or_none(path):
    membership = match_path(path)
    assert membership is None or (membership.name and "/" not in membership.name)
    unit = match_unit(path)
    assert unit is None or ("/" not in unit.name and 0 < len(unit.name) <= 300)
    if membership is not None:
        assert path.startswith("/")
        assert not path.startswith("/user.slice")


POD = "pod01234567_89ab_cdef_0123_456789abcdef"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"/docker/{HEX}", "docker-0123456789ab"),
        (f"/docker/{HEX}/inner", "docker-0123456789ab"),
        (f"/system.slice/docker-{HEX}.scope", "docker-0123456789ab"),
        (f"/system.slice/docker-{HEX}.scope/docker/{'f' * 64}", "docker-0123456789ab"),
        (f"/machine.slice/libpod-{HEX}.scope/container", "podman-0123456789ab"),
        (f"/machine.slice/libpod-conmon-{HEX}.scope", "podman-0123456789ab"),
        (f"/libpod_parent/libpod-{HEX}", "podman-0123456789ab"),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-{POD}.slice/cri-containerd-{HEX}.scope",
            "cri-0123456789ab",
        ),
        (f"/kubepods.slice/kubepods-{POD}.slice/crio-{HEX}.scope", "cri-0123456789ab"),
        (f"/kubepods/besteffort/{POD.replace('_', '-')}/{HEX}", "cri-0123456789ab"),
        (f"/system.slice/kubepods-{POD}.slice:cri-containerd:{HEX}", "cri-0123456789ab"),
        (f"/default/{HEX}", "containerd-0123456789ab"),
        (f"/system.slice/nerdctl-{HEX}.scope", "containerd-0123456789ab"),
        ("/lxc/web", "lxc-web"),
        ("/lxc.payload.web/init.scope", "lxc-web"),
        ("/lxc.monitor/web", "lxc-web"),
        ("/system.slice/apptainer-4711.scope", "apptainer-4711"),
        ("/system.slice/singularity-4711.scope", "apptainer-4711"),
        ("/apptainer/4711", "apptainer-4711"),
        (r"/machine.slice/machine-qemu\x2d1\x2dvm.scope/libvirt", "machine-qemu-1-vm"),
        ("/machine.slice/systemd-nspawn@deb.service/payload", "machine-deb"),
    ],
)
def test_a_container_is_named_by_its_runtime_and_the_start_of_its_id(path, name):
    assert match_unit(path) == UnitKey(Kind.CONTAINER, name)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/system.slice/sshd.service", "sshd.service"),
        ("/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service"),
        ("/system.slice/a.service/b.service/c", "a.service"),
        ("/site.slice/site-fast.slice/b.service", "b.service"),
        ("/init.scope", "init.scope"),
        ("/system.slice/slurmstepd.scope/system", "slurmstepd.scope"),
        (r"/system.slice/mnt\x2dx.service", r"mnt\x2dx.service"),
        (f"/system.slice/docker-{HEX[:-1]}.scope", f"docker-{HEX[:-1]}.scope"),
        ("/a.service", "a.service"),
    ],
)
def test_a_service_is_named_by_the_unit_that_systemd_made(path, name):
    assert match_unit(path) == UnitKey(Kind.SERVICE, name)


@pytest.mark.parametrize(
    "below",
    [
        "",
        "/session-3.scope",
        "/user@1000.service/app.slice/app-x.scope",
        f"/user@1000.service/user.slice/libpod-{HEX}.scope/container",
        "/user@1000.service/user.slice/apptainer-1.scope",
        "/user@1000.service/system.slice/sshd.service",
    ],
)
def test_whatever_a_user_makes_is_the_users_session(below):
    assert match_unit(f"/user.slice/user-1000.slice{below}") == UnitKey(Kind.SESSION, "user-1000")


@pytest.mark.parametrize(
    "path",
    [
        "", "/", "/user.slice", "/user.slice/x.service", "/user.slice/user-x.slice", "/user.slice/user-1000.slicex",
        "/system.slice", "/system.slice/", "/system.slice/x", "/docker", "/docker/abc", f"/docker/{HEX}0",
        f"/docker/x/{HEX}", f"/x/docker/{HEX}", "/kubepods", "/lxc", "/apptainer/x", "/../a.service", "/user.slice/",
        f"/kubepods/podx/{HEX}",
    ],
)  # fmt: skip
def test_any_other_path_is_no_unit(path):
    assert match_unit(path) is None


# --- places that are no ordinary ones -------------------------------------------------

SLUID_GROUP = "n1_slurmstepd.scope/s5K1KKYAYG5D00"
UNUSUAL = {  # a job's group → what it stands below
    f"/site.slice/site-batch.slice/{SLUID_GROUP}": "/site.slice/site-batch.slice",
    f"/kubepods.slice/a/cri-containerd-{HEX}.scope/system.slice/{SLUID_GROUP}": (
        f"/kubepods.slice/a/cri-containerd-{HEX}.scope/system.slice"
    ),
    "/site/slurm_n1/uid_6001/job_10": "/site",
    "/site/batch/condor_var_lib_condor_execute_slot1_1@host": "/site/batch",
    "/pbspro.service/jobid/123.srv": "/pbspro.service",
    "/site/torque/5-3.srv": "/site",
    "/site/oar/alice_b_10": "/site",
    "/site/lsf/cluster1/job.12.3456.1700000000": "/site/lsf/cluster1",
    "/site.slice/site-u6001.slice/site-u6001-j10.slice": "/site.slice",
}


def named(parent: str, *systems: str, is_proven: bool = False) -> Places:
    layouts = [
        (each, layout) for each in BATCH_HIERARCHIES if each.name in systems for layout in each.layouts
    ]
    return Places([Parent(parent, tuple(layouts), is_proven)])


@pytest.mark.parametrize("path", UNUSUAL)
def test_a_job_s_group_below_any_parent_is_told_by_what_its_batch_system_writes_and_counts_where_that_counts(
    path,
):
    parent = UNUSUAL[path]
    assert find_parent(path) == parent
    assert match_path(path) is None
    name = path.removeprefix(f"{parent}/").split("/")[0]
    [(hierarchy, layout)] = layouts_at(parent, [name])
    found = match_path(f"{path}/below", Places([Parent(parent, ((hierarchy, layout),), is_proven=True)]))
    assert (found.parent, found.needs_confirmation) == (parent, True)
    assert match_path(f"/other{path}", named(parent, hierarchy.name)) is None


@pytest.mark.parametrize(
    ("path", "parent", "system", "job_id"),
    [
        ("/pbspro/123.srv", "/pbspro", "pbs", "123"),
        ("/pbspro/123", "/pbspro", "pbs", "123"),
        ("/pbspro.slice/pbspro-123.srv.slice", "/pbspro.slice", "pbs", "123"),
        (r"/pbspro/123\x5b4\x5d.srv/leaf", "/pbspro", "pbs", "123[4]"),
        ("/site/jobs/5-3.srv", "/site/jobs", "torque", "5-3"),
        ("/site/cpuset/alice_b_10", "/site/cpuset", "oar", "10"),
    ],
)
def test_what_has_no_mark_of_its_own_counts_below_a_named_parent_alone(path, parent, system, job_id):
    assert match_path(path) is None
    assert find_parent(path) is None
    found = match_path(path, named(parent, system))
    assert (found.job_id, found.parent, found.needs_confirmation) == (job_id, parent, False)
    assert match_path(parent, named(parent, system)) is None
    assert match_path(f"{parent}x{path.removeprefix(parent)}", named(parent, system)) is None


def test_no_place_of_jobs_is_a_user_s_or_in_a_job_s_group_whoever_made_that():
    assert is_no_place("/user.slice")
    assert is_no_place("/user.slice/user-1000.slice/user@1000.service/app.slice")
    assert is_no_place(f"/kubepods.slice/pod/cri-containerd-{HEX}.scope/user.slice")
    for path in (*JOBS, *UNUSUAL):
        assert is_no_place(path)
        assert is_no_place(f"{path}/docker/{HEX}/system.slice")
    for path in ("", "/system.slice", f"/docker/{HEX}", "/user.slicex", "/site.slice/site-batch.slice"):
        assert not is_no_place(path)


def test_an_ordinary_place_bears_no_further_layouts():
    assert layouts_at("/system.slice", ["slurmstepd.scope"]) == []
    assert layouts_at("/lsf/cluster1", ["job.1.2.3"]) == []
    assert layouts_at("/a/b", ["cron.service", "job_1", "123.srv", "jobs.slice"]) == []
