"""What a user, a container or another program can make never becomes a job, nor changes one."""

import os
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.sampling.layout.hierarchies import match_path
from jobfeatures_exporter.sampling.places import trust
from tests.exporter.sampling.places.staging import HEX, SLURMD, jobs_of, running

REAL = "/system.slice/slurmstepd.scope"
PLACE = "/site.slice/site-a.slice"
FORGED = f"{PLACE}/slurmstepd.scope/job_7"


@pytest.fixture
def real(host):
    """A host with a real job 7, and Slurm, which says that 7 and 8 run here."""
    host.process(500, "slurmd", SLURMD)
    host.job(f"{REAL}/job_7", 700, user_usec=3_000_000, memory=4096)
    return host


def seen(make, finder):
    """Return all that is told of jobs, but for what says when."""
    snapshot = make(jobs=lambda: running("slurm", "7", "8"), places=finder.places).sample()
    return jobs_of(snapshot), {pid: snapshot.key_of(pid) for pid in (700,)}


def forge(host, group, pid=900):
    return host.job(group, pid, user_usec=77_000_000, memory=2**30)


def systemd_user_slice(host):
    """systemd's own manager of a user, with Delegate: the user makes groups and scopes of any name."""
    forge(host, "/user.slice/user-1000.slice/user@1000.service/app.slice/slurmstepd.scope/job_7")
    forge(host, "/user.slice/slurmstepd.scope/job_8")
    forge(host, "/site.slice/user@1000.service/x.slice/slurmstepd.scope/job_8")


def rootless_podman(host):
    """A container of a user's with a slurmd of its own: root of its user namespace alone."""
    inside = f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{HEX}.scope"
    forge(host, f"{inside}/system.slice/slurmstepd.scope/job_8")
    host.process(
        901, "slurmstepd", f"0::{inside}/system.slice/slurmstepd.scope/system\n", uid_map="0 1000 1\n"
    )


def privileged_container(host):
    """Root of the host in a container without a user namespace, with the host's control group namespace."""
    inside = f"/system.slice/docker-{HEX}.scope"
    forge(host, f"{inside}/system.slice/slurmstepd.scope/job_8")
    host.process(901, "slurmstepd", f"0::{inside}/system.slice/slurmstepd.scope/system\n")


# Of runtimes without a known name; a slurmd in one has its own batch system.
UNKNOWN = [
    f"/system.slice/web.service/libpod-payload-{HEX}",
    f"/batch/{HEX}",
    f"/{HEX}",
    "/nomad.slice/share.slice/5d0b8e3c-1111-2222-3333-444444444444.web.scope",
    "/machine.slice/libvirt-qemu-1.scope",
    "/garden/abc",
    "/incus.payload.c1",
]


@pytest.mark.parametrize("container", UNKNOWN)
@pytest.mark.parametrize("below", ["", "/system.slice", "/pods/a"])
def test_a_privileged_container_of_an_unknown_kind_makes_no_job(real, make, container, below):
    before = seen(make, real.finder())
    forge(real, f"{container}{below}/slurmstepd.scope/job_8")
    assert seen(make, real.finder()) == before


def service_with_delegation(host):
    """A service of root's whose subtree is delegated to whatever runs in it."""
    parents = forge(host, "/system.slice/build.service/x.slice/slurmstepd.scope/job_8").parents
    host.delegated.add(str(parents[2]))


def group_that_others_may_write(host):
    forge(host, f"{PLACE}/slurmstepd.scope/job_8").parents[1].chmod(0o775)


def scope_that_others_may_write(host):
    forge(host, f"{PLACE}/slurmstepd.scope/job_8").parents[0].chmod(0o777)


def real_number_beside_the_real_job(host):
    """Even where a proven daemon stands beside it."""
    forge(host, f"{PLACE}/slurmstepd.scope/job_7")


