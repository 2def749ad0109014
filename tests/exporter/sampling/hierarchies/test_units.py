"""Containers, services and sessions; paths constructed after systemd's and the runtimes' manuals."""

import pytest

from jobfeatures_exporter.sampling.hierarchies.units import match_unit
from jobfeatures_exporter.snapshot import Kind, UnitKey

HEX = "0123456789abcdef" * 4
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