ATTACKS = [
    systemd_user_slice,
    rootless_podman,
    privileged_container,
    service_with_delegation,
    group_that_others_may_write,
    scope_that_others_may_write,
    real_number_beside_the_real_job,
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_makes_a_job_or_changes_another(real, make, attack):
    before = seen(make, real.finder())
    attack(real)
    assert seen(make, real.finder()) == before


# Processes that bear a daemon's name; all but the first prove nothing.
PRETENDERS = {
    "": {},
    "is not root's": {"uid": 1000},
    "is in a user namespace": {"uid_map": "0 100000 65536\n"},
    "its cgroup namespace is not the host's": {"namespace": "4026532999"},
    "runs python3": {"program": "python3"},
}


@pytest.mark.parametrize("problem", PRETENDERS)
def test_a_program_renamed_slurmstepd_proves_nothing(host, make, problem, caplog):
    forge(host, f"{PLACE}/slurmstepd.scope/job_8")
    host.process(500, "slurmstepd", f"0::{PLACE}/slurmstepd.scope/system\n", **PRETENDERS[problem])
    jobs, _ = seen(make, host.finder())
    assert (jobs.keys() == {"8"}) == (problem == "")
    assert problem in caplog.text


@pytest.mark.parametrize("where", ["program", "folder"])
def test_a_program_that_others_may_write_proves_nothing(host, make, where, caplog):
    forge(host, f"{PLACE}/slurmstepd.scope/job_8")
    host.process(500, "slurmd", SLURMD)
    (host.programs / "slurmd" if where == "program" else host.programs).chmod(0o777)
    assert seen(make, host.finder())[0] == {}
    assert "others than root can write the program of process 500, or its folder" in caplog.text


@pytest.mark.parametrize(
    ("program", "is_proof"), [("slurmd-wlm", True), ("slurmdbd", False), ("slurm", False)]
)
def test_a_daemon_s_program_may_have_the_name_that_a_distribution_gives_it(host, make, program, is_proof):
    """Debian's slurmd is a link to slurmd-wlm."""
    forge(host, f"{PLACE}/slurmstepd.scope/job_8")
    host.process(500, "slurmd", SLURMD, program=program)
    assert (seen(make, host.finder())[0].keys() == {"8"}) == is_proof


def test_a_program_that_is_not_root_s_proves_nothing(host, make, monkeypatch):
    forge(host, f"{PLACE}/slurmstepd.scope/job_8")
    host.process(500, "slurmd", SLURMD)
    monkeypatch.setattr(trust, "ROOT_UID", os.getuid() + 1)
    assert seen(make, host.finder())[0] == {}


@pytest.mark.parametrize(
    "group",
    [
        "/user.slice/user-1000.slice/session-1.scope",
        f"/system.slice/docker-{HEX}.scope",
        f"{REAL}/job_7/step_0/user/task_0",
    ],
)
def test_a_daemon_in_a_user_s_a_container_s_or_a_job_s_group_proves_nothing(host, make, group):
    forge(host, f"{PLACE}/slurmstepd.scope/job_8")
    host.process(500, "slurmd", f"0::{group}\n")
    assert host.finder().places().parents == {}


def test_what_is_delegated_to_the_daemon_itself_is_its_own(host, make):
    """systemd marks slurmstepd's scope so, and condor.service."""
    scope = forge(host, f"{PLACE}/slurmstepd.scope/job_8").parents[0]
    host.delegated.add(str(scope))
    host.process(500, "slurmd", SLURMD)
    assert seen(make, host.finder())[0] == {}
    host.process(501, "slurmstepd", f"0::{PLACE}/slurmstepd.scope/system\n")
    assert seen(make, host.finder())[0].keys() == {"8"}


@pytest.mark.parametrize("missing", ["uid_map", "exe", "ns/pid", "status"])
def test_what_cannot_be_read_of_a_daemon_proves_nothing(host, make, missing):
    forge(host, f"{PLACE}/slurmstepd.scope/job_8")
    (host.process(500, "slurmd", SLURMD) / missing).unlink()
    assert seen(make, host.finder())[0] == {}


# --- names of others ------------------------------------------------------------------

WORDS = [
    "docker",
    "kubepods",
    "lxc",
    "machine",
    "garden",
    "ecs",
    "apptainer",
    "nomad",
    "mesos",
    "buildkit",
    "crio",
    "podman",
    "libpod",
    "system",
    "app",
    "session",
    "user",
    "init",
    "getty",
    "cron",
    "sshd",
    "nginx",
    "postgresql",
    "slurm-exporter",
    "slurmrestd",
    "condor-ce",
    "pbs-exporter",
    "oar-api",
    "lsf-web",
    "torque-gui",
    "jobs",
    "jobid",
    "job",
    "batch",
    "qemu",
    "100",
    "1.service",
    "run-u12",
    "kubelet",
    "containerd-shim",
    "job_runner",
    "slurmd_exporter",
]
ENDINGS = [
    "",
    ".service",
    ".scope",
    ".slice",
    "_1",
    "-1",
    ".1",
    "@1.service",
    "/1",
    "/job_1",
    f"/{HEX}",
    "/a_b",
]
_RANDOM = random.Random(37)
NAMES = [f"/{word}{ending}" for word in WORDS for ending in ENDINGS] + [
    "/" + "/".join(
        "".join(_RANDOM.choices(string.ascii_letters + string.digits + "-_.@:\\", k=_RANDOM.randint(1, 20)))
        for _ in range(_RANDOM.randint(1, 5))
    )
    for _ in range(200)
]  # fmt: skip


def test_500_names_of_others_are_no_job_s_whatever_batch_system_is_here(real, make):
    assert len(NAMES) >= 500
    before = seen(make, real.finder())
    for number, name in enumerate(NAMES):
        if match_path(name) is None and "//" not in name and "/../" not in f"{name}/":
            (real.node.cgroup / name[1:]).mkdir(parents=True, exist_ok=True)
            real.node.process(10_000 + number, cgroup=f"0::{name}\n")
    real.process(501, "pbs_mom", "0::/system.slice/pbs.service\n")
    real.process(502, "sbatchd", "0::/system.slice/lsf.service\n")
    real.process(503, "condor_master", "0::/system.slice/condor.service\n")
    real.systems = ["slurm", "pbs", "torque", "lsf", "htcondor", "oar"]
    finder = real.finder()
    assert seen(make, finder) == before
    jobs = {
        **running("pbs", "1"),
        **running("torque", "1"),
        **running("oar", "1"),
        **running("slurm", "7", "8"),
    }
    now = jobs_of(make(jobs=lambda: jobs, places=finder.places).sample())
    assert {(job.key.batch_system, job.cgroup) for job in now.values()} == {("slurm", f"{REAL}/job_7")}


NO_JOB = st.lists(
    st.text(st.characters(exclude_characters="/\0\n", exclude_categories=["Cs"]), min_size=1, max_size=30),
    min_size=1,
    max_size=6,
)


@given(NO_JOB)
def test_a_random_name_is_no_job_s(names):
    """By no mark: a name that bears one would have been drawn with a chance that is no chance."""
    from jobfeatures_exporter.sampling.layout.hierarchies import find_parent

    assert find_parent("/" + "/".join(names)) is None


def test_of_a_file_system_without_attributes_nothing_is_delegated(tmp_path):
    assert not trust.is_delegated(str(tmp_path))
